"""What callbacks and arguments of `rustle.keras.fit` could do wrong, on PyTorch and on JAX."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

import numpy as np

# Which chooses the backend before Keras is imported.
from frameworks import Keras, keras_model
from misuse import PER_EPOCH, SIZE, STEPS, planned

from rustle import errors

pytest.importorskip(os.environ["KERAS_BACKEND"])
keras = pytest.importorskip("keras")


@pytest.fixture
def t(tmp_path):
    planned(tmp_path / "run", dimension=39)
    made = Keras(tmp_path / "run")
    made.rounds.steps_per_epoch = PER_EPOCH
    yield made
    made.session.close()


class Before(keras.callbacks.Callback):
    """Calls a function before the second batch, and keeps the weights from before it."""

    def __init__(self, t, call):
        super().__init__()
        self._t, self._call = t, call

    def on_train_batch_begin(self, batch, logs=None):
        if batch == 1:
            self.weights = [value.copy() for value in self._t.values()]
            self._call(self._t)


def refused(t, call, kind, match):
    before = Before(t, call)
    with pytest.raises(kind, match=match):
        t.fit(t.model, callbacks=[before])
    assert t.session.next_step == 1
    assert all((a == b).all() for a, b in zip(before.weights, t.values(), strict=True))


def train_on_batch(t):
    t.model.train_on_batch(t.x[:SIZE], t.y[:SIZE])


def fit_of_keras(t):
    t.model.fit(t.x, t.y, verbose=0)


def step_by_hand(t):
    t.model.optimizer.apply([0.0 * v + 1.0 for v in t.model.trainable_variables], t.model.trainable_variables)


def compiled_anew(t):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    t.model.compile(keras.optimizers.SGD(0.1), loss)


@pytest.mark.parametrize("call", [train_on_batch, fit_of_keras, step_by_hand, compiled_anew])
def test_a_step_between_the_steps_of_fit(t, call):
    refused(t, call, errors.StepError, "without noise|another optimizer")
    # What was refused hinders no one afterwards.
    t.fit(t.model)
    assert t.session.next_step == STEPS and t.session.branch == 0
    t.model.train_on_batch(t.x[:SIZE], t.y[:SIZE])


def test_a_fit_that_was_left_early(t):
    def leave(t):
        raise InterruptedError("left")

    refused(t, leave, InterruptedError, "left")
    t.fit(t.model, epochs=1)
    assert t.session.next_step == PER_EPOCH
    t.fit(t.model)
    assert t.session.next_step == STEPS and t.session.branch == 0


def test_an_optimizer_that_accumulates(t):
    """It adds up what has noise already."""
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    t.model.compile(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2), loss)
    t.fit(t.model)
    assert t.session.next_step == STEPS and t.session.branch == 0


def test_a_sum_that_is_not_finite(t):
    t.x[:, 0] = np.nan
    before = [value.copy() for value in t.values()]
    with pytest.raises(errors.InvalidArgument, match="nan"):
        t.fit(t.model)
    assert t.session.next_step == 0 and all((a == b).all() for a, b in zip(before, t.values(), strict=True))


def test_data_of_another_length(t):
    t.x, t.y = t.x[1:], t.y[1:]
    with pytest.raises(errors.InvalidArgument, match="population"):
        t.fit(t.model)
    assert t.session.next_step == 0


def test_layers_with_means(t):
    model = keras_model()
    model.add(keras.layers.BatchNormalization())
    with pytest.raises(errors.MixesExamples, match="BatchNormalization"):
        t.fit(model)
    assert t.session.next_step == 0


def test_the_same_on_jax():
    """Keras chooses its backend when it is imported: these tests and those of whole runs, in a process of their own."""
    if os.environ.get("KERAS_BACKEND") == "jax" or not importlib.util.find_spec("jax"):
        pytest.skip("on JAX already" if importlib.util.find_spec("jax") else "jax is not installed")
    here = Path(__file__).parent
    chosen = [here / "test_misuse_keras.py", here / "test_misuse_runs.py", "-k", "Keras or test_misuse_keras"]
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", here, *chosen]
    environment = {**os.environ, "KERAS_BACKEND": "jax"}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=environment, cwd=os.getcwd())
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr
