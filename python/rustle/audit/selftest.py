"""Audits this package's adapters, honest and with planted mistakes: ``python -m rustle.audit.selftest``.

Each adapter trains gradient canaries with a plan of known ε, many times. No honest run may show more than its ε, and
every planted mistake must be found. One JSON object a line; exit status 1 where either fails. Adapters whose framework is
not installed are left out and named.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
from typing import Any, Iterator, Sequence

from ._bounds import Bound
from ._harness import white_box
from ._trainings import MISTAKES, PLANTED, TRAININGS, setting


def honest(training: str, audits: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Audits of one adapter without mistakes."""
    bounds = [_audit(training, None, seed, arguments) for seed in range(arguments.seed, arguments.seed + audits)]
    above = sum(bound.refuted for bound in bounds)
    highest = max(bound.epsilon_lower for bound in bounds)
    return {
        "training": training,
        "audits": audits,
        "above": above,
        "epsilon_lower_max": highest,
        "epsilon": arguments.epsilon,
        "passed": above == 0,
    }


def mistaken(training: str, mistake: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One audit of an adapter with a mistake."""
    bound = _audit(training, mistake, arguments.seed, arguments)
    return {
        "training": training,
        "mistake": mistake,
        "means": MISTAKES[mistake],
        "epsilon_lower": bound.epsilon_lower,
        "epsilon": arguments.epsilon,
        "p_value": bound.p_value,
        "passed": bound.refuted,
    }


def _audit(training: str, mistake: str | None, seed: int, arguments: argparse.Namespace) -> Bound:
    run = TRAININGS[training][1]
    made = setting(arguments.epsilon, arguments.delta, arguments.canaries, mistake)
    return white_box(
        lambda included, _: run(made, included),
        arguments.canaries,
        delta=arguments.delta,
        epsilon=arguments.epsilon,
        confidence=arguments.confidence,
        method="gaussian",
        seed=seed,
    )


def results(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What each adapter's audits found, one after the other."""
    for training in arguments.trainings:
        needs = TRAININGS[training][0]
        if importlib.util.find_spec(needs) is None:
            yield {"training": training, "left_out": f"{needs} is not installed", "passed": True}
            continue
        yield honest(training, arguments.audits, arguments)
        for mistake in PLANTED.get(training, []):
            yield mistaken(training, mistake, arguments)


def words() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m rustle.audit.selftest", description=__doc__.splitlines()[0])
    parser.add_argument("--audits", type=int, default=200, help="honest runs of each adapter [200]")
    parser.add_argument("--trainings", nargs="+", choices=list(TRAININGS), default=list(TRAININGS))
    parser.add_argument("--canaries", type=int, default=2048, help="half of them teach the attack [2048]")
    parser.add_argument("--epsilon", type=float, default=4.0, help="of the plan [4]")
    parser.add_argument("--delta", type=float, default=1e-5, help="of the plan [1e-5]")
    parser.add_argument("--confidence", type=float, default=0.99, help="of each audit [0.99]")
    parser.add_argument("--seed", type=int, default=0, help="of the first audit's coins; noise has a fresh key [0]")
    return parser


def main(given: Sequence[str] | None = None) -> int:
    """Prints what is found; 1 where an audit did not go as it must."""
    passed = True
    for result in results(words().parse_args(given)):
        print(json.dumps(result), flush=True)
        passed &= result["passed"]
    return 0 if passed else 1


if __name__ == "__main__":
    raise SystemExit(main())
