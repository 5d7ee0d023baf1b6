"""What all trainings share: runs that end where they were cut off and continue, their results, and the figures over seeds."""

import argparse
import json
import os
import shlex
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Callable, Iterable

import numpy as np

#: Rounds from one checkpoint to the next.
EVERY = 20


def parser(description: str | None, folder: str, seeds: int) -> argparse.ArgumentParser:
    """Returns a parser with the options of every training."""
    found = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    found.add_argument(
        "--folder", type=lambda path: Path(path).resolve(), default=folder, help="where runs are, and continue"
    )
    found.add_argument("--seeds", type=int, default=seeds, help="runs of each setting")
    found.add_argument("--processes", type=int, default=1, help="runs side by side")
    found.add_argument("--quick", action="store_true", help="the form that tests run, within a minute")
    found.add_argument("--tune", action="store_true", help="choose learning rates, on data that no run trains on")
    return found


def begin(arguments: argparse.Namespace) -> None:
    """Refuses a folder whose runs have other options: what is there would be taken for what was requested."""
    settings = {name: value for name, value in vars(arguments).items() if name not in ("folder", "processes", "seeds")}
    if arguments.tune:
        arguments.folder = arguments.folder / "tuning"
    path = arguments.folder / "settings.json"
    if path.exists() and json.loads(path.read_text()) != settings:
        raise SystemExit(f"{path} has other options; allowed: the same ones, or another --folder")
    arguments.folder.mkdir(parents=True, exist_ok=True)
    write(path, settings)


def each(function: Callable[..., dict], calls: Iterable[tuple], processes: int) -> list[dict]:
    """Returns what the function returns for each of these arguments, in their order."""
    calls = list(calls)
    # Models are small: threads that wait for each other cost more than they bring. Of processes yet to start.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if processes == 1:
        return [function(*call) for call in calls]
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        return [future.result() for future in [pool.submit(function, *call) for call in calls]]


def secret(path: Path) -> bytes:
    """Returns the 32 bytes of the file, which are drawn at the first call: a run that continues has the same batches."""
    if not path.exists():
        written = path.with_suffix(".new")
        written.touch(mode=0o600)
        written.write_bytes(os.urandom(32))
        written.rename(path)
    return path.read_bytes()


def save(folder: Path, state: dict[str, np.ndarray]) -> None:
    """Writes a checkpoint, whole or not at all. It holds a cursor, so it is readable by its owner alone."""
    written = folder / "state.new"
    written.touch(mode=0o600)
    with written.open("wb") as file:
        np.savez(file, **state)
        file.flush()
        os.fsync(file.fileno())
    written.rename(folder / "state.npz")


def load(folder: Path) -> dict[str, np.ndarray] | None:
    """Returns the run's last checkpoint, or None before the first one."""
    if not (folder / "state.npz").exists():
        return None
    with np.load(folder / "state.npz") as found:
        return dict(found)


def result(folder: Path) -> dict[str, Any] | None:
    """Returns the result of a run that is over."""
    path = folder / "result.json"
    return json.loads(path.read_text()) if path.exists() else None


def finish(folder: Path, found: dict[str, Any]) -> dict[str, Any]:
    """Writes a run's result, which marks it as over."""
    write(folder / "result.json", found)
    return found


def write(path: Path, found: dict[str, Any]) -> None:
    written = path.with_suffix(".new")
    written.write_text(json.dumps(found, indent=1) + "\n")
    written.rename(path)


def spread(values: Iterable[float]) -> dict[str, Any]:
    """Returns mean, standard deviation and range over seeds, and the values themselves."""
    values = [float(value) for value in values]
    deviation = statistics.stdev(values) if len(values) > 1 else 0.0
    return {
        "mean": statistics.fmean(values),
        "deviation": deviation,
        "least": min(values),
        "most": max(values),
        "values": values,
    }


def command() -> str:
    """Returns the command of this process, as it is typed at the root of the repository."""
    return shlex.join(["python", f"trainings/{Path(sys.argv[0]).name}", *sys.argv[1:]])
