"""Users with several digits each: example-level against user-level sampling, at the same ε for users.

    python user_level_digits.py --epsilon 6 --seeds 3 --folder users

ELS clips each digit's gradient and pays for how many a user may have; ULS clips each user's mean gradient. Both have
independent noise and secret Poisson-sampled batches; the third run has users in turn and correlated noise. Each ends with
its accuracy on held-out digits and ε, and a saved report. All have the better of the same learning rates, over all
seeds; choosing one by held-out digits is not in any ε.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np
from digits_by_writer import SHAPE, accuracy, best, each_gradient, load

import rustle
from rustle import group_sizes, schemes, user_level

DELTA = 1e-3
DIMENSION = int(np.prod(SHAPE))


def setting(kind, sizes, arguments):
    """A plan, and the scheme of batches that it goes with."""
    n, q, group = arguments.iterations, arguments.sampling_probability, group_sizes.els(sizes)
    promise = dict(iterations=n, epsilon=arguments.epsilon, delta=DELTA, dimension=DIMENSION)
    # Noise on a grid: ε holds bit for bit. A batch has all records, or all users, at most.
    most = sum(sizes) if kind == "els" else len(sizes)
    if kind == "els":
        plan = user_level.plan(**promise, sampling_probability=q, group_size=group, batch_size=most)
        return plan.replace(clip_norm=1.0), schemes.els(group, q)
    if kind == "uls":
        plan = user_level.plan(**promise, sampling_probability=q, batch_size=most)
        return plan, schemes.uls(group, schemes.poisson(q))
    turns = round(1 / q)
    plan = rustle.plan(
        **promise,
        min_sep=turns,
        max_participations=-(-n // turns),
        mechanism="band-mf",
        size=turns,
        batch_size=most,
        norm_dtype="float64",
    )
    return plan, schemes.uls(group, schemes.fixed_order(turns))


def train(kind, plan, scheme, seed, learning_rate, arguments):
    users, test = load(arguments.users, seed)
    images, kinds = (np.concatenate(parts) for parts in zip(*users))
    folder = arguments.folder / f"{kind}-{learning_rate}-{seed}"
    folder.mkdir(parents=True)
    plan.save(folder / "plan.toml")
    sizes = [len(kinds) for _, kinds in users]
    batches = rustle.Batches(scheme, sizes, plan.iterations, os.urandom(32))
    model, velocity = np.zeros(SHAPE), np.zeros(SHAPE)
    with rustle.connect(f"inproc://{folder}") as session:
        training = user_level.Training(session, batches)
        for round, ids in training:
            each = each_gradient(model, images[ids], kinds[ids]).reshape(len(ids), DIMENSION)
            velocity = 0.9 * velocity + training.noisy_mean(round, each).reshape(SHAPE)
            model = model - learning_rate * velocity
        training.report(folder / "report.md", delta=DELTA)
        return accuracy(model, test), training.epsilon(DELTA)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epsilon", type=float, default=6.0)
    parser.add_argument("--users", type=int, default=300)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--sampling-probability", type=float, default=0.1)
    parser.add_argument("--learning-rates", type=float, nargs="+", default=[0.05, 0.2])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path("users"))
    arguments = parser.parse_args()
    sizes = [len(kinds) for _, kinds in load(arguments.users)[0]]
    found = {}
    for kind in ("els", "uls", "uls-in-turn"):
        plan, scheme = setting(kind, sizes, arguments)
        found[kind] = best(
            {
                rate: [train(kind, plan, scheme, seed, rate, arguments) for seed in range(arguments.seeds)]
                for rate in arguments.learning_rates
            }
        )
    print(json.dumps({**found, "delta": DELTA}))


if __name__ == "__main__":
    main()
