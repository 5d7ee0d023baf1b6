"""Handwritten digits with JAX and optax: correlated noise against independent noise at the same ε.

    python digits_jax.py --epsilon 2 --seeds 3 --folder digits

Each run ends with its accuracy on held-out digits and ε; FOLDER/…/report.md states what the run promises. Both have the
better of the same learning rates, over all seeds; choosing one by held-out digits is not in any ε.
"""

import argparse
import json
import os
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

import rustle
import rustle.jax
from rustle import schemes

DELTA = 1e-5


# %% [markdown]
# ## The digits
#
# 1797 images of 8 × 8 pixels, which scikit-learn carries; 1500 to train with, the rest to see what was learned.

# %%
def data():
    """Training and test digits, 64 numbers each from −1 to 1."""
    images, labels = load_digits(return_X_y=True)
    images = jnp.asarray(images / 8 - 1, jnp.float32)
    order = np.random.default_rng(0).permutation(len(images))
    train, test = order[:1500], order[1500:]
    return (images[train], labels[train]), (images[test], labels[test])


# %% [markdown]
# ## A model, and the sum of its clipped gradients

# %%
def initial(key):
    first, second = jax.random.split(key)
    return {
        "w1": jax.random.normal(first, (64, 32)) / 8,
        "b1": jnp.zeros(32),
        "w2": jax.random.normal(second, (32, 10)) / 6,
        "b2": jnp.zeros(10),
    }


def logits(params, images):
    return jnp.tanh(images @ params["w1"] + params["b1"]) @ params["w2"] + params["b2"]


def loss(params, image, label):
    return optax.softmax_cross_entropy_with_integer_labels(logits(params, image), label)


@jax.jit
def clipped_sum(params, images, labels):
    """The sum of gradients, each clipped to norm one."""
    each = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))(params, images, labels)
    norms = jnp.sqrt(sum(jnp.sum(g.reshape(len(images), -1) ** 2, 1) for g in jax.tree.leaves(each)))
    scale = 1 / jnp.maximum(norms, 1.0)
    # Products in fewer bits than float32 has, the default of some devices, would void κ.
    return jax.tree.map(lambda g: jnp.tensordot(scale, g, 1, precision="highest"), each)


# %% [markdown]
# ## The plan, and training
#
# The plan says how many steps there are, how often and how far apart a digit takes part, and the (ε, δ) to keep.
# `band-mf` is correlated over the steps of an epoch, `identity` is the independent noise that DP-SGD adds. With κ, what
# clipping and summing a batch in float32 adds to a digit's norm, the noise is on a grid of integers: what is released keeps
# its ε bit for bit. Without, ε is that of real numbers.

# %%
def train(mechanism, seed, learning_rate, arguments):
    (images, labels), (test_images, test_labels) = data()
    params = initial(jax.random.key(seed))
    iterations = arguments.epochs * arguments.batches
    folder = arguments.folder / f"{mechanism}-{learning_rate}-{seed}"
    folder.mkdir(parents=True)
    # The norms above are added up in float32.
    largest, dimension = -(-len(images) // arguments.batches), sum(leaf.size for leaf in jax.tree.leaves(params))
    kappa = rustle.grid.summing_error(largest, dimension, norm_dtype="float32")
    plan = rustle.plan(
        iterations=iterations,
        epsilon=arguments.epsilon,
        delta=DELTA,
        parameters=rustle.jax.layout(params),
        min_sep=arguments.batches,
        max_participations=arguments.epochs,
        mechanism=mechanism,
        size=arguments.batches if mechanism == "band-mf" else None,
        summing_error=None if arguments.float else kappa,
        float=arguments.float,
    )
    plan.save(folder / "plan.toml")
    batches = rustle.Batches(schemes.fixed_order(arguments.batches), len(images), iterations, os.urandom(32))

    with rustle.connect(f"inproc://{folder}") as session:
        size = len(images) / arguments.batches
        optimizer = optax.chain(
            rustle.jax.privatizer(session),
            optax.scale(1 / size),
            optax.sgd(learning_rate, momentum=0.9),
        )
        state = optimizer.init(params)
        for ids in rustle.Rounds(batches, session):
            updates, state = optimizer.update(clipped_sum(params, images[ids], labels[ids]), state, params)
            params = optax.apply_updates(params, updates)
        report = json.loads(session.report(delta=DELTA, format="json"))
        session.report(folder / "report.md", delta=DELTA)
    accuracy = float(np.mean(np.argmax(logits(params, test_images), 1) == test_labels))
    return accuracy, report["released"]["guarantees"][0]["epsilon"]


# %% [markdown]
# ## Correlated against independent noise
#
# Both at the same ε, over the same seeds, each with the better of the same learning rates.

# %%
def words():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--epochs", type=int, default=16)
    parser.add_argument("--batches", type=int, default=15, help="steps of an epoch")
    parser.add_argument("--learning-rates", type=float, nargs="+", default=[0.05, 0.2])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--float", action="store_true", help="floating-point noise, which does not hold against precision attacks"
    )
    parser.add_argument("--folder", type=Path, default=Path("digits"))
    return parser


def compare(arguments):
    found = {}
    for mechanism in ("band-mf", "identity"):
        runs = {
            rate: [train(mechanism, seed, rate, arguments) for seed in range(arguments.seeds)]
            for rate in arguments.learning_rates
        }
        rate = max(runs, key=lambda rate: sum(accuracy for accuracy, _ in runs[rate]))
        accuracies = [accuracy for accuracy, _ in runs[rate]]
        found[mechanism] = {
            "accuracy": float(np.mean(accuracies)),
            "each": accuracies,
            "epsilon": runs[rate][0][1],
            "learning_rate": rate,
        }
    gain = found["band-mf"]["accuracy"] - found["identity"]["accuracy"]
    return {**found, "delta": DELTA, "gain": gain}


# %% [notebook]
# arguments = words().parse_args(["--seeds", "2"])
# found = compare(arguments)
# found

# %% [markdown]
# `gain` is the difference of the two accuracies. One run's statement of what it promises:

# %% [notebook]
# from IPython.display import Markdown
#
# Markdown(next(arguments.folder.glob("band-mf-*/report.md")).read_text())

# %% [program]
if __name__ == "__main__":
    print(json.dumps(compare(words().parse_args())))
