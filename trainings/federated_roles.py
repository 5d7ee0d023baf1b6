"""Federated training of a next-character model over the speaking roles of Shakespeare: four kinds of noise at one (ε, δ).

    python trainings/federated_roles.py --processes 2 --workers 2

FedAvg with DP-FTRL, as McMahan, Xu and Zhang (2024) compare mechanisms: a round's cohort of roles trains on its own
lines, the server sees the clipped changes' noisy sum. The unit of privacy is a role. Every mechanism has the same rounds,
min-sep, participations and ε. FOLDER/figures.json has what the page shows, FOLDER/…/report.md what each run promises. A
run that was cut off continues when the command is typed again.

Learning rates were chosen by --tune, on plays of which no role takes part. --quick asserts what it claims.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import next_character
import numpy as np
import runs
import shakespeare
from cluster import source
from federated_rounds import CLIP_NORM, MODELS, bank, shape_of, with_noise, without_noise
from next_character import Shape

import rustle

DELTA = 1e-4
MECHANISMS = ("identity", "tree", "blt", "band-mf")
KINDS = (*MECHANISMS, "none")
#: The server's learning rates: of the small model from --tune, of the large one the same, of the tiny one close to them.
RATES = {
    "tiny": {"identity": 0.1, "tree": 0.1, "blt": 0.3, "band-mf": 0.3, "none": 1.0},
    "small": {"identity": 0.05, "tree": 0.2, "blt": 0.4, "band-mf": 0.4, "none": 1.6},
    "large": {"identity": 0.05, "tree": 0.2, "blt": 0.4, "band-mf": 0.4, "none": 1.6},
}
GRID = (0.05, 0.1, 0.2, 0.4, 0.8, 1.6)


def planned(mechanism: str, arguments: argparse.Namespace, shape: Shape) -> rustle.Plan:
    """Returns the mechanism's plan at (ε, δ); of trees the one with the restarts of least error."""
    epochs = arguments.rounds // arguments.min_sep
    found = rustle.plan(
        float=True,
        iterations=arguments.rounds,
        epsilon=arguments.epsilon,
        delta=DELTA,
        dimension=shape.dimension,
        min_sep=arguments.min_sep,
        max_participations=epochs,
        clip_norm=CLIP_NORM,
        mechanism=mechanism,
        size={"band-mf": arguments.min_sep, "blt": 2}.get(mechanism),
    )
    if mechanism != "tree":
        return found
    trees = [found]
    for apart in range(1, epochs):
        firsts = list(range(apart * arguments.min_sep, arguments.rounds, apart * arguments.min_sep))
        again = found.with_restarts(firsts, completion=True)
        trees.append(rustle.calibrate(again, epsilon=arguments.epsilon, delta=DELTA))
    return min(trees, key=lambda tree: tree.errors()["rms"])


def train(mechanism: str, seed: int, rate: float, arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One run, from its beginning or its last checkpoint."""
    if (found := runs.result(folder)) is not None:
        return found
    shape, plays = shape_of(arguments), shakespeare.load()
    roles, test = plays.training[: arguments.roles], bank(plays.test, shape, arguments.test)
    if arguments.tune:
        roles, test = tuning(plays, arguments, shape)
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    found = {"mechanism": mechanism, "seed": seed, "learning_rate": rate, "roles": len(roles)}
    if mechanism == "none":
        model, curve = without_noise(shape, roles, test, seed, rate, arguments)
    else:
        plan = planned(mechanism, arguments, shape)
        plan.save(folder / "plan.toml")
        with source(folder, arguments.workers) as url, rustle.connect(url) as session:
            server, curve = with_noise(session, shape, roles, test, seed, rate, arguments, folder)
            model, branch = server.parameters, session.branch
            report = json.loads(session.report(delta=DELTA, format="json"))
            session.report(folder / "report.md", delta=DELTA)
        found |= {
            "epsilon": report["released"]["guarantees"][0]["epsilon"],
            "noise_multiplier": plan.noise_multiplier,
            "rms_of_plan": plan.errors()["rms"],
            "rms_measured": server.optimizer.rms,
            "state_slots": plan.state_slots,
            "restarts": plan.restarts,
            "workers": arguments.workers,
            "branch": branch,
        }
    bits, accuracy = next_character.judged(shape, model.astype(np.float32), *test)
    return runs.finish(
        folder, {**found, "bits": bits, "accuracy": accuracy, "curve": curve, "seconds": time.monotonic() - begun}
    )


def tuning(plays: shakespeare.Plays, arguments: argparse.Namespace, shape: Shape):
    """As many roles as train, each one of the tuning plays repeatedly; every other one is for the judgement instead."""
    taught, judging = plays.tuning[::2], plays.tuning[1::2]
    count = min(arguments.roles, len(plays.training))
    return [taught[number % len(taught)] for number in range(count)], bank(judging, shape, arguments.test)


def tune(arguments: argparse.Namespace) -> None:
    """Prints bits a character by mechanism and learning rate, on the tuning plays."""
    settings = [(kind, seed, rate) for kind in KINDS for rate in GRID for seed in range(arguments.seeds)]
    calls = [(*one, arguments, arguments.folder / "-".join(map(str, one))) for one in settings]
    found = runs.each(train, calls, arguments.processes)
    for kind in KINDS:
        bits = {
            rate: float(np.mean([one["bits"] for one in found if (one["mechanism"], one["learning_rate"]) == (kind, rate)]))
            for rate in GRID
        }
        print(json.dumps({"mechanism": kind, "bits": bits, "best": min(bits, key=bits.get)}))


def extrapolated(plans: dict[str, rustle.Plan], epsilon: float) -> list[dict[str, Any]]:
    """ε where users, cohort and noise are all so many times as large, so that the noise of a mean is the same.

    One figure for all mechanisms, the largest: what they have in common is ε, and that remains.
    """
    found = [{"times": 1, "delta": DELTA, "epsilon": epsilon}]
    for factor in (10, 100):
        larger = [plan.replace(noise_multiplier=plan.noise_multiplier * factor) for plan in plans.values()]
        delta = DELTA / factor
        of = max(plan.privacy(delta)["epsilon"] for plan in larger)
        found.append({"times": factor, "delta": delta, "epsilon": of})
    return found


def closer(plan: rustle.Plan) -> dict[str, Any]:
    """ε of the same noise where roles returned after three quarters of the planned min-sep, and so more often."""
    apart = plan.min_sep * 3 // 4
    often = -(-plan.iterations // apart)
    text = plan.to_toml().replace(f"min_sep = {plan.min_sep}\n", f"min_sep = {apart}\n")
    text = text.replace(f"max_participations = {plan.max_participations}\n", f"max_participations = {often}\n")
    return {"min_sep": apart, "epsilon": rustle.Plan.from_toml(text).privacy(DELTA)["epsilon"]}


def options() -> argparse.Namespace:
    parser = runs.parser(__doc__, "target/trainings/roles", 5)
    parser.add_argument("--epsilon", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--min-sep", type=int, default=20, help="rounds from one participation of a role to the next")
    parser.add_argument("--roles", type=int, default=100_000, help="at most so many take part")
    parser.add_argument("--model", choices=MODELS, default="small")
    parser.add_argument("--steps", type=int, default=4, help="of a client in a round")
    parser.add_argument("--test", type=int, default=20_000, help="characters that models are judged by")
    parser.add_argument("--workers", type=int, default=0, help="of a cluster for each run; 0: an engine in the process")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.model, arguments.rounds, arguments.min_sep, arguments.steps = "tiny", 60, 10, 2
        arguments.roles, arguments.test, arguments.seeds = 400, 5000, 2
    return arguments


def main() -> None:
    arguments = options()
    runs.begin(arguments)
    if arguments.tune:
        return tune(arguments)
    shape = shape_of(arguments)
    rates = RATES[arguments.model]
    settings = [(kind, seed, rates[kind]) for seed in range(arguments.seeds) for kind in KINDS]
    calls = [(*one, arguments, arguments.folder / f"{one[0]}-{one[1]}") for one in settings]
    found = runs.each(train, calls, arguments.processes)
    of = {kind: [one for one in found if one["mechanism"] == kind] for kind in KINDS}
    plans = {kind: planned(kind, arguments, shape) for kind in MECHANISMS}
    figures = {
        "command": runs.command(),
        "roles": found[0]["roles"],
        "parameters": shape.dimension,
        "delta": DELTA,
        "rounds": arguments.rounds,
        "min_sep": arguments.min_sep,
        "participations": arguments.rounds // arguments.min_sep,
        "seeds": arguments.seeds,
        "mechanisms": {
            kind: summary(of[kind]) | ({"closer": closer(plans[kind])} if kind in plans else {}) for kind in KINDS
        },
        "extrapolated": extrapolated(plans, max(one["epsilon"] for one in found if "epsilon" in one)),
    }
    runs.write(arguments.folder / "figures.json", figures)
    print(json.dumps(figures))
    if arguments.quick:
        claims(figures["mechanisms"])


def summary(these: list[dict[str, Any]]) -> dict[str, Any]:
    """Returns the figures of one mechanism over its seeds."""
    numbers = ("bits", "accuracy", "rms_measured", "seconds")
    found = {name: runs.spread(one[name] for one in these) for name in numbers if name in these[0]}
    same = ("learning_rate", "noise_multiplier", "rms_of_plan", "state_slots", "restarts")
    found |= {name: these[0][name] for name in same if name in these[0]}
    if "epsilon" in these[0]:
        found["epsilon"] = max(one["epsilon"] for one in these)
    curves = np.array([one["curve"] for one in these])
    return found | {"curve": curves.mean(0).tolist()}


def claims(of: dict[str, Any]) -> None:
    """The order of the noise that was measured, and of the models."""
    rms = {kind: of[kind]["rms_measured"]["mean"] for kind in MECHANISMS}
    bits = {kind: of[kind]["bits"]["mean"] for kind in KINDS}
    for kind in MECHANISMS:
        assert abs(rms[kind] / of[kind]["rms_of_plan"] - 1) < 0.1, (kind, rms[kind])
    assert rms["band-mf"] < rms["blt"] < rms["tree"] < rms["identity"], rms
    assert 1.5 * max(rms["band-mf"], rms["blt"]) < rms["identity"], rms
    assert bits["none"] < min(bits[kind] for kind in MECHANISMS), bits
    assert max(bits["band-mf"], bits["blt"]) < min(bits["tree"], bits["identity"]), bits


if __name__ == "__main__":
    main()
