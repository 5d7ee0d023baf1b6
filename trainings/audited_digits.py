"""Handwritten digits, attacked: what canaries prove of a training at its ε, and with its noise switched off.

    python trainings/audited_digits.py

Canaries are pictures of random pixels under a random name, 1,000 beside 700 digits; each is in the training by a fair coin, or
counts as a gradient of zero. Two attacks score them: the final model's loss (black box), and the product of every noisy
sum with the canary's own clipped gradient at that step (white box). Both bound ε from below at 99 % by the method for one
run (Steinke, Nasr, Jagielski 2023). --quick asserts that the training keeps its ε and that the one without noise is found.
"""

import argparse
import json
import tempfile
import warnings
from pathlib import Path

import numpy as np
from amplified_digits import odds
from runs import command, secret, spread
from sklearn.datasets import load_digits

import rustle
from rustle import audit, schemes

DELTA, CANARIES, DIGITS, FEATURES = 1e-5, 1000, 700, 256
BATCHES, EPOCHS, RATE = 10, 8, 4.0


def planned(epsilon: float) -> rustle.Plan:
    """Returns a plan of correlated noise in which a record takes part once an epoch."""
    found = rustle.plan(
        float=True,
        iterations=BATCHES * EPOCHS,
        epsilon=epsilon,
        delta=DELTA,
        min_sep=BATCHES,
        max_participations=EPOCHS,
        mechanism="band-mf",
        size=BATCHES,
    )
    return found.replace(dimension=FEATURES * 10)


def records(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Returns features and names of all records, canaries first, then those of digits that are held out."""
    dice = np.random.default_rng([seed, 7])
    images, kinds = load_digits(return_X_y=True)
    order = dice.permutation(len(images))
    pixels = np.concatenate([dice.choice([-1.0, 1.0], (CANARIES, 64)), images[order] / 8 - 1])
    names = np.concatenate([dice.integers(0, 10, CANARIES), kinds[order]])
    # Random features of norm about one: more parameters than records, so that a model can know every canary.
    features = np.tanh(pixels @ dice.normal(size=(64, FEATURES)) / 4) / np.sqrt(FEATURES / 2)
    held = CANARIES + DIGITS
    return features[:held], names[:held], features[held:], names[held:]


def clipped(model: np.ndarray, features: np.ndarray, names: np.ndarray) -> np.ndarray:
    """Returns the errors of each record, scaled so that its gradient, features ⊗ errors, has norm 1 at most."""
    errors = odds(model, features)
    errors[np.arange(len(names)), names] -= 1
    norms = np.linalg.norm(features, axis=1) * np.linalg.norm(errors, axis=1)
    return errors / np.maximum(norms, 1.0)[:, None]


def train(plan: rustle.Plan, included: np.ndarray, seed: int, noise: bool) -> dict[str, np.ndarray]:
    """Trains with the canaries included, and returns each attack's scores and the held-out accuracy."""
    features, names, test, kinds = records(seed)
    weights = np.concatenate([included, np.ones(DIGITS, bool)])
    model = np.zeros((FEATURES, 10))
    seen = np.zeros(CANARIES)
    with tempfile.TemporaryDirectory() as folder:
        plan.save(Path(folder) / "plan.toml")
        batches = rustle.Batches(
            schemes.fixed_order(BATCHES), len(names), plan.iterations, secret(Path(folder) / "seed")
        )
        with rustle.connect(f"inproc://{folder}") as session:
            for step, ids in enumerate(rustle.Rounds(batches, session)):
                errors = clipped(model, features[ids], names[ids])
                total = (features[ids].T @ (errors * weights[ids][:, None])).astype(np.float32)
                if noise:
                    session.privatize_(total, step)
                else:
                    session.skip()
                mine = ids < CANARIES
                products = ((features[ids[mine]] @ total) * errors[mine]).sum(axis=1)
                # What all canaries of a batch share says nothing about one.
                seen[ids[mine]] -= products - products.mean()
                model -= RATE * total / (len(names) / BATCHES)
    losses = -np.log(np.maximum(odds(model, features[:CANARIES])[np.arange(CANARIES), names[:CANARIES]], 1e-30))
    accuracy = (odds(model, test).argmax(axis=1) == kinds).mean()
    return {"black box": -losses, "white box": -seen, "accuracy": accuracy}


def audited(plan: rustle.Plan, epsilon: float, seed: int, noise: bool) -> dict[str, float]:
    """Returns what each attack proves of one training."""
    included = audit.coins(CANARIES, seed)
    scores = train(plan, included, seed, noise)
    bounds = {
        attack: audit.bound(scores[attack], included, delta=DELTA, epsilon=epsilon).epsilon_lower
        for attack in ("black box", "white box")
    }
    return {**bounds, "accuracy": float(scores["accuracy"])}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epsilon", type=float, nargs="+", default=[2.0, 8.0])
    parser.add_argument("--seeds", type=int, default=5, help="trainings of each setting")
    parser.add_argument("--quick", action="store_true", help="one training of each, at epsilon 2: what tests run")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.epsilon, arguments.seeds = [2.0], 1
    # That rows are thrown away, and not added, is the point of half of the runs.
    warnings.simplefilter("ignore", rustle.errors.Unchecked)
    found = {"command": command(), "delta": DELTA, "confidence": 0.99, "canaries": CANARIES, "runs": []}
    for epsilon in arguments.epsilon:
        plan = planned(epsilon)
        promised = plan.privacy(DELTA)["epsilon"]
        for noise in (True, False):
            each = [audited(plan, epsilon, seed, noise) for seed in range(arguments.seeds)]
            figures = {name: spread(one[name] for one in each) for name in each[0]}
            found["runs"].append({"epsilon": promised, "noise": noise, **figures})
            if arguments.quick and noise:
                assert max(figures[one]["most"] for one in ("black box", "white box")) <= epsilon, figures
            elif arguments.quick:
                assert max(figures[one]["least"] for one in ("black box", "white box")) > epsilon, figures
    print(json.dumps(found, indent=None if arguments.quick else 2))


if __name__ == "__main__":
    main()
