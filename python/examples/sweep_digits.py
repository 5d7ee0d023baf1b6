"""Handwritten digits: learning rate and clip norm chosen by a sweep under one privacy budget.

    python sweep_digits.py --mean 20 --folder sweep
    python sweep_digits.py --mean 20 --folder sweep --optuna

A softmax regression, trained a random number of times with this mean. The best run by the held-out digits is the only
result. Prints its accuracy, ε of the selection, and ε of as many trainings as are expected where each is published.

With --optuna, Optuna's random sampler draws the parameters. A sampler that learns from earlier trials, such as TPE, would make
later runs depend on earlier ones, which the account of a sweep does not cover.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import rustle

DELTA = 1e-5
BATCHES, EPOCHS = 10, 6
SPACE = {"rate": [0.003, 0.01, 0.03, 0.1, 0.3], "clip_norm": [0.5, 1.0, 2.0]}


def data():
    """Training and held-out digits: 64 numbers from −1 to 1 and a constant."""
    images, labels = load_digits(return_X_y=True)
    images = np.hstack([images / 8 - 1, np.ones((len(images), 1))]).astype(np.float32)
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:1500], order[1500:]
    return (images[train], labels[train]), (images[test], labels[test])


def clipped_sum(weights, images, labels, clip_norm):
    """The sum of the gradients of single digits, each clipped."""
    scores = images @ weights
    scores -= scores.max(axis=1, keepdims=True)
    errors = np.exp(scores)
    errors /= errors.sum(axis=1, keepdims=True)
    errors[np.arange(len(labels)), labels] -= 1
    # A gradient is the outer product of the image and these errors.
    norms = np.linalg.norm(images, axis=1) * np.linalg.norm(errors, axis=1)
    factors = np.minimum(1, clip_norm / np.maximum(norms, 1e-12))
    return (images.T @ (errors * factors[:, None])).astype(np.float32)


def train(session, rate, clip_norm):
    """Trains with a session's noise, and returns the accuracy on the held-out digits."""
    (images, labels), (test_images, test_labels) = data()
    batches = np.array_split(np.arange(len(labels)), BATCHES)
    weights = np.zeros((images.shape[1], 10), np.float32)
    for step in range(session.next_step, session.iterations):
        batch = batches[step % BATCHES]
        total = clipped_sum(weights, images[batch], labels[batch], clip_norm)
        session.privatize_(total.reshape(-1), step)
        weights -= rate * total / clip_norm
    return float(np.mean((test_images @ weights).argmax(axis=1) == test_labels))


def words():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mean", type=float, default=20, help="mean number of trainings")
    parser.add_argument("--shape", type=float, help="shape of a truncated negative binomial number [default: Poisson]")
    parser.add_argument("--epsilon", type=float, default=1.0, help="ε of one training")
    parser.add_argument("--budget", type=float, default=4.0, help="ε of the data set's budget")
    parser.add_argument("--folder", type=Path, default=Path("sweep"))
    parser.add_argument("--optuna", action="store_true", help="let Optuna's random sampler draw")
    return parser


def sampled(study):
    """The parameters of one trial."""
    trial = study.ask()
    return trial, {
        "rate": trial.suggest_float("rate", 0.003, 0.3, log=True),
        "clip_norm": trial.suggest_categorical("clip_norm", SPACE["clip_norm"]),
    }


def main(arguments):
    plan = rustle.plan(
        iterations=BATCHES * EPOCHS,
        epsilon=arguments.epsilon,
        delta=DELTA,
        min_sep=BATCHES,
        max_participations=EPOCHS,
        mechanism="band-mf",
        size=BATCHES,
        dimension=650,
        # Gradients of a batch are added in float32, with norms in float32.
        batch_size=1500 // BATCHES,
    )
    digits = rustle.DataSet(
        f"inproc://{arguments.folder}", "digits", unit="example", epsilon=arguments.budget, delta=DELTA
    )
    space = None if arguments.optuna else SPACE
    sweep = rustle.Sweep(digits, "rates", plan=plan, mean=arguments.mean, shape=arguments.shape, space=space)

    study = None
    if arguments.optuna:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.WARNING)
        study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler())
    for run in sweep:
        trial, chosen = sampled(study) if study is not None else (None, run.parameters)
        with run.connect(plan=plan.replace(clip_norm=chosen["clip_norm"])) as session:
            accuracy = train(session, **chosen)
        run.score = accuracy
        if study is not None:
            study.tell(trial, accuracy)

    digits.report(arguments.folder / "report.md")
    best = sweep.best()
    costs = sweep.costs(DELTA)
    return {
        "accuracy": best.score if best is not None else None,
        "delta": DELTA,
        "spent": digits.show()["spent"]["epsilon"],
        **costs,
        "below_composed": 1 - costs["epsilon"] / costs["composed"],
    }


if __name__ == "__main__":
    print(json.dumps(main(words().parse_args())))
