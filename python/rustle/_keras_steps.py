"""The steps of a Keras optimizer while :func:`rustle.keras.fit` trains: those of `fit`, and no others."""

from __future__ import annotations

from typing import Any

from . import errors


class OwnSteps:
    """Has a model's optimizer refuse, while it is entered, every step but those of :meth:`apply`.

    A callback that trains by itself (``model.train_on_batch``, ``optimizer.apply``) would move the model without noise.
    """

    def __init__(self, model: Any):
        self._model, self._optimizer = model, model.optimizer

        # The model's own loops too: on JAX they take its variables away before they step.
        self._refused = [(self._optimizer, "apply"), (model, "fit"), (model, "train_on_batch")]

    def __enter__(self) -> "OwnSteps":
        # Beside the class's own, which Keras reaches by the name, also within what it compiles.
        for holder, name in self._refused:
            holder.__dict__[name] = self._refuse
        return self

    def __exit__(self, *_: object) -> None:
        for holder, name in self._refused:
            holder.__dict__.pop(name, None)

    def check(self) -> None:
        """Refuses another optimizer than the model had when `fit` began."""
        if self._model.optimizer is not self._optimizer:
            text = (
                f"the model has another optimizer, {self._model.optimizer.name!r}, than when fit began; allowed: one for the whole "
                "of fit. Compile the model before, or end this fit and begin another"
            )
            raise errors.make("step", text)

    def apply(self, gradients: list[Any], variables: list[Any]) -> None:
        """Steps with gradients that have noise."""
        type(self._optimizer).apply(self._optimizer, gradients, variables)

    def _refuse(self, *_: Any, **__: Any) -> None:
        text = (
            f"the optimizer {self._optimizer.name!r} was made to step by another than fit, with gradients without noise; allowed while "
            "fit trains: its own steps. Leave model.train_on_batch, model.fit and optimizer.apply out of callbacks"
        )
        raise errors.make("step", text)
