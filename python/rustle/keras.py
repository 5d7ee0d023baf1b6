"""Keras 3 on PyTorch or JAX: ``fit`` with clipped sums, checked batches and a session's noise.

::

    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    rounds = rustle.begin("run", parameters=rustle.keras.layout(model), records=len(x), batch_size=64, epochs=5, …)
    rustle.keras.fit(model, x, y, rounds=rounds, divide_by=64)

Keras optimizers, their schedules and their own gradient clipping come after the noise, and change nothing of what it promises.
Sums go through the host's memory. Norms are accumulated in float64: ``norm_dtype="float64"`` in :func:`rustle.begin` saves noise
(docs/grid.md).
"""

from __future__ import annotations

from typing import Any, Callable, Sequence

import keras
import numpy as np

from . import _arguments, errors
from ._keras_steps import OwnSteps
from ._layout import Layout
from ._rounds import Rounds
from .metrics import Metrics

__all__ = ["fit", "layout"]

# Examples whose gradients are in memory at once.
_MICROBATCH = 32
# What Keras wraps functions in, which it does not export: the base of its own losses.
_LOSS_OF_A_FUNCTION: Any = keras.losses.MeanSquaredError.__bases__[0]


def layout(model: Any) -> list[tuple[str, tuple[int, ...]]]:
    """Returns names and shapes of a built model's trainable variables: the ``parameters`` of :func:`rustle.begin`."""
    _arguments.instance("model", model, keras.Model, "a keras.Model")
    if not model.built:
        raise errors.make("layout", "the model is not built; allowed: one with an Input, or after model.build(shape)")
    for variable in model.trainable_variables:
        _arguments.real(f"variable {variable.path!r}", variable.dtype, keras.backend.is_float_dtype(variable.dtype))
    return [(variable.path, tuple(variable.shape)) for variable in model.trainable_variables]


def fit(
    model: Any,
    x: Any,
    y: Any,
    *,
    rounds: Rounds,
    divide_by: float,
    microbatch: int = _MICROBATCH,
    epochs: int | None = None,
    callbacks: Sequence[Any] = (),
    delta: float = 1e-6,
) -> Any:
    """Trains a compiled model as ``model.fit`` does, each example's gradient clipped to the plan's norm, with a run's noise.

    It continues at the session's next step, an epoch being ``steps_per_epoch`` of the rounds. A checkpoint needs
    ``session.cursor()`` beside the model and its optimizer.

    Args:
        model: A compiled model with one input and one output. Its trainable variables are those of the plan. Metrics it is
            compiled with serve ``model.evaluate``: nothing computes them here.
        x, y: The examples, along their first axis: numpy arrays, or what numpy makes arrays of. As many as the rounds'
            population.
        rounds: The :class:`rustle.Rounds` of the run, such as those of :func:`rustle.begin`.
        divide_by: The number that each sum is divided by, such as the batch size.
        microbatch: The most examples whose gradients are in memory at once.
        epochs: The epochs to train; by default all that the plan has left.
        callbacks: Keras callbacks. Their logs have the mean ``loss`` of an epoch, which is without noise and as secret as
            the examples, and ε of :class:`rustle.metrics.Metrics`.
        delta: δ at which ε is stated.

    Returns:
        The ``History`` of Keras.

    Raises:
        rustle.errors.InvalidArgument: A model that is not compiled, with several outputs, regularizers, loss weights, or a loss scale;
            rounds whose unit is a user.
        rustle.errors.LayoutMismatch: The trainable variables are not those of the plan, or a callback froze, unfroze or added one: no
            row of that step is spent.
        rustle.errors.StepError: A callback had the model's optimizer step, or gave the model another one.
        rustle.errors.MixesExamples: A layer that changes more than what is trained, such as BatchNormalization.
    """
    _arguments.instance("model", model, keras.Model, "a compiled keras.Model")
    session = _arguments.instance("rounds", rounds, Rounds, "rustle.Rounds, such as those of rustle.begin").session
    divide_by, microbatch = _arguments.above_zero("divide_by", divide_by), _arguments.whole("microbatch", microbatch, 1)
    epochs = None if epochs is None else _arguments.whole("epochs", epochs)
    x, y = _examples("x", x), _examples("y", y)
    _check(model, rounds, len(x), len(y))
    clipped = ClippedSum(model, session.clip_norm, microbatch)
    placed = Layout.of(layout(model), session)
    metrics = Metrics(session, delta=delta)
    session.claim(model)
    try:
        return _train(model, rounds, (x, y, clipped), placed, (divide_by, epochs), (list(callbacks), metrics))
    finally:
        session.release(model)


def _train(
    model: Any,
    rounds: Rounds,
    data: tuple[np.ndarray, np.ndarray, "ClippedSum"],
    placed: Layout,
    wanted: tuple[float, int | None],
    watched: tuple[list[Any], Metrics],
) -> Any:
    x, y, clipped = data
    divide_by, epochs = wanted
    session = rounds.session
    calls = keras.callbacks.CallbackList(watched[0], add_history=True, model=model, epochs=epochs or 1)
    model.stop_training, epoch = False, 0
    with OwnSteps(model) as steps:
        calls.on_train_begin()
        while session.next_step < session.iterations and epoch != epochs and not model.stop_training:
            calls.on_epoch_begin(epoch)
            losses: list[np.ndarray] = []
            for at, ids in enumerate(rounds):
                calls.on_train_batch_begin(at)
                _check_unchanged(model, placed)
                steps.check()
                clipped.clip_norm = session.clip_norm
                sums, found = clipped(x[ids], y[ids])
                steps.apply(*_noisy(model, session, placed, sums, divide_by))
                losses.append(found)
                calls.on_train_batch_end(at, {"loss": float(found.mean()) if len(found) else 0.0})
            all_losses = np.concatenate(losses)
            logs = {"loss": float(all_losses.mean()) if len(all_losses) else 0.0, **watched[1].figures()}
            calls.on_epoch_end(epoch, logs)
            epoch += 1
        calls.on_train_end()
    return model.history


def _check_unchanged(model: Any, placed: Layout) -> None:
    """Refuses a model whose trainable variables are not those of the plan any more."""
    now, planned = dict(layout(model)), {one.name: one.shape for one in placed.parameters.values()}
    if now != planned:
        name = next(name for name in [*planned, *now] if now.get(name) != planned.get(name))
        found, wanted = (shapes.get(name, "not trained") for shapes in (now, planned))
        text = (
            f"variable {name!r} is {found} now and {wanted} in the plan; allowed: trainable variables that stay what they were, in "
            "every callback. Train what is left or added under a plan of its own"
        )
        raise errors.make("layout", text)


def _noisy(
    model: Any, session: Any, placed: Layout, sums: list[np.ndarray], divide_by: float
) -> tuple[list[Any], list[Any]]:
    """Returns the sums with the next step's noise as the backend's tensors, and the variables they are of."""
    flat = np.empty(placed.dimension, np.float32)
    parts = [placed.parameters[variable.path] for variable in model.trainable_variables]
    for part, value in zip(parts, sums, strict=True):
        flat[part.start : part.start + part.size] = value.reshape(-1) / divide_by
    session.privatize_(flat, session.next_step, divide_by=divide_by, summed_in="float64")
    noisy = [flat[part.start : part.start + part.size].reshape(part.shape) for part in parts]
    variables = model.trainable_variables
    gradients = [keras.ops.convert_to_tensor(g, dtype=v.dtype) for g, v in zip(noisy, variables, strict=True)]
    return gradients, variables


class ClippedSum:
    """The sum of examples' gradients, each clipped to a norm, by the model's backend."""

    def __init__(self, model: Any, clip_norm: float, microbatch: int):
        self._model, self.clip_norm, self._microbatch = model, clip_norm, microbatch
        loss = keras.losses.get(model.loss)
        # As Keras does: a function by itself would take labels of another rank than what is predicted.
        self._loss = loss if isinstance(loss, keras.losses.Loss) else _LOSS_OF_A_FUNCTION(loss)
        self._seeds = [id(seed.state) for seed in _seed_generators(model)]
        self._each = _BACKENDS[keras.backend.backend()](self._of_one)

    def __call__(self, x: np.ndarray, y: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Returns the sum for each trainable variable, in float64, and the loss of each example."""
        sums = [np.zeros(variable.shape) for variable in self._model.trainable_variables]
        losses = [np.zeros(0)]
        for start in range(0, len(x), self._microbatch):
            part = slice(start, start + self._microbatch)
            count = len(x[part])
            # One size for all: a backend that compiles does so once.
            examples = [_padded(values[part], self._microbatch) for values in (x, y)]
            gradients, found = self._each(self._trained(), self._states(), *examples)
            for sum, value in zip(sums, _clipped([g[:count] for g in gradients], self.clip_norm), strict=True):
                sum += value
            losses.append(np.asarray(found[:count], np.float64))
        return sums, np.concatenate(losses)

    def _trained(self) -> list[Any]:
        return [variable.value for variable in self._model.trainable_variables]

    def _states(self) -> list[Any]:
        """The other variables. Seeds of dropout go on, which Keras leaves to its own loop."""
        for seed in _seed_generators(self._model):
            seed.next()
        return [variable.value for variable in self._model.non_trainable_variables]

    def _of_one(self, trained: list[Any], states: list[Any], number: Any, x: Any, y: Any) -> Any:
        # A mask of its own for each example: its number enters the first word of each seed.
        own = [
            state + keras.ops.cast(keras.ops.stack([number, number * 0]), state.dtype)
            if id(variable) in self._seeds and keras.backend.backend() == "jax"
            else state
            for variable, state in zip(self._model.non_trainable_variables, states, strict=True)
        ]
        predicted, _ = self._model.stateless_call(trained, own, x[None], training=True)
        return keras.ops.mean(self._loss(y[None], predicted))


def _on_torch(of_one: Callable[..., Any]) -> Callable[..., Any]:
    import torch
    from torch.func import grad_and_value, vmap

    each = vmap(grad_and_value(of_one), in_dims=(None, None, 0, 0, 0), randomness="different")

    def call(trained: list[Any], states: list[Any], x: np.ndarray, y: np.ndarray) -> Any:
        values = [value.detach() for value in trained]
        numbers = torch.arange(len(x))
        examples = [keras.ops.convert_to_tensor(one) for one in (x, y)]
        gradients, losses = each(values, states, numbers, *examples)
        return [keras.ops.convert_to_numpy(one) for one in gradients], keras.ops.convert_to_numpy(losses)

    return call


def _on_jax(of_one: Callable[..., Any]) -> Callable[..., Any]:
    import jax

    gradient = jax.value_and_grad(of_one)
    each = jax.jit(jax.vmap(gradient, in_axes=(None, None, 0, 0, 0)))

    def call(trained: list[Any], states: list[Any], x: np.ndarray, y: np.ndarray) -> Any:
        losses, gradients = each(trained, states, np.arange(len(x)), x, y)
        return [np.asarray(one) for one in gradients], np.asarray(losses)

    return call


_BACKENDS = {"torch": _on_torch, "jax": _on_jax}


def _padded(values: np.ndarray, length: int) -> np.ndarray:
    missing = length - len(values)
    return np.concatenate([values, np.repeat(values[:1], missing, axis=0)]) if missing else values


def _clipped(gradients: list[np.ndarray], clip_norm: float) -> list[np.ndarray]:
    """Returns the sums over the first axis of gradients that are clipped to ``clip_norm``, all of an example together."""
    flat = [np.asarray(value, np.float64).reshape(len(value), -1) for value in gradients]
    squares = sum((value * value).sum(axis=1) for value in flat)
    # An example whose gradient is not finite makes the sum so, which the step refuses.
    scale = clip_norm / np.maximum(np.sqrt(squares), clip_norm)
    return [(scale @ wide).reshape(value.shape[1:]) for wide, value in zip(flat, gradients, strict=True)]


def _seed_generators(model: Any) -> list[Any]:
    found = {}
    for layer in model._flatten_layers():
        for seed in getattr(layer, "_seed_generators", []):
            found[id(seed)] = seed
    return list(found.values())


def _examples(name: str, values: Any) -> np.ndarray:
    try:
        found = np.asarray(values)
    except ValueError:
        found = np.asarray(None)
    if found.ndim == 0 or found.dtype == object:
        raise _arguments.refused(name, values, "examples along the first axis of one numpy array")
    return found


def _check(model: Any, rounds: Rounds, records: int, labels: int) -> None:
    backend = keras.backend.backend()
    if backend not in _BACKENDS:
        raise errors.make("invalid_argument", f"Keras runs on {backend}; allowed: {', '.join(_BACKENDS)} (KERAS_BACKEND)")
    rounds.batches.check_length(records)
    if labels != records:
        raise errors.make("batches", f"y has {labels} labels; allowed: {records}, one for each example of x")
    if getattr(model, "optimizer", None) is None or getattr(model, "loss", None) is None:
        raise errors.make("invalid_argument", "the model is not compiled; allowed: model.compile(optimizer=…, loss=…)")
    if isinstance(model.loss, (list, tuple, dict)) or len(getattr(model, "outputs", None) or [None]) != 1:
        raise errors.make("invalid_argument", f"loss is {model.loss!r}; allowed: one loss, of a model with one output")
    if getattr(getattr(model, "_compile_loss", None), "_user_loss_weights", None) is not None:
        text = "the model is compiled with loss_weights, which have no use with one loss; allowed: none"
        raise errors.make("invalid_argument", text)
    if hasattr(model.optimizer, "inner_optimizer") or getattr(model.optimizer, "loss_scale_factor", None) is not None:
        text = "the optimizer scales losses, which would scale the noise; allowed: one that does not"
        raise errors.make("invalid_argument", text)
    _check_layers(model)


def _check_layers(model: Any) -> None:
    seeds = {id(seed.state) for seed in _seed_generators(model)}
    for layer in model._flatten_layers():
        own = [v for v in getattr(layer, "_non_trainable_variables", []) if id(v) not in seeds]
        if isinstance(layer, keras.layers.BatchNormalization) or (layer.trainable and own):
            text = f"layer {layer.name!r} ({type(layer).__name__}) keeps values of the examples without noise, or mixes examples"
            raise errors.make("mixes_examples", f"{text}; allowed: LayerNormalization or GroupNormalization in its place")
    if model.losses:
        text = "the model has regularizers, whose gradients no example has; allowed: weight_decay of the optimizer"
        raise errors.make("invalid_argument", text)
