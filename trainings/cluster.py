"""Where a run's noise comes from: an engine in this process, or a cluster of its own."""

import ctypes
import json
import os
import signal
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator


@contextmanager
def source(folder: Path, workers: int, shared_memory: bool = False) -> Iterator[str]:
    """Yields the URL to connect to: of ``rustle up`` with so many workers, whose data lie in the folder; 0 for none.

    ``shared_memory``: whether workers write rows to memory of this process.
    """
    if workers == 0:
        yield f"inproc://{folder}"
        return
    program = os.environ.get("RUSTLE_BIN", "rustle")
    words = ["up", "--plan", folder / "plan.toml", "--workers", workers, "--unix", "--format", "json"]
    words += ["--data-dir", folder / "cluster", *(["--shared-memory"] if shared_memory else [])]
    with open(folder / "cluster.log", "ab") as log:
        process = subprocess.Popen(
            [program, *map(str, words)], stdout=subprocess.PIPE, stderr=log, preexec_fn=_ends_with_parent
        )
    try:
        answer = process.stdout.readline()
        if not answer:
            raise SystemExit(f"no cluster; {folder / 'cluster.log'} says why")
        # A loaded machine may take its time.
        url = json.loads(answer)["coordinator"]
        yield f"{url.replace('unix', 'shm', 1) if shared_memory else url}?timeout=600"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def _ends_with_parent() -> None:
    """Has Linux stop the cluster where this process is killed: the next one starts it again on the same data."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGTERM)
