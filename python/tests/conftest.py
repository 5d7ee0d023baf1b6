"""What the package's tests share: a plan, a folder with an engine in this process, and a real cluster."""

import json
import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

import rustle

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("RUSTLE_BIN", ROOT / "target" / "release" / "rustle"))
KEY = bytes(range(32))
DIMENSION, STEPS = 3000, 12


@pytest.fixture
def plan():
    found = rustle.plan(
        iterations=STEPS,
        epsilon=4,
        delta=1e-5,
        min_sep=4,
        max_participations=3,
        mechanism="band-mf",
        size=4,
        clip_norm=2.0,
    )
    return found.replace(dimension=DIMENSION)


@pytest.fixture
def folder(tmp_path, plan):
    """A folder with plan.toml and the tests' key."""
    return prepared(tmp_path / "run", plan)


def prepared(folder, plan):
    folder.mkdir(parents=True)
    plan.save(folder / "plan.toml")
    key = folder / "job.key"
    key.touch(mode=0o600)
    key.write_bytes(KEY)
    key.chmod(0o400)
    return folder


@pytest.fixture
def session(folder):
    with rustle.connect(f"inproc://{folder}") as session:
        yield session


def rows(session, steps):
    """Rows of the first ``steps`` steps, float32 of shape (steps, dimension)."""
    found = np.empty((steps, session.dimension), np.float32)
    for step in range(steps):
        session.fetch_into(step, found[step])
    return found


class Cluster:
    """`rustle up`, on Unix sockets unless other links are named, with regions taken, until it is stopped."""

    def __init__(self, folder, workers=2, links=("--unix",)):
        words = ["up", "--plan", folder / "plan.toml", "--workers", workers, *links, "--shared-memory"]
        words += ["--key-file", folder / "job.key", "--data-dir", folder / "cluster", "--format", "json"]
        log = open(folder / "up.log", "wb")
        self.process = subprocess.Popen([str(BINARY), *map(str, words)], stdout=subprocess.PIPE, stderr=log)
        self.answer = json.loads(self.process.stdout.readline())
        self.socket = self.answer["coordinator"].removeprefix("unix://")

    def url(self, scheme="unix"):
        return f"{scheme}://{self.socket}?timeout=60"

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)


@pytest.fixture
def cluster(folder):
    if not BINARY.exists():
        pytest.skip(f"no program {BINARY}; set RUSTLE_BIN")
    started = Cluster(folder)
    yield started
    started.stop()


def pytest_terminal_summary(terminalreporter):
    from kills import FIGURES

    if FIGURES:
        terminalreporter.section("kills")
        terminalreporter.write_line("\n".join(FIGURES))
