"""scikit-learn's handwritten digits as the federated and user-level examples have them.

The set itself says nothing of who wrote a digit, so writers are made up: each has some digits of few kinds, and a hand of
its own, which presses harder or softer. What a model is, here: softmax regression, 65 numbers for each of ten kinds.
"""

import numpy as np
from sklearn.datasets import load_digits

SHAPE = (65, 10)


def load(writers, seed=0):
    """Returns each writer's (images, kinds), and a test set of 297 unchanged images."""
    images, kinds = load_digits(return_X_y=True)
    drawn = np.random.default_rng(seed)
    order = drawn.permutation(len(images))
    images = np.c_[images / 16, np.ones(len(images))][order]
    kinds = kinds[order]
    train = np.arange(1500)
    # Sorted by kind with much disorder, so that a writer has some of few kinds.
    train = train[np.argsort(kinds[train] + drawn.normal(0, 1.5, len(train)))]
    hands = np.exp(drawn.normal(0, 0.2, writers))
    split = []
    for part, hand in zip(np.array_split(train, writers), hands):
        own = images[part] * hand
        own[:, -1] = 1
        split.append((own, kinds[part]))
    return split, (images[1500:], kinds[1500:])


def _errors(model, images, kinds):
    """What the model gives each kind, less what is true: shape (images, 10)."""
    scores = images @ model
    odds = np.exp(scores - scores.max(1, keepdims=True))
    odds /= odds.sum(1, keepdims=True)
    odds[np.arange(len(kinds)), kinds] -= 1
    return odds


def each_gradient(model, images, kinds):
    """The cross entropy's gradient of each image: shape (images, 65, 10)."""
    return images[:, :, None] * _errors(model, images, kinds)[:, None, :]


def gradient(model, batch):
    """Of a batch's mean cross entropy."""
    images, kinds = batch
    return images.T @ _errors(model, images, kinds) / len(images)


def accuracy(model, test):
    images, kinds = test
    return float(((images @ model).argmax(1) == kinds).mean())


def best(runs):
    """Of runs by learning rate, each a list of (accuracy, ε) over seeds: those of the best rate, as plain data."""
    rate = max(runs, key=lambda rate: sum(accuracy for accuracy, _ in runs[rate]))
    accuracies = [accuracy for accuracy, _ in runs[rate]]
    return {
        "accuracy": float(np.mean(accuracies)),
        "each": accuracies,
        "epsilon": max(epsilon for _, epsilon in runs[rate]),
        "learning_rate": rate,
    }
