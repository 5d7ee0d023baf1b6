"""The examples run, keep their ε, and correlated noise beats independent noise."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def ran(name, folder, *words):
    """What an example prints, run by itself."""
    pytest.importorskip("sklearn")
    command = [sys.executable, EXAMPLES / f"{name}.py", "--folder", folder, *words]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(found)
    return found


@pytest.mark.parametrize("name, needs", [("digits_opacus", "opacus"), ("digits_jax", "optax")])
def test_digits(tmp_path, name, needs):
    pytest.importorskip(needs)
    found = ran(name, tmp_path / "digits", "--seeds", "2")
    for mechanism in ("band-mf", "identity"):
        assert found[mechanism]["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert found["gain"] > 0.1 and found["band-mf"]["accuracy"] > 0.5
    assert len(list((tmp_path / "digits").glob("*/report.md"))) == 8


def test_federated_digits(tmp_path):
    words = ("--seeds", "2", "--epochs", "6", "--learning-rates", "0.1", "0.3")
    found = ran("federated_digits", tmp_path / "run", *words)
    for mechanism in ("band-mf", "identity"):
        assert found[mechanism]["epsilon"] == pytest.approx(2.0, rel=1e-6)
    assert found["gain"] > 0.05 and found["band-mf"]["accuracy"] > 0.8
    assert len(list((tmp_path / "run").glob("*/report.md"))) == 8


def test_user_level_digits(tmp_path):
    words = ("--seeds", "1", "--learning-rates", "0.2")
    found = ran("user_level_digits", tmp_path / "run", *words)
    for kind in ("els", "uls", "uls-in-turn"):
        assert 5.9 < found[kind]["epsilon"] < 6 * (1 + 1e-6) and found[kind]["accuracy"] > 0.75
    assert len(list((tmp_path / "run").glob("*/report.md"))) == 3


def test_balls_in_bins_digits(tmp_path):
    words = ("--seeds", "1", "--samples", "20000", "--learning-rates", "0.2", "0.5")
    found = ran("balls_in_bins_digits", tmp_path / "run", *words)
    for mechanism in ("band-mf", "identity"):
        assert 1.8 < found[mechanism]["epsilon"] < 2.1 < found[mechanism]["without_amplification"]
        assert found[mechanism]["accuracy"] > 0.8
    assert len(list((tmp_path / "run").glob("*/report.md"))) == 4
