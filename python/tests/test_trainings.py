"""The quick forms of `trainings/` assert what they claim, and a training that is killed continues at no cost."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import BINARY

TRAININGS = Path(__file__).resolve().parents[2] / "trainings"
FIGURES = TRAININGS.parent / "docs" / "trainings"
MECHANISMS = ("identity", "tree", "blt", "band-mf")


def command(name, folder, *words):
    return [sys.executable, str(TRAININGS / f"{name}.py"), "--folder", str(folder), *words]


def ran(name, folder, *words):
    """What a training prints, run to its end."""
    environment = {**os.environ, "RUSTLE_BIN": str(BINARY)}
    done = subprocess.run(command(name, folder, *words), capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(found)
    return found


def saved(run):
    """When the run's checkpoint was written, or None before the first one."""
    state = run / "state.npz"
    return state.stat().st_mtime_ns if state.exists() else None


def stopped_amid_rows(training, folder):
    """Stops the training some rows after the second checkpoint of a run, and returns the run's folder.

    The first checkpoint is written before any row is bound. A run that is over by then leaves it to the next one.
    """
    for mechanism in MECHANISMS:
        run = folder / f"{mechanism}-0"
        while (begun := saved(run)) is None:
            assert training.poll() is None
            time.sleep(0.01)
        while saved(run) == begun and not (run / "result.json").exists():
            assert training.poll() is None
            time.sleep(0.01)
        time.sleep(0.2)
        training.send_signal(signal.SIGSTOP)
        if not (run / "result.json").exists():
            return run
        training.send_signal(signal.SIGCONT)
    raise AssertionError("every run was over before it could be stopped")


def test_federated_roles(tmp_path):
    """Killed once, it continues with the same noise: rows after the checkpoint are requested again for the same sums."""
    first = subprocess.Popen(command("federated_roles", tmp_path, "--quick"), stdout=subprocess.DEVNULL)
    try:
        run = stopped_amid_rows(first, tmp_path)
    finally:
        first.kill()
        first.wait()
    found = ran("federated_roles", tmp_path, "--quick")
    for mechanism in MECHANISMS:
        assert found["mechanisms"][mechanism]["epsilon"] == pytest.approx(8.0, rel=1e-6)
    assert json.loads((run / "result.json").read_text())["branch"] == 0
    assert len(list(tmp_path.glob("*/report.md"))) == 8


def test_amplified_digits(tmp_path):
    found = ran("amplified_digits", tmp_path, "--quick")
    assert {row["batches"] for row in found["rows"]} == {"poisson", "fixed-order", "cyclic-poisson"}
    assert len(list(tmp_path.glob("*/report.md"))) == 9


def test_at_size(tmp_path):
    """The training of a hundred million numbers, with a small model: a cluster of two workers over shared memory."""
    if not BINARY.exists():
        pytest.skip(f"no program {BINARY}; set RUSTLE_BIN")
    found = ran("at_size", tmp_path, "--quick")
    names = [one["name"] for one in found["kinds"]["blt"]["processes"]]
    assert sorted(names) == ["coordinator", "training", "up", "worker-0", "worker-1"]
    assert {one["dimension"] for one in found["paper"]} == {found["parameters"], 10**9, 10**11}
    assert len(list(tmp_path.glob("*/report.md"))) == 3


def test_strategies_digits(tmp_path):
    if not BINARY.exists():
        pytest.skip(f"no program {BINARY}; set RUSTLE_BIN")
    found = ran("strategies_digits", tmp_path, "--quick")
    assert len(found["rows"]) == 6 and len(list(tmp_path.glob("*/report.md"))) == 12


@pytest.mark.parametrize("name", ["roles", "digits", "strategies", "mail", "size"])
def test_the_page_has_the_figures(name):
    """Its tables are those that `trainings/page.py` makes of the figures beside it, of five seeds or more; sizes need one."""
    figures = json.loads((FIGURES / f"{name}.json").read_text())
    assert figures["seeds"] >= (1 if name == "size" else 5) and figures["command"].startswith("python trainings/")
    done = subprocess.run(
        [sys.executable, str(TRAININGS / "page.py"), name, str(FIGURES / f"{name}.json")],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    page = (FIGURES.parent / "trainings.md").read_text()
    for table in done.stdout.strip().split("\n\n"):
        assert table in page, table
