"""Digits in balls-in-bins batches: correlated against independent noise at the same amplified ε.

    python balls_in_bins_digits.py --epsilon 2 --seeds 3 --folder bins

Each digit is in one random batch of every epoch, the same in all, and batches stay secret: that amplifies correlated
noise too (Choquette-Choo et al. (2024)). ε is found by Monte Carlo; σ is searched with some samples and stated with others. Each run ends
with its accuracy on held-out digits and ε; FOLDER/…/report.md states what the run promises. Both kinds of noise have the
better of the same learning rates, over all seeds; choosing one by held-out digits is not in any ε.
"""

import argparse
import json
import os
import secrets
from pathlib import Path

import numpy as np
from digits_by_writer import SHAPE, accuracy, best, each_gradient, load

import rustle
from rustle import schemes

DELTA = 1e-4
DIMENSION = int(np.prod(SHAPE))


def amplified(plan, batches, samples):
    """ε of a plan in balls-in-bins batches, by fresh samples."""
    assumed = rustle.sampling.BallsInBins(batches, samples, secrets.randbits(63))
    text = rustle.report(plan, delta=DELTA, batches=assumed, format="json")
    return json.loads(text)["guarantees"][0]["epsilon"]


def plan(mechanism, arguments):
    """Returns the least noise multiplier whose ε is at most two per cent below the target."""
    found = rustle.plan(
        iterations=arguments.epochs * arguments.batches,
        epsilon=arguments.epsilon,
        delta=DELTA,
        dimension=DIMENSION,
        min_sep=arguments.batches,
        max_participations=arguments.epochs,
        mechanism=mechanism,
        size=arguments.batches if mechanism == "band-mf" else None,
        # Noise on a grid: ε holds bit for bit. A batch may have all digits; they are added in float64 and rounded once.
        summing_error=rustle.grid.summing_error(1500, DIMENSION, roundings=2, norm_dtype="float64"),
    )
    low, high = found.noise_multiplier / 8, found.noise_multiplier
    while high / low > 1.005:
        sigma = (low * high) ** 0.5
        enough = amplified(found.replace(noise_multiplier=sigma), arguments.batches, arguments.samples)
        low, high = (low, sigma) if enough <= 0.99 * arguments.epsilon else (sigma, high)
    return found.replace(noise_multiplier=high)


def train(plan, seed, learning_rate, arguments):
    writers, test = load(500, seed)
    images, kinds = (np.concatenate(parts) for parts in zip(*writers))
    folder = arguments.folder / f"{plan.mechanism}-{learning_rate}-{seed}"
    folder.mkdir(parents=True)
    plan.save(folder / "plan.toml")
    scheme = schemes.balls_in_bins(arguments.batches)
    batches = rustle.Batches(scheme, len(images), plan.iterations, os.urandom(32))
    model, velocity = np.zeros(SHAPE), np.zeros(SHAPE)
    with rustle.connect(f"inproc://{folder}") as session:
        for step, ids in enumerate(batches):
            each = each_gradient(model, images[ids], kinds[ids]).reshape(len(ids), DIMENSION)
            norms = np.maximum(np.linalg.norm(each, axis=1, keepdims=True), 1.0)
            total = (each / norms).sum(0).astype(np.float32)
            session.privatize_(total, step)
            velocity = 0.9 * velocity + total.reshape(SHAPE) * arguments.batches / len(images)
            model = model - learning_rate * velocity
        assumed = rustle.sampling.BallsInBins(arguments.batches, arguments.samples, secrets.randbits(63))
        text = session.report(delta=DELTA, batches=assumed, format="json")
        session.report(folder / "report.md", delta=DELTA, batches=assumed)
    return accuracy(model, test), json.loads(text)["guarantees"][0]["epsilon"]


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epsilon", type=float, default=2.0)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batches", type=int, default=10, help="steps of an epoch")
    parser.add_argument("--samples", type=int, default=50_000, help="of each Monte Carlo figure")
    parser.add_argument("--learning-rates", type=float, nargs="+", default=[0.2, 0.5, 1.0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("bins"))
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
        found[mechanism]["without_amplification"] = planned.privacy(DELTA)["epsilon"]
    gain = found["band-mf"]["accuracy"] - found["identity"]["accuracy"]
    print(json.dumps({**found, "delta": DELTA, "gain": gain}))


if __name__ == "__main__":
    main()
