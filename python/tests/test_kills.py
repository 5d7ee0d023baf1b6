"""Training with every adapter, killed at any moment and continued from its checkpoint. COUNT=50 sets the runs of each."""

import importlib.util
import os

import kill_federated
import kill_ranks
import kill_trainers
import kills
import pytest
from conftest import BINARY

COUNT = int(os.environ.get("COUNT", "2"))
NEEDS = {
    "torch": "torch",
    "opacus": "opacus",
    "jax": "optax",
    "wrapper": "torch",
    "lightning": "lightning",
    "accelerate": "accelerate",
    "transformers": "transformers",
    "keras-torch": "keras",
    "keras-jax": "keras",
    "flower": "flwr",
    "nvflare": "nvflare",
    "ranks": "torch",
    "fsdp2": "torch",
}
DECLARED = kill_trainers.DECLARED | kill_federated.REFUSED
RUNS = [(job, kind) for job in kills.DIMENSIONS for kind in ("exact", "declared") if kind == "declared" or job not in DECLARED]


@pytest.fixture(scope="module")
def host(request):
    needs = NEEDS.get(request.param)
    if needs and not importlib.util.find_spec(needs):
        pytest.skip(f"{needs} is not installed")
    if request.param in kill_ranks.DIMENSIONS and not BINARY.exists():
        pytest.skip(f"no program {BINARY}; set RUSTLE_BIN")
    started = kills.Host(request.param)
    yield request.param, started
    started.close()


@pytest.mark.parametrize("host, commitment", RUNS, indirect=["host"])
def test_killed_anywhere(host, commitment, tmp_path):
    job, started = host
    kind = kills.RefusingCampaign if job in kill_federated.REFUSED else kills.Campaign
    kind(started, job, commitment, tmp_path).run(COUNT)
