"""What a run has cost, for the tools that watch a training: TensorBoard, MLflow, Weights & Biases and others.

::

    metrics = rustle.metrics.Metrics(session, SummaryWriter("logs"), mlflow, delta=1e-5)
    for step in ...:
        ...
        metrics.log()
"""

from __future__ import annotations

import json
from typing import Any, Callable, Mapping

from . import _arguments, errors
from ._session import Session, check_session

__all__ = ["Metrics", "Write"]

Write = Callable[[dict[str, float], int], None]


class Metrics:
    """Writes ε so far, rows released, the branch and the time spent waiting to each of the sinks.

    A sink is recognised by what it can do, so that none of these packages is needed:

    ================================  =====================================================
    ``add_scalar(name, value, step)``  TensorBoard's ``SummaryWriter``
    ``log_metrics(figures, step=)``    the module ``mlflow``, loggers of Lightning
    ``log(figures, step=)``            a run of Weights & Biases, or its module
    a function of (figures, step)      anything else
    ================================  =====================================================

    Args:
        session: The session of the run.
        sinks: Where figures are written. None: :meth:`figures` alone.
        delta: δ at which ε is stated.
        neighbouring: The relation, as of :func:`rustle.report`.
        batches: The sampling that the account assumes; by default that of the session's :class:`rustle.Rounds`.
        every: Figures are written after every so many steps, and after the last one. An account takes up to some tens of
            milliseconds.
        prefix: Begins the name of each figure.
    """

    def __init__(
        self,
        session: Session,
        *sinks: Any,
        delta: float = 1e-6,
        neighbouring: str = "zero-out",
        batches: Any = None,
        every: int = 1,
        prefix: str = "rustle/",
    ):
        check_session(session)
        every, delta = _arguments.whole("every", every, 1), _arguments.number("delta", delta)
        self._session, self._batches = session, batches
        self._delta, self._neighbouring = delta, neighbouring
        self._every, self._prefix = every, prefix
        self._writes = [_write_to(sink) for sink in sinks]

    def figures(self) -> dict[str, float]:
        """Returns the figures now.

        ``epsilon``: of the rows released so far, abandoned branches included; ``epsilon_planned``: of the whole run;
        ``rows``: rows released on all branches; ``branch``: above 0 after rows were made anew; ``waited_seconds``.
        """
        batches = self._batches
        if batches is None:
            batches = getattr(self._session.rounds, "sampling", None)
        text = self._session.report(
            delta=self._delta, neighbouring=self._neighbouring, batches=batches, format="json"
        )
        found = json.loads(text)
        released = found["released"]
        figures = {
            "epsilon": released["guarantees"][0]["epsilon"] if released["rows"] else 0.0,
            "epsilon_planned": found["guarantees"][0]["epsilon"],
            "rows": released["rows"],
            "branch": self._session.branch,
            "waited_seconds": self._session.waited,
        }
        return {self._prefix + name: float(value) for name, value in figures.items()}

    def log(self, step: int | None = None) -> None:
        """Writes the figures to each sink, as those of ``step``: by default the session's steps so far."""
        done = self._session.next_step
        if done % self._every and done != self._session.iterations:
            return
        figures = self.figures()
        for write in self._writes:
            write(dict(figures), done if step is None else step)


def _write_to(sink: Any) -> Write:
    if callable(getattr(sink, "add_scalar", None)):

        def write(figures: Mapping[str, float], step: int) -> None:
            for name, value in figures.items():
                sink.add_scalar(name, value, step)

        return write
    for name in ("log_metrics", "log"):
        method = getattr(sink, name, None)
        if callable(method):
            return lambda figures, step: method(figures, step=step)
    if callable(sink):
        return sink
    text = (
        f"sink is {type(sink).__name__}; allowed: an object with add_scalar, log_metrics or log, or a function of figures "
        "and step"
    )
    raise errors.make("invalid_argument", text)
