"""Training with every adapter, killed at any moment and continued from its checkpoint. COUNT=50 sets the runs of each."""

import importlib.util
import os

import kill_jobs
import kills
import pytest

COUNT = int(os.environ.get("COUNT", "2"))
NEEDS = {"torch": "torch", "opacus": "opacus", "jax": "optax"}


@pytest.fixture(scope="module", params=kill_jobs.DIMENSIONS)
def host(request):
    needs = NEEDS.get(request.param)
    if needs and not importlib.util.find_spec(needs):
        pytest.skip(f"{needs} is not installed")
    started = kills.Host(request.param)
    yield request.param, started
    started.close()


@pytest.mark.parametrize("commitment", ["exact", "declared"])
def test_killed_anywhere(host, commitment, tmp_path):
    job, started = host
    kills.Campaign(started, job, commitment, tmp_path).run(COUNT)
