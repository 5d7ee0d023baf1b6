"""A model of a hundred million numbers, trained for 50 steps with the service on this machine: what that takes.

    python trainings/at_size.py

A coordinator and two workers make the noise, and rows come through shared memory. A step takes one character and those before
it from each role of its cohort (shakespeare.py); the unit of privacy is a role. FOLDER/figures.json has the memory of each
process, what steps wait for noise, and rows per second, beside the same training without noise, and beside what
`rustle plan resources` expects of this and of larger models. A run that was cut off begins anew.

Noise is floating-point: clipping knows norms without gradients, and no κ of a grid covers that (docs/grid.md). --quick
asserts what it claims on a small model, by the same code.
"""

import argparse
import json
import os
import shutil
import subprocess
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import processes
import runs
import shakespeare
from cluster import source
from wide_character import Shape, bits, clipped_sum

import rustle
from rustle import schemes

DELTA, CLIP_NORM, RATE = 1e-4, 1.0, 1e-2
MODELS = {
    "tiny": Shape(shakespeare.SYMBOLS, 8, 16, (64, 48)),
    "large": Shape(shakespeare.SYMBOLS, 32, 128, (10_240, 5_648)),
}
MECHANISMS = ("identity", "blt")
#: The training without noise, with each mechanism's, and rows without a training.
KINDS = ("none", *MECHANISMS, "blt-rows")
#: Coordinates, and workers that share them, on paper; and which answers are kept.
PAPER = ((10**9, 4), (10**11, 256))
ANSWERS = ("dimension", "workers", "state_slots", "state_bytes", "history_bytes", "rows_bytes", "memory_per_worker")
ANSWERS += ("rows_per_second_possible", "network_of_job", "checkpoint_bytes")


def planned(mechanism: str, dimension: int | None, arguments: argparse.Namespace) -> rustle.Plan:
    return rustle.plan(
        iterations=arguments.steps,
        epsilon=arguments.epsilon,
        delta=DELTA,
        dimension=dimension,
        min_sep=arguments.min_sep,
        max_participations=-(-arguments.steps // arguments.min_sep),
        clip_norm=CLIP_NORM,
        mechanism=mechanism,
        size={"blt": 2, "band-mf": arguments.min_sep}.get(mechanism),
        float=True,
    )


def train(kind: str, seed: int, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One run. It has a process of its own, whose peak of memory is the run's."""
    if (found := runs.result(folder)) is not None:
        return found
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shape = MODELS[arguments.model]
    found = {"kind": kind, "seed": seed, "parameters": shape.dimension}
    if kind == "none":
        return runs.finish(folder, found | trained(shape, None, seed, arguments, folder))
    plan = planned(kind.removesuffix("-rows"), shape.dimension, arguments)
    plan.save(folder / "plan.toml")
    with source(folder, arguments.workers, shared_memory=True) as url, rustle.connect(url) as session:
        found |= trained(shape, session, seed, arguments, folder) if kind in MECHANISMS else delivered(session)
        report = json.loads(session.report(delta=DELTA, format="json"))
        session.report(folder / "report.md", delta=DELTA)
        found |= {"epsilon": report["released"]["guarantees"][0]["epsilon"], "state_slots": plan.state_slots}
    # The cluster's checkpoints are of the size of the model.
    shutil.rmtree(folder / "cluster")
    return runs.finish(folder, found)


def trained(
    shape: Shape, session: rustle.Session | None, seed: int, arguments: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    """The steps, with the seconds that each part of each one took."""
    roles, test = shakespeare.load().training, bank(shape)
    scheme = schemes.fixed_order(arguments.min_sep)
    batches = rustle.Batches(scheme, len(roles), arguments.steps, runs.secret(folder / "batches.key"))
    cohorts = (batches[step] for step in range(arguments.steps)) if session is None else rustle.Rounds(batches, session)
    model, total = shape.initial(seed), np.zeros(shape.dimension, np.float32)
    before, seconds = bits(shape, model, *test), Seconds(session)
    for step, cohort in enumerate(cohorts):
        if session is not None:
            # The row is bound and on its way while the gradient is computed. All steps follow, so it costs nothing.
            session.reserve()
        seconds.start()
        clipped_sum(shape, model, examples(shape, roles, cohort, [seed, step]), CLIP_NORM, total)
        seconds.end_of("gradient")
        if session is not None:
            session.privatize_(total, step)
        seconds.end_of("noise")
        total *= np.float32(-RATE * arguments.min_sep / len(roles))
        model += total
        seconds.end_of("update")
    return {"bits_before": before, "bits": bits(shape, model, *test)} | seconds.figures()


def delivered(session: rustle.Session) -> dict[str, Any]:
    """Rows alone, one after the other, as fast as they come."""
    row, seconds = np.zeros(session.dimension, np.float32), Seconds(session)
    for step in range(session.iterations):
        session.reserve()
        seconds.start()
        session.fetch_into(step, row)
        seconds.end_of("noise")
    return seconds.figures()


class Seconds:
    """The seconds of each step by its parts: gradient, noise (waiting included), update."""

    def __init__(self, session: rustle.Session | None):
        self.session, self.begun, self.waited = session, time.monotonic(), 0.0
        self.parts: dict[str, list[float]] = {}
        self.at = self.begun

    def start(self) -> None:
        self.at = time.monotonic()

    def end_of(self, part: str) -> None:
        now = time.monotonic()
        self.parts.setdefault(part, []).append(now - self.at)
        self.at = now
        if part == "noise" and self.session is not None:
            self.parts.setdefault("wait", []).append(self.session.waited - self.waited)
            self.waited = self.session.waited

    def figures(self) -> dict[str, Any]:
        """Of the run so far: every step, rows per second, and the processes."""
        steps = len(self.parts["noise"])
        return {
            "seconds": self.parts,
            "steps_per_second": steps / (time.monotonic() - self.begun),
            "processes": processes.family(),
        }


def examples(shape: Shape, roles: list[np.ndarray], cohort: np.ndarray, place: list[int]):
    """Returns one character of each role of the cohort, and those before it."""
    drawn, contexts, after = np.random.default_rng(place), [], []
    for role in cohort.tolist():
        text = np.concatenate([np.full(shape.context, shakespeare.UNKNOWN, np.int16), roles[role]])
        start = int(drawn.integers(0, len(roles[role])))
        contexts.append(text[start : start + shape.context])
        after.append(text[start + shape.context])
    return np.stack(contexts), np.array(after)


def bank(shape: Shape):
    """Returns one character of each role that models are judged by."""
    test = shakespeare.load().test
    return examples(shape, test, np.arange(len(test)), [0])


def on_paper(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """What `rustle plan resources` computes for this run, and for larger models over more workers."""
    program, found = os.environ.get("RUSTLE_BIN", "rustle"), []
    path = arguments.folder / "paper.toml"
    here = MODELS[arguments.model].dimension, arguments.workers
    for mechanism in ("identity", "blt", "band-mf"):
        planned(mechanism, None, arguments).save(path)
        for dimension, workers in (here, *PAPER):
            words = ["plan", "resources", "--plan", path, "--dimension", dimension, "--workers", workers]
            words += ["--coordinates-per-second", arguments.coordinates_per_second, "--format", "json"]
            answer = json.loads(subprocess.run([program, *map(str, words)], check=True, capture_output=True).stdout)
            found.append({"mechanism": mechanism} | {name: answer[name] for name in ANSWERS})
    return found


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--folder",
        type=lambda path: Path(path).resolve(),
        default="target/trainings/size",
        help="where results are, and are kept",
    )
    parser.add_argument("--seeds", type=int, default=1, help="runs of each kind")
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--min-sep", type=int, default=20, help="steps from one participation of a role to the next")
    parser.add_argument("--model", choices=MODELS, default="large")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--coordinates-per-second", type=float, default=1e8, help="of one worker, for the figures on paper"
    )
    parser.add_argument("--quick", action="store_true", help="a small model: what tests run")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.model, arguments.steps, arguments.min_sep = "tiny", 20, 10
    arguments.tune = False
    return arguments


def main() -> None:
    arguments = options()
    runs.begin(arguments)
    settings = [(kind, seed) for seed in range(arguments.seeds) for kind in KINDS]
    found = []
    for one in settings:
        # A process for each: the peak of memory is of a process's whole life.
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            call = pool.submit(train, *one, arguments, arguments.folder / "-".join(map(str, one)))
            found.append(call.result())
    figures = {
        "command": runs.command(),
        "parameters": MODELS[arguments.model].dimension,
        "delta": DELTA,
        "steps": arguments.steps,
        "min_sep": arguments.min_sep,
        "seeds": arguments.seeds,
        "cores": os.cpu_count(),
        "kinds": {kind: summary([one for one in found if one["kind"] == kind]) for kind in KINDS},
        "paper": on_paper(arguments),
    }
    runs.write(arguments.folder / "figures.json", figures)
    print(json.dumps(figures))
    if arguments.quick:
        claims(figures)


def summary(these: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the figures of one kind: times are medians over all steps of all runs, memory is the most of any run."""
    found: dict[str, Any] = {name: these[0][name] for name in ("epsilon", "state_slots") if name in these[0]}
    for part in these[0]["seconds"]:
        steps = np.concatenate([one["seconds"][part] for one in these])
        found[part] = {"median": float(np.median(steps)), "most": float(steps.max()), "values": steps.round(4).tolist()}
    for name in ("steps_per_second", "bits_before", "bits"):
        if name in these[0]:
            found[name] = runs.spread(one[name] for one in these)
    numbers = ("peak", "own", "shared", "cpu_seconds")
    found["processes"] = [
        {"name": same[0]["name"]} | {number: max(one[number] for one in same) for number in numbers}
        for same in zip(*(one["processes"] for one in these), strict=True)
    ]
    return found


def claims(figures: dict[str, Any]) -> None:
    """Each run keeps its ε, and no worker takes more memory than was computed, beside the row that the job lends it."""
    for kind in MECHANISMS:
        of = figures["kinds"][kind]
        assert 0.99 * 8 < of["epsilon"] <= 8 * (1 + 1e-6), of["epsilon"]
        paper = next(one for one in figures["paper"] if one["mechanism"] == kind)
        workers = [one for one in of["processes"] if one["name"].startswith("worker")]
        assert len(workers) == paper["workers"] == 2, of["processes"]
        for worker in workers:
            # The peak holds the row that the job lends too.
            assert worker["peak"] - worker["shared"] <= paper["memory_per_worker"], (kind, worker)
            assert worker["shared"] > 0, (kind, worker)
    free = figures["kinds"]["none"]
    assert free["bits"]["mean"] < free["bits_before"]["mean"], free


if __name__ == "__main__":
    main()
