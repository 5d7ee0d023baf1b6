"""Sessions to measure: an engine in this process, or a cluster of this host by shared memory."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Iterator

from figures import ROOT

import rustle

WAYS = ("inproc", "shm")


def binary() -> Path:
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    return Path(os.environ.get("RUSTLE_BIN", target / "release" / "rustle"))


def plan(dimension: int, iterations: int, mechanism: str = "blt", size: int | None = 4) -> rustle.Plan:
    found = rustle.plan(
        float=True,
        iterations=iterations,
        epsilon=4,
        delta=1e-5,
        min_sep=100,
        max_participations=max(1, iterations // 100),
        mechanism=mechanism,
        size=size,
    )
    return found.replace(dimension=dimension)


@contextlib.contextmanager
def session(way: str, folder: Path, made: rustle.Plan) -> Iterator[rustle.Session]:
    """A new job in ``folder`` of the plan, by ``inproc`` or ``shm``."""
    folder.mkdir(parents=True)
    made.save(folder / "plan.toml")
    if way == "inproc":
        with rustle.connect(f"inproc://{folder}") as opened:
            yield opened
        return
    with _cluster(folder) as url, rustle.connect(url) as opened:
        yield opened


@contextlib.contextmanager
def _cluster(folder: Path) -> Iterator[str]:
    """Two workers with a processor's share of threads each, on Unix sockets, taking regions."""
    key = folder / "job.key"
    key.touch(mode=0o600)
    key.write_bytes(os.urandom(32))
    key.chmod(0o400)
    words = ["up", "--plan", folder / "plan.toml", "--workers", 2, "--unix", "--shared-memory", "--format", "json"]
    words += ["--key-file", key, "--data-dir", folder / "cluster"]
    with open(folder / "up.log", "wb") as log:
        process = subprocess.Popen([binary(), *map(str, words)], stdout=subprocess.PIPE, stderr=log)
    try:
        line = process.stdout.readline()
        if not line:
            raise RuntimeError(f"rustle up: {(folder / 'up.log').read_text()[-500:]}")
        yield "shm://" + json.loads(line)["coordinator"].removeprefix("unix://") + "?timeout=60"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)
