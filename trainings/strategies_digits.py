"""Handwritten digits by strategies past the published optimum: columns of unequal norms, and workloads that know the optimizer.

    python trainings/strategies_digits.py

BandMF over a fixed order, one digit the unit of privacy, at one (ε, δ). The published one has columns of equal norms and is
optimal for prefix sums; `rustle plan optimize` finds others: norms that differ by epoch, the workload of SGD with momentum,
and that workload under the learning rates of a cool-down. A training with a cool-down of its rates is compared with the same
under the strategy that doesn't know of it. A run that was cut off begins anew; those that are over are kept.

Noise is floating-point, as in amplified_digits.py, whose model and data these are. Learning rates were chosen by --tune, on digits
that no run trains on or is judged by. --quick asserts what it claims.
"""

import argparse
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import runs
from amplified_digits import DELTA, MOMENTUM, SHAPE, clipped_sum, digits, judged

import rustle
from rustle import schemes

#: Of each kind the words of `rustle plan optimize`, and whether training cools down.
EQUAL, BY_EPOCH = ["--column-norms", "equal"], ["--column-norms", "by-epoch"]
WITH_MOMENTUM = ["--workload", f"momentum:{MOMENTUM}"]
KINDS: dict[str, tuple[list[str], bool]] = {
    "equal": (EQUAL, False),
    "by-epoch": (BY_EPOCH, False),
    "momentum": ([*BY_EPOCH, *WITH_MOMENTUM], False),
    "by-epoch, cooled": (BY_EPOCH, True),
    "momentum, cooled": ([*BY_EPOCH, *WITH_MOMENTUM], True),
    "rates, cooled": ([*BY_EPOCH, *WITH_MOMENTUM, "--learning-rates", "file:{rates}"], True),
}
#: From --tune --seeds 3.
RATES = {kind: 0.1 if cooled else 0.03 for kind, (_, cooled) in KINDS.items()}
GRID = (0.03, 0.1, 0.3)
QUICK_RATE = 0.1


def rates(steps: int, cooled: bool) -> np.ndarray:
    """Returns the share of the learning rate at each step: from the middle on it falls to a twentieth where it cools down."""
    shares = np.ones(steps)
    if cooled:
        shares[steps // 2 :] = np.linspace(1, 0.05, steps - steps // 2)
    return shares


def planned(kind: str, arguments: argparse.Namespace) -> str:
    """Returns the plan at (ε, δ), as its file has it; it is searched for once."""
    folder = arguments.folder / "plans"
    path = folder / f"{kind}.toml"
    if not path.exists():
        folder.mkdir(exist_ok=True)
        np.savetxt(folder / "rates.txt", rates(arguments.steps, True), fmt="%.17g")
        epochs = -(-arguments.steps // arguments.min_sep)
        words = ["plan", "optimize", "--mechanism", "band-mf", "--iterations", arguments.steps]
        words += ["--min-sep", arguments.min_sep, "--max-participations", epochs, "--dimension", int(np.prod(SHAPE))]
        words += ["--float", *(word.format(rates=folder / "rates.txt") for word in KINDS[kind][0])]
        program, found = os.environ.get("RUSTLE_BIN", "rustle"), path.with_suffix(".found")
        done = subprocess.run([program, *map(str, words), "--out", found], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        rustle.calibrate(rustle.Plan.load(found), epsilon=arguments.epsilon, delta=DELTA).save(path)
    return path.read_text()


def train(kind: str, seed: int, rate: float, plan_text: str, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One run, in a folder of its own."""
    if (found := runs.result(folder)) is not None:
        return found
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    plan, schedule = rustle.Plan.from_toml(plan_text), rate * rates(arguments.steps, KINDS[kind][1])
    plan.save(folder / "plan.toml")
    (images, kinds), test = digits(seed, arguments.tune)
    scheme = schemes.fixed_order(arguments.min_sep)
    batches = rustle.Batches(scheme, len(kinds), arguments.steps, runs.secret(folder / "batches.key"))
    model, velocity, clean, clean_velocity = (np.zeros(SHAPE) for _ in range(4))
    with rustle.connect(f"inproc://{folder}") as session:
        for ids in rustle.Rounds(batches, session):
            # All steps follow: that rows are bound ahead costs nothing, and spares waits for the disk.
            session.reserve(steps=64)
            step = session.next_step
            total = clipped_sum(model, images[ids], kinds[ids], plan.clip_norm)
            noisy = session.privatize_(total.copy(), step)
            velocity = MOMENTUM * velocity + noisy * arguments.min_sep / len(kinds)
            model = model - schedule[step] * velocity
            # What the noise alone did is for the figures of a simulation: training on people's data must not keep it.
            clean_velocity = MOMENTUM * clean_velocity + total * arguments.min_sep / len(kinds)
            clean = clean - schedule[step] * clean_velocity
        report = json.loads(session.report(delta=DELTA, format="json"))
        session.report(folder / "report.md", delta=DELTA)
    loss, accuracy = judged(model, *test)
    found = {
        "kind": kind,
        "seed": seed,
        "learning_rate": rate,
        "epsilon": report["released"]["guarantees"][0]["epsilon"],
        "rms_of_plan": plan.errors()["rms"],
        "noise_in_model": float(np.sqrt(np.mean((model - clean) ** 2))) / rate,
        "loss": loss,
        "accuracy": accuracy,
    }
    return runs.finish(folder, found)


def trained(settings: list[tuple[str, int, float]], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    calls = [
        (*one, planned(one[0], arguments), arguments, arguments.folder / "-".join(map(str, one))) for one in settings
    ]
    return runs.each(train, calls, arguments.processes)


def tune(arguments: argparse.Namespace) -> None:
    """Prints the loss by kind and learning rate, on the tuning digits."""
    found = trained([(kind, seed, rate) for kind in KINDS for seed in range(arguments.seeds) for rate in GRID], arguments)
    for kind in KINDS:
        here = [one for one in found if one["kind"] == kind]
        losses = {rate: float(np.mean([one["loss"] for one in here if one["learning_rate"] == rate])) for rate in GRID}
        print(json.dumps({"kind": kind, "losses": losses, "best": min(losses, key=losses.get)}))


def options() -> argparse.Namespace:
    parser = runs.parser(__doc__, "target/trainings/strategies", 5)
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--min-sep", type=int, default=100, help="steps of an epoch")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.steps, arguments.min_sep, arguments.seeds = 120, 20, 2
    return arguments


def main() -> None:
    arguments = options()
    runs.begin(arguments)
    if arguments.tune:
        return tune(arguments)
    settings = [
        (kind, seed, QUICK_RATE if arguments.quick else RATES[kind]) for seed in range(arguments.seeds) for kind in KINDS
    ]
    found = trained(settings, arguments)
    figures = {
        "command": runs.command(),
        "epsilon": arguments.epsilon,
        "delta": DELTA,
        "steps": arguments.steps,
        "min_sep": arguments.min_sep,
        "seeds": arguments.seeds,
        "rows": [summary([one for one in found if one["kind"] == kind]) for kind in KINDS],
    }
    runs.write(arguments.folder / "figures.json", figures)
    print(json.dumps(figures))
    if arguments.quick:
        claims({row["kind"]: row for row in figures["rows"]})


def summary(these: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the figures of one kind over its seeds."""
    found = {name: these[0][name] for name in ("kind", "learning_rate", "rms_of_plan")}
    found["epsilon"] = max(one["epsilon"] for one in these)
    return found | {name: runs.spread(one[name] for one in these) for name in ("noise_in_model", "loss", "accuracy")}


def claims(of: dict[str, Any]) -> None:
    """Norms by epoch have less error on prefix sums than equal ones, at one ε."""
    for row in of.values():
        assert 0.99 * 2 < row["epsilon"] <= 2 * (1 + 1e-6), row
    assert of["by-epoch"]["rms_of_plan"] < 0.99 * of["equal"]["rms_of_plan"], of
    cooled = [of[kind]["noise_in_model"]["mean"] for kind in ("by-epoch, cooled", "rates, cooled")]
    assert all(noise < of["by-epoch"]["noise_in_model"]["mean"] for noise in cooled), of


if __name__ == "__main__":
    main()
