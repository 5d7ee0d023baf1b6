"""The quick forms of `trainings/` assert what they claim, and a training that is killed continues at no cost."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TRAININGS = Path(__file__).resolve().parents[2] / "trainings"
FIGURES = TRAININGS.parent / "docs" / "trainings"


def command(name, folder, *words):
    return [sys.executable, str(TRAININGS / f"{name}.py"), "--folder", str(folder), *words]


def ran(name, folder, *words):
    """What a training prints, run to its end."""
    done = subprocess.run(command(name, folder, *words), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(found)
    return found


def test_federated_roles(tmp_path):
    """Killed once, it continues with the same noise: rows after the checkpoint are requested again for the same sums."""
    first = subprocess.Popen(command("federated_roles", tmp_path, "--quick"), stdout=subprocess.DEVNULL)
    run = tmp_path / "identity-0"
    while not (run / "state.npz").exists():
        assert first.poll() is None
        time.sleep(0.01)
    first.send_signal(signal.SIGKILL)
    first.wait()
    found = ran("federated_roles", tmp_path, "--quick")
    for mechanism in ("identity", "tree", "blt", "band-mf"):
        assert found["mechanisms"][mechanism]["epsilon"] == pytest.approx(8.0, rel=1e-6)
    assert json.loads((run / "result.json").read_text())["branch"] == 0
    assert len(list(tmp_path.glob("*/report.md"))) == 8


def test_amplified_digits(tmp_path):
    found = ran("amplified_digits", tmp_path, "--quick")
    assert {row["batches"] for row in found["rows"]} == {"poisson", "fixed-order", "cyclic-poisson"}
    assert len(list(tmp_path.glob("*/report.md"))) == 9


@pytest.mark.parametrize("name", ["roles", "digits"])
def test_the_page_has_the_figures(name):
    """Its tables are those that `trainings/page.py` makes of the figures beside it, of five seeds or more."""
    figures = json.loads((FIGURES / f"{name}.json").read_text())
    assert figures["seeds"] >= 5 and figures["command"].startswith("python trainings/")
    done = subprocess.run(
        [sys.executable, str(TRAININGS / "page.py"), name, str(FIGURES / f"{name}.json")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    page = (FIGURES.parent / "trainings.md").read_text()
    for table in done.stdout.strip().split("\n\n"):
        assert table in page, table
