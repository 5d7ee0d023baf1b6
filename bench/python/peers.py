"""Rows a second of the engine in a process beside other libraries', each in a process of its own, strictly in turn."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import figures

DIMENSION = 2_000_000
FAMILIES = ("identity", "blt", "banded", "tree")
PEERS = ("jax-privacy", "torch", "tensorflow-privacy")
TENSORFLOW = ("tensorflow-cpu==2.20.0", "attrs==23.2.0")


class Peer:
    def __init__(self, python: Path, library: str, threads: int, log: Path):
        words = [python, Path(__file__).with_name("noise_makers.py"), library]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(log, "wb"))
        self.process = subprocess.Popen([*map(str, words)], text=True, env=environment, **pipes)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
            return json.loads(self.process.stdout.readline() or '{"error": "its process ended"}')
        except BrokenPipeError:
            return {"error": "its process ended"}

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait(60)


def measure(
    folder: Path, rounds: int, seconds: float, threads: int, environment: Path, quick: bool
) -> dict[str, Any]:
    pythons = dict.fromkeys(("ours", *PEERS), Path(sys.executable))
    failed = []
    try:
        pythons["tensorflow-privacy"] = _tensorflow(environment)
    except (subprocess.CalledProcessError, OSError) as error:
        said = getattr(error, "stderr", None) or str(error)
        failed.append({"library": "tensorflow-privacy", "family": "all", "error": said.strip()[-300:]})
        del pythons["tensorflow-privacy"]
    processes = {
        library: Peer(python, library, threads, folder / f"{library}.log") for library, python in pythons.items()
    }
    compared, dimension = [], DIMENSION // 10 if quick else DIMENSION
    try:
        for family in FAMILIES:
            setting = {"family": family, "dimension": dimension, "threads": threads}
            compared += _family(setting, processes, folder, (rounds, seconds), failed)
    finally:
        for process in processes.values():
            process.close()
    return {"dimension": dimension, "threads": threads, "compared": compared, "failed": failed}


def _family(
    setting: dict[str, Any],
    processes: dict[str, Peer],
    folder: Path,
    how: tuple[int, float],
    failed: list[dict[str, str]],
) -> list[dict[str, Any]]:
    (rounds, seconds), family = how, setting["family"]
    ways: dict[str, str] = {}
    for library, process in processes.items():
        answer = process.ask({"prepare": {**setting, "folder": str(folder / f"{library}-{family}")}})
        if "error" in answer:
            failed.append({"library": library, "family": family, "error": answer["error"]})
        else:
            ways[library] = answer["way"]
    if "ours" not in ways:
        return []
    rates: dict[str, list[float]] = {library: [] for library in ways}
    for _ in range(rounds):
        for library in ways:
            rates[library].append(processes[library].ask({"measure": seconds})["coordinates_per_second"])
    return [_found(family, library, way, rates) for library, way in ways.items()]


def _found(family: str, library: str, way: str, rates: dict[str, list[float]]) -> dict[str, Any]:
    ratios = [ours / theirs for ours, theirs in zip(rates["ours"], rates[library], strict=True)]
    found = {"family": family, "library": library, "way": way}
    found["coordinates_per_second"] = figures.spread(rates[library])
    return found if library == "ours" else {**found, "ours_over_theirs": figures.spread(ratios)}


def _tensorflow(environment: Path) -> Path:
    """An environment of its own: its numpy is another than jax's. Of TensorFlow Privacy one file is used."""
    python, stamp = environment / "bin" / "python", environment / "installed"
    wanted = " ".join(TENSORFLOW)
    if not (stamp.exists() and stamp.read_text() == wanted):
        run = lambda *words: subprocess.run([*map(str, words)], check=True, capture_output=True, text=True)
        run("python3", "-m", "venv", environment)
        pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--only-binary", ":all:")
        run(*pip, *TENSORFLOW)
        run(*pip, "--no-deps", "tensorflow-privacy==0.9.0")
        stamp.write_text(wanted)
    return python


def table(found: dict[str, Any]) -> str:
    rows = []
    for one in found["compared"]:
        ratio = figures.shown(one["ours_over_theirs"]) if "ours_over_theirs" in one else ""
        rows.append([one["family"], one["library"], figures.shown(one["coordinates_per_second"], 1e6), ratio])
    title = f"Rows of {found['dimension']:.0e} coordinates added to a gradient, {found['threads']} threads"
    text = figures.table(title, ["mechanism", "library", "10⁶ coordinates/s", "ours over theirs"], rows)
    for one in found["failed"]:
        text += f"\nnot compared: {one['family']} of {one['library']}: {one['error']}"
    return text
