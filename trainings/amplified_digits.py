"""Handwritten digits, one example the unit of privacy: amplified BandMF against DP-SGD and DP-FTRL, ε from 1 to 16.

    python trainings/amplified_digits.py --processes 2

The comparison of McKenna (2024), trained: DP-SGD has independent noise and Poisson batches; DP-FTRL has BandMF and a
shuffled order that keeps min-sep, which amplifies nothing; amplified BandMF has the planner's best number of bands and
cyclic Poisson batches. All have the same expected batch, steps and ε, and each report is of the batches that were drawn.
FOLDER/figures.json has what the page shows, FOLDER/…/report.md what each run promises. A run that was cut off continues
when the command is typed again.

Learning rates were chosen by --tune, on digits that no run trains on or is judged by. --quick asserts what it claims.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import runs
from sklearn.datasets import load_digits

import rustle
from rustle import schemes

DELTA = 1e-4
SHAPE = (65, 10)
EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0)
METHODS = ("dp-sgd", "dp-ftrl", "amplified")
#: Digits that train, that learning rates are chosen by, and that models are judged by.
PRIVATE, TUNING = 1200, 200
#: The learning rates from --tune.
RATES: dict[str, dict[float, float]] = {
    "dp-sgd": {1: 0.03, 2: 0.03, 4: 0.03, 8: 0.03, 16: 0.1},
    "dp-ftrl": {1: 0.03, 2: 0.03, 4: 0.1, 8: 0.1, 16: 0.1},
    "amplified": {1: 0.03, 2: 0.03, 4: 0.1, 8: 0.1, 16: 0.3},
}
#: Of the quick form, where noise is to decide.
QUICK_RATE = 0.1
GRID = (0.03, 0.1, 0.3, 1.0)
MOMENTUM = 0.9


def planned(epsilon: float, arguments: argparse.Namespace) -> dict[str, tuple[str, dict[str, Any]]]:
    """Returns the plan of each method at (ε, δ), as its file has it, and the scheme of its batches."""
    probability = 1 / arguments.min_sep
    entries = rustle.suggest(
        float=True,
        iterations=arguments.steps,
        epsilon=epsilon,
        delta=DELTA,
        dimension=int(np.prod(SHAPE)),
        min_sep=arguments.min_sep,
        epochs=arguments.steps // arguments.min_sep,
        sampling_probability=probability,
    )

    def least(*samplings: str, mechanism: str | None = None) -> dict[str, Any]:
        found = [one for one in entries if one["sampling"] in samplings and mechanism in (None, one["mechanism"])]
        return min(found, key=lambda one: one["error"])

    poisson, amplified = least("poisson"), least("poisson", "cyclic-poisson")
    ordered = least("min-sep", mechanism="band-mf")
    bands = amplified["size"] or 1
    return {
        "dp-sgd": (poisson["plan"].to_toml(), schemes.poisson(probability)),
        "dp-ftrl": (ordered["plan"].to_toml(), schemes.fixed_order(arguments.min_sep)),
        "amplified": (amplified["plan"].to_toml(), schemes.cyclic_poisson(bands, probability)),
    }


def train(
    method: str,
    epsilon: float,
    seed: int,
    rate: float,
    planned: tuple[str, dict[str, Any]] | None,
    arguments: argparse.Namespace,
    folder: Path,
) -> dict[str, Any]:
    """One run, from its beginning or its last checkpoint."""
    if (found := runs.result(folder)) is not None:
        return found
    assert planned is not None, folder
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    plan, scheme = rustle.Plan.from_toml(planned[0]), planned[1]
    plan.save(folder / "plan.toml")
    (images, kinds), test = digits(seed, arguments.tune)
    batches = rustle.Batches(scheme, len(kinds), arguments.steps, runs.secret(folder / "batches.key"))
    with rustle.connect(f"inproc://{folder}") as session:
        rounds = rustle.Rounds(batches, session)
        state = runs.load(folder) or {
            name: np.zeros(SHAPE) for name in ("model", "velocity", "noise")
        } | {"squares": np.zeros(0)}
        if "cursor" in state:
            session.resume(state["cursor"].tobytes(), replay=True)
        else:
            # Before the first row: a run may be cut off before its first checkpoint too.
            runs.save(folder, state | {"cursor": np.frombuffer(session.cursor(), np.uint8)})
        for ids in rounds:
            total = clipped_sum(state["model"], images[ids], kinds[ids], plan.clip_norm)
            noisy = session.privatize_(total.copy(), session.next_step, commitment="exact")
            # The noise itself is for the figures of a simulation: training on people's data must not keep it.
            noise = state["noise"] + (noisy - total)
            velocity = MOMENTUM * state["velocity"] + noisy * arguments.min_sep / len(kinds)
            state = {
                "model": state["model"] - rate * velocity,
                "velocity": velocity,
                "noise": noise,
                "squares": np.append(state["squares"], np.mean(noise**2)),
            }
            if session.next_step % (5 * runs.EVERY) == 0:
                runs.save(folder, state | {"cursor": np.frombuffer(session.cursor(), np.uint8)})
        text = session.report(delta=DELTA, batches=rounds.sampling, format="json")
        session.report(folder / "report.md", delta=DELTA, batches=rounds.sampling)
        branch = session.branch
    loss, accuracy = judged(state["model"], *test)
    found = {
        "method": method,
        "target": epsilon,
        "seed": seed,
        "learning_rate": rate,
        "epsilon": epsilon_of(json.loads(text)),
        "mechanism": plan.mechanism,
        "bands": scheme.get("bands", 1) if method != "dp-ftrl" else arguments.min_sep,
        "batches": scheme["kind"],
        "rms_of_plan": plan.errors()["rms"],
        "rms_measured": float(np.sqrt(state["squares"].mean())),
        "loss": loss,
        "accuracy": accuracy,
        "branch": branch,
        "seconds": time.monotonic() - begun,
    }
    return runs.finish(folder, found)


def epsilon_of(report: dict[str, Any]) -> float:
    """Returns ε of the rows that the run released, in the batches that it drew."""
    return report["guarantees"][0]["epsilon"]


def digits(seed: int, tuning: bool):
    """Returns (images, kinds) to train on and to be judged by; the latter are the same for all seeds."""
    images, kinds = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images, kinds = np.c_[images / 16, np.ones(len(images))].astype(np.float32)[order], kinds[order]
    chosen, rest = slice(PRIVATE, PRIVATE + TUNING), slice(PRIVATE + TUNING, None)
    if not tuning:
        return (images[:PRIVATE], kinds[:PRIVATE]), (images[rest], kinds[rest])
    # Half of the tuning digits teach, so often that there are as many as train otherwise; the others judge.
    images, kinds = images[chosen], kinds[chosen]
    again = np.arange(PRIVATE) % (TUNING // 2)
    return (images[again], kinds[again]), (images[TUNING // 2 :], kinds[TUNING // 2 :])


def clipped_sum(model: np.ndarray, images: np.ndarray, kinds: np.ndarray, norm: float) -> np.ndarray:
    """Returns the sum of each digit's clipped gradient of the cross entropy, float32."""
    errors = odds(model, images)
    errors[np.arange(len(kinds)), kinds] -= 1
    # A gradient is the outer product of image and errors, and so its norm the product of theirs.
    norms = np.linalg.norm(images, axis=1) * np.linalg.norm(errors, axis=1)
    scaled = errors * np.minimum(1, norm / np.maximum(norms, 1e-12))[:, None]
    return (images.T @ scaled).astype(np.float32)


def odds(model: np.ndarray, images: np.ndarray) -> np.ndarray:
    scores = images @ model
    found = np.exp(scores - scores.max(1, keepdims=True))
    return found / found.sum(1, keepdims=True)


def judged(model: np.ndarray, images: np.ndarray, kinds: np.ndarray) -> tuple[float, float]:
    """Returns the mean cross entropy in bits, and the accuracy."""
    found = odds(model, images)
    right = found[np.arange(len(kinds)), kinds]
    return float(-np.log2(np.maximum(right, 1e-30)).mean()), float((found.argmax(1) == kinds).mean())


def tune(arguments: argparse.Namespace) -> None:
    """Prints the loss by method, ε and learning rate, on the tuning digits."""
    places = [(method, epsilon) for method in METHODS for epsilon in arguments.epsilon]
    settings = [(*place, seed, rate) for place in places for rate in GRID for seed in range(arguments.seeds)]
    found = trained(settings, arguments)
    for place in places:
        here = [one for one in found if (one["method"], one["target"]) == place]
        losses = {
            rate: float(np.mean([one["loss"] for one in here if one["learning_rate"] == rate])) for rate in GRID
        }
        print(json.dumps({"method": place[0], "epsilon": place[1], "losses": losses, "best": min(losses, key=losses.get)}))


def trained(settings: list[tuple], arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Returns the results of runs by method, ε, seed and learning rate."""
    folders = [arguments.folder / "-".join(map(str, one)) for one in settings]
    # A search takes seconds, and runs that are over need none.
    left = {one[1] for one, folder in zip(settings, folders) if runs.result(folder) is None}
    plans = {epsilon: planned(epsilon, arguments) for epsilon in sorted(left)}
    calls = [
        (*one, plans.get(one[1], {}).get(one[0]), arguments, folder) for one, folder in zip(settings, folders)
    ]
    return runs.each(train, calls, arguments.processes)


def options() -> argparse.Namespace:
    parser = runs.parser(__doc__, "target/trainings/digits", 5)
    parser.add_argument("--epsilon", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--min-sep", type=int, default=100, help="steps of an epoch; 1/q")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.epsilon, arguments.seeds, arguments.steps = [2.0], 3, 300
    return arguments


def main() -> None:
    arguments = options()
    runs.begin(arguments)
    if arguments.tune:
        return tune(arguments)
    settings = [
        (method, epsilon, seed, QUICK_RATE if arguments.quick else RATES[method][epsilon])
        for seed in range(arguments.seeds)
        for epsilon in arguments.epsilon
        for method in METHODS
    ]
    found = trained(settings, arguments)
    rows = [
        summary([one for one in found if (one["method"], one["target"]) == (method, epsilon)])
        for epsilon in arguments.epsilon
        for method in METHODS
    ]
    figures = {
        "command": runs.command(),
        "digits": PRIVATE,
        "parameters": int(np.prod(SHAPE)),
        "delta": DELTA,
        "steps": arguments.steps,
        "sampling_probability": 1 / arguments.min_sep,
        "seeds": arguments.seeds,
        "rows": rows,
    }
    runs.write(arguments.folder / "figures.json", figures)
    print(json.dumps(figures))
    if arguments.quick:
        claims({row["method"]: row for row in rows})


def summary(these: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the figures of one method at one ε over its seeds."""
    found = {name: these[0][name] for name in ("method", "target", "learning_rate", "mechanism", "bands", "batches")}
    found["epsilon"] = max(one["epsilon"] for one in these)
    found["rms_of_plan"] = these[0]["rms_of_plan"]
    spreads = ("rms_measured", "loss", "accuracy", "seconds")
    return found | {name: runs.spread(one[name] for one in these) for name in spreads}


def claims(of: dict[str, Any]) -> None:
    """At ε = 2 the amplified noise is the least, and its models are better than those of DP-SGD."""
    rms = {method: of[method]["rms_measured"]["mean"] for method in METHODS}
    for method in METHODS:
        assert abs(rms[method] / of[method]["rms_of_plan"] - 1) < 0.1, (method, rms[method])
        assert 0.97 * of[method]["target"] < of[method]["epsilon"] <= of[method]["target"] * (1 + 1e-6), of[method]
    assert 1.15 * rms["amplified"] < min(rms["dp-sgd"], rms["dp-ftrl"]), rms
    losses = {method: of[method]["loss"]["mean"] for method in METHODS}
    assert losses["amplified"] < losses["dp-sgd"], losses


if __name__ == "__main__":
    main()
