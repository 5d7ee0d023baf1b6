"""The examples run, keep their ε, and correlated noise beats independent noise."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


@pytest.mark.parametrize("name, needs", [("digits_opacus", "opacus"), ("digits_jax", "optax")])
def test_digits(tmp_path, name, needs):
    pytest.importorskip(needs)
    pytest.importorskip("sklearn")
    command = [sys.executable, EXAMPLES / f"{name}.py", "--seeds", "2", "--folder", tmp_path / "digits"]
    done = subprocess.run([*map(str, command)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(found)
    for mechanism in ("band-mf", "identity"):
        assert found[mechanism]["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert found["gain"] > 0.1 and found["band-mf"]["accuracy"] > 0.5
    assert len(list((tmp_path / "digits").glob("*/report.md"))) == 8
