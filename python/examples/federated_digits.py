"""Federated averaging over many writers of digits: correlated noise against independent noise at the same ε.

    python federated_digits.py --epsilon 2 --seeds 3 --folder federated

Each round a cohort of writers trains on its own digits; the server sees their clipped changes' noisy mean (DP-FTRL
FedAvg). The unit of privacy is a writer. Each run ends with its accuracy on held-out digits and ε; FOLDER/…/report.md
states what the run promises. Both kinds of noise have the better of the same learning rates, over all seeds; choosing one
by held-out digits is not in any ε.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np
from digits_by_writer import SHAPE, accuracy, best, gradient, load

import rustle
from rustle import schemes
from rustle.federated import Participation, Server, Sgd, local_update

DELTA = 1e-3


def plan(mechanism, arguments):
    """A writer takes part once an epoch, and comes back after as many rounds as an epoch has. Noise is on a grid of integers
    by κ, more than what summing a cohort adds to a writer's norm: what is released keeps its ε bit for bit."""
    dimension = int(np.prod(SHAPE))
    kappa = rustle.grid.summing_error(-(-arguments.writers // arguments.cohorts), dimension, norm_dtype="float64")
    return rustle.plan(
        iterations=arguments.epochs * arguments.cohorts,
        epsilon=arguments.epsilon,
        delta=DELTA,
        dimension=dimension,
        min_sep=arguments.cohorts,
        max_participations=arguments.epochs,
        mechanism=mechanism,
        size=arguments.cohorts if mechanism == "band-mf" else None,
        clip_norm=arguments.clip_norm,
        summing_error=None if arguments.float else kappa,
        float=arguments.float,
    )


def train(plan, seed, learning_rate, arguments):
    writers, test = load(arguments.writers, seed)
    folder = arguments.folder / f"{plan.mechanism}-{learning_rate}-{seed}"
    folder.mkdir(parents=True)
    plan.save(folder / "plan.toml")
    cohorts = rustle.Batches(
        schemes.fixed_order(arguments.cohorts), arguments.writers, plan.iterations, os.urandom(32)
    )
    participation = Participation.of(plan)
    with rustle.connect(f"inproc://{folder}") as session:
        server = Server(
            session,
            np.zeros(SHAPE),
            clients_per_round=arguments.writers / arguments.cohorts,
            optimizer=Sgd(learning_rate, momentum=0.9),
        )
        for round, cohort in enumerate(cohorts):
            participation.record(cohort.tolist(), round)
            model = server.parameters
            server.step(local_update(model, [writers[writer]] * 2, gradient, 0.5) for writer in cohort)
        report = json.loads(session.report(delta=DELTA, format="json"))
        session.report(folder / "report.md", delta=DELTA)
    return accuracy(server.parameters, test), report["released"]["guarantees"][0]["epsilon"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--writers", type=int, default=500)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--cohorts", type=int, default=20, help="rounds of an epoch")
    parser.add_argument("--clip-norm", type=float, default=0.5)
    parser.add_argument("--learning-rates", type=float, nargs="+", default=[0.1, 0.3, 1.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--float", action="store_true", help="floating-point noise, which does not hold against precision attacks"
    )
    parser.add_argument("--folder", type=Path, default=Path("federated"))
    arguments = parser.parse_args()
    found = {}
    for mechanism in ("band-mf", "identity"):
        planned = plan(mechanism, arguments)
        found[mechanism] = best(
            {
                rate: [train(planned, seed, rate, arguments) for seed in range(arguments.seeds)]
                for rate in arguments.learning_rates
            }
        )
    gain = found["band-mf"]["accuracy"] - found["identity"]["accuracy"]
    print(json.dumps({**found, "delta": DELTA, "gain": gain}))


if __name__ == "__main__":
    main()
