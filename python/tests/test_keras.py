"""Keras 3 on PyTorch and on JAX: clipped sums of one example's gradients, and fit with a session's rows."""

import importlib.util
import os
import subprocess
import sys

import pytest

BEGINS = """
import sys, numpy as np, keras, rustle, rustle.keras
from keras import layers
from rustle import errors
keras.utils.set_random_seed(0)
x = np.random.default_rng(0).normal(size=(48, 6)).astype("float32")
y = np.arange(48) % 3

def built(*more, **settings):
    model = keras.Sequential([keras.Input((6,)), layers.Dense(4, activation="tanh"), *more, layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(**{"optimizer": keras.optimizers.SGD(1.0), "loss": loss, **settings})
    return model

def begun(model, folder, **changes):
    asked = dict(records=48, batch_size=12, epochs=2, epsilon=8, delta=1e-5, clip_norm=0.5)
    return rustle.begin(folder, parameters=rustle.keras.layout(model), **{**asked, **changes})

def weights(model):
    return [np.asarray(keras.ops.convert_to_numpy(v)) for v in model.trainable_variables]

def refused(kind, call):
    try:
        call()
    except kind as error:
        return str(error)
    raise AssertionError("nothing was refused")
"""
SUMS = """
model = built()
found, losses = rustle.keras.ClippedSum(model, 0.5, 5)(x[:12], y[:12])
# By numpy: the gradients of softmax cross-entropy through two layers.
w1, b1, w2, b2 = [one.astype(np.float64) for one in weights(model)]
expected, lengths = [np.zeros(w.shape) for w in (w1, b1, w2, b2)], []
for one, label, loss in zip(x[:12].astype(np.float64), y, losses):
    hidden = np.tanh(one @ w1 + b1)
    odds = np.exp(hidden @ w2 + b2)
    assert abs(loss + np.log(odds[label] / odds.sum())) < 1e-5
    top = odds / odds.sum() - np.eye(3)[label]
    low = (w2 @ top) * (1 - hidden**2)
    own = [np.outer(one, low), low, np.outer(hidden, top), top]
    lengths.append(np.sqrt(sum((g * g).sum() for g in own)))
    for total, g in zip(expected, own):
        total += g * min(1, 0.5 / lengths[-1])
assert max(lengths) > 0.5
assert all(np.allclose(a, b, atol=1e-5) for a, b in zip(found, expected))
none, losses = rustle.keras.ClippedSum(model, 0.5, 5)(x[:0], y[:0])
assert not any(one.any() for one in none) and len(losses) == 0
"""
FITS = """
folder = sys.argv[1]
model = built(layers.Dropout(0.5))
rounds = begun(model, folder)
before = weights(model)
history = rustle.keras.fit(model, x, y, rounds=rounds, divide_by=12, delta=1e-5, epochs=1)
assert rounds.session.next_step == 4 and len(history.history["loss"]) == 1
cursor = rounds.session.cursor()
rounds.session.close()
rounds = begun(model, folder)
rounds.session.resume(cursor)
history = rustle.keras.fit(model, x, y, rounds=rounds, divide_by=12, delta=1e-5)
assert rounds.session.next_step == 8 and abs(history.history["rustle/epsilon"][-1] - 8) < 1e-5
assert all((a != b).any() for a, b in zip(before, weights(model)))
rounds.session.close()
"""
NOISE = """
# A loss without gradient: what moves the model is the noise alone, learning rate 1.
model = built(loss=lambda y, p: 0.0 * keras.ops.sum(p))
rounds = begun(model, sys.argv[1])
placed, before = dict(rustle.keras.layout(model)), weights(model)
rows = []
inner = rounds.session.privatize_
def seen(buffer, *words, **more):
    rows.append(inner(buffer, *words, **more).copy())
    return buffer
rounds.session.privatize_ = seen
rustle.keras.fit(model, x, y, rounds=rounds, divide_by=12, epochs=1)
moved = np.concatenate([(a - b).reshape(-1) for a, b in zip(before, weights(model))])
assert len(rows) == 4 and np.allclose(moved, sum(rows), atol=1e-4) and moved.std() > 0.01
"""
FUNCTIONS = """
# A loss by name, whose labels have one rank less than what is predicted, is that of Keras's own class.
for name, of in [("binary_crossentropy", keras.losses.BinaryCrossentropy()), ("mse", keras.losses.MeanSquaredError())]:
    model = keras.Sequential([keras.Input((6,)), layers.Dense(1, activation="sigmoid")])
    found = []
    for loss in (name, of):
        model.compile(optimizer="sgd", loss=loss)
        found.append(rustle.keras.ClippedSum(model, 0.5, 5)(x[:12], y[:12] % 2))
    (sums, losses), (others, expected) = found
    assert np.allclose(losses, expected) and losses.all(), name
    assert all(np.allclose(a, b) and a.any() for a, b in zip(sums, others)), name
"""
OWNERS = """
owners = rustle.Owners((record, [record % 24, record % 16]) for record in range(48))
scheme = rustle.schemes.contribution_bound(8, 4, 2)
model = built()
plan = rustle.plan(float=True, iterations=8, epsilon=8, delta=1e-5, min_sep=4, max_participations=2, parameters=rustle.keras.layout(model))
plan.save(sys.argv[1] + "/plan.toml")
with rustle.connect(f"inproc://{sys.argv[1]}") as session:
    rounds = rustle.Rounds(rustle.Batches(scheme, owners, 8, bytes(range(32))), session)
    rustle.keras.fit(model, x, y, rounds=rounds, divide_by=8)
    assert session.next_step == 8
"""
REFUSES = """
for number, (more, settings, kind, word) in enumerate([
    ([layers.BatchNormalization()], {}, errors.MixesExamples, "BatchNormalization"),
    ([layers.Dense(4, kernel_regularizer="l2")], {}, errors.InvalidArgument, "regularizers"),
    ([], {"loss": None}, errors.InvalidArgument, "not compiled"),
    ([], {"optimizer": keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(1.0))}, errors.InvalidArgument, "scales"),
    ([], {"optimizer": keras.optimizers.SGD(1.0, loss_scale_factor=8.0)}, errors.InvalidArgument, "scales"),
    ([], {"loss_weights": [2.0]}, errors.InvalidArgument, "loss_weights"),
]):
    model = built(*more, **settings)
    rounds = begun(model, f"{sys.argv[1]}/{number}")
    assert word in refused(kind, lambda: rustle.keras.fit(model, x, y, rounds=rounds, divide_by=12)), word
    assert rounds.session.next_step == 0
model = built()
assert "40 labels" in refused(errors.InvalidArgument, lambda: rustle.keras.fit(model, x, y[:40], rounds=rounds, divide_by=12))
rounds.session.plan.save(sys.argv[1] + "/users/plan.toml")
with rustle.connect(f"inproc://{sys.argv[1]}/users") as session:
    users = rustle.Batches(rustle.schemes.uls(3, rustle.schemes.fixed_order(4)), [4] * 12, 8, bytes(32))
    owned = rustle.Rounds(users, session)
    found = refused(errors.InvalidArgument, lambda: rustle.keras.fit(model, x, y, rounds=owned, divide_by=12))
    assert "a user may have several" in found
rounds = begun(model, sys.argv[1] + "/last")
assert "48" in refused(errors.InvalidArgument, lambda: rustle.keras.fit(model, x[:40], y[:40], rounds=rounds, divide_by=12))
assert "divide_by" in refused(errors.InvalidArgument, lambda: rustle.keras.fit(model, x, y, rounds=rounds, divide_by=0))
x[:, 0] = np.nan
found = refused(errors.RustleError, lambda: rustle.keras.fit(model, x, y, rounds=rounds, divide_by=12))
assert "nan" in found and rounds.session.next_step == 0
"""
FROZEN = """
class Flip(keras.callbacks.Callback):
    # Freezes the first layer, or trains it again, around the second batch.
    def __init__(self, model, at):
        super().__init__()
        self.changed, self.at = model, at
    def flip(self, at, batch):
        if (at, batch) == self.at:
            self.changed.layers[0].trainable = not self.changed.layers[0].trainable
    def on_train_batch_begin(self, batch, logs=None):
        self.flip("begin", batch)
    def on_train_batch_end(self, batch, logs=None):
        self.flip("end", batch)

for number, (is_trained, at) in enumerate([(True, ("begin", 1)), (True, ("end", 0)), (False, ("begin", 1)), (False, ("end", 0))]):
    model = built()
    model.layers[0].trainable = is_trained
    rounds = begun(model, f"{sys.argv[1]}/{number}")
    found = refused(errors.LayoutMismatch, lambda: rustle.keras.fit(model, x, y, rounds=rounds, divide_by=12, callbacks=[Flip(model, at)]))
    assert "dense" in found and ("not trained now" in found) is is_trained and rounds.session.next_step == 1, found
    # As it was, it continues where it stopped.
    model.layers[0].trainable = is_trained
    rustle.keras.fit(model, x, y, rounds=rounds, divide_by=12)
    assert rounds.session.next_step == 8
"""


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_keras(backend, tmp_path):
    """All in one process for each backend, which Keras chooses when it is imported."""
    for package in ("keras", backend):
        if not importlib.util.find_spec(package):
            pytest.skip(f"{package} is not installed")
    parts = [BEGINS]
    for name in ("SUMS", "FUNCTIONS", "FITS", "NOISE", "OWNERS", "FROZEN", "REFUSES"):
        parts.append(f"print({name!r}, flush=True); sys.argv[1] = {str(tmp_path / name)!r}\n{globals()[name]}")
    environment = {**os.environ, "KERAS_BACKEND": backend}
    command = [sys.executable, "-c", "\n".join(parts), ""]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
