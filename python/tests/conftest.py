"""What the package's tests share: a plan, a folder with an engine in this process, and a real cluster."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import pytest

import rustle

ROOT = Path(__file__).resolve().parents[2]
BINARY = Path(os.environ.get("RUSTLE_BIN", ROOT / "target" / "release" / "rustle"))
KEY = bytes(range(32))
DIMENSION, STEPS = 3000, 12

BEGUN = tempfile.TemporaryDirectory(prefix="rustle-begun-")


@pytest.fixture
def plan():
    found = rustle.plan(
        float=True,
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
    """A folder with plan.toml, the tests' key, and a ledger that has released nothing."""
    return prepared(tmp_path / "run", plan)


def prepared(folder, plan):
    """A folder whose noise is that of every other one with this plan, so that a test knows it.

    No other program may have such folders: they are copies of one ledger, with its nonces, from before anything took it up.
    """
    own = Path(BEGUN.name) / "plan.toml"
    plan.save(own)
    shutil.copytree(begun(own.read_bytes()), folder)
    return folder


def begun(plan):
    """The one folder of the plan with these bytes: its ledger holds the job, and nothing is released."""
    folder = Path(BEGUN.name) / hashlib.sha256(plan).hexdigest()
    if not folder.exists():
        key = write_key(Path(BEGUN.name) / "job.key")
        folder.mkdir()
        (folder / "plan.toml").write_bytes(plan)
        words = [BINARY.with_name("begin-job"), folder / "ledger.redb", folder / "plan.toml", key]
        subprocess.run([*map(str, words)], check=True)
        write_key(folder / "job.key")
    return folder


def write_key(path):
    """The tests' key as a file, which may be there already."""
    if not path.exists():
        path.touch(mode=0o600)
        path.write_bytes(KEY)
        path.chmod(0o400)
    return path


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
    """`rustle up`, on Unix sockets unless other links are named, with regions taken, until it is stopped. Its noise is
    the folder's."""

    def __init__(self, folder, workers=2, links=("--unix",)):
        own = folder / "cluster" / "coordinator"
        own.mkdir(parents=True, mode=0o700)
        shutil.copy(begun((folder / "plan.toml").read_bytes()) / "ledger.redb", own)
        words = ["up", "--plan", folder / "plan.toml", "--workers", workers, *links, "--shared-memory"]
        words += ["--key-file", folder / "job.key", "--data-dir", folder / "cluster", "--format", "json"]
        log = open(folder / "up.log", "wb")
        self.process = subprocess.Popen([str(BINARY), *map(str, words)], stdout=subprocess.PIPE, stderr=log)
        self.answer = json.loads(self.process.stdout.readline())
        self.socket = self.answer["coordinator"].removeprefix("unix://")
        try:
            self._cut(min(workers, -(-self.answer["dimension"] // 512)))
        except subprocess.CalledProcessError as error:
            self.stop()
            raise AssertionError(error.stderr.decode()) from error

    def _cut(self, shards):
        """Into a shard for each worker: the folder's ledger has one."""
        access = ["--coordinator", self.answer["coordinator"]]
        if self.answer["coordinator"].startswith("https://"):
            access += ["--tls-dir", Path(self.answer["logs"]) / "tls" / "operator"]
        if shards > self.answer["shards"]:
            words = ["job", "reshard", *access, "--shards", shards]
            subprocess.run([str(BINARY), *map(str, words)], check=True, capture_output=True)

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
