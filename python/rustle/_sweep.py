"""Sweeps: the best of a random number of runs, charged for as one selection."""

from __future__ import annotations

import json
import math
import os
import random
import tempfile
from pathlib import Path
from typing import Any, Callable, Iterator
from urllib.parse import quote

from . import _native, errors
from ._data_set import DataSet, account_of
from ._native import Plan
from ._planning import epsilon as epsilon_of
from ._session import Session
from .sampling import Sampling


class Sweep:
    """A random number of runs of one plan, of which the best is published, under the budget of a data set.

    The budget is charged once, from the beginning, for the best of K runs (Papernot and Steinke 2021). K is drawn when the
    sweep is created, from the distribution that the charge is for, and kept in the folder's ledger: creating the sweep again
    opens it with the same K. Each run is a job of its own, with noise of its own. It can't rewind.

    The guarantee is for the best run alone, against those who see nothing else: not the other runs, not their number, not the
    folder. It holds only if

    * each run draws its parameters by itself, from one distribution that was fixed before: ``space`` does, and so does a
      random sampler; one that learns from earlier runs does not;
    * the score of a run needs no data of the data set, or only what the run released;
    * all runs are started before the best is taken: no one stops early. :meth:`best` refuses until then.

    Example::

        mails = rustle.DataSet("inproc://run", "mails", unit="user", epsilon=4, delta=1e-6)
        sweep = rustle.Sweep(mails, "rates", plan=plan, mean=20, space={"rate": [0.1, 0.2, 0.5]})
        for run in sweep:
            with run.connect() as session:
                run.score = train(session, run.parameters["rate"])
        print(sweep.best().parameters)

    Args:
        data_set: The data set whose budget pays.
        name: The sweep's name; its jobs are NAME.1, NAME.2, ….
        plan: The plan of every run. It names the ``dimension``.
        mean: The mean number of runs, E[K].
        shape: η of a truncated negative binomial K, 0 or more (1: geometric, 0: logarithmic), which is at least 1. Without one K is
            Poisson, and may be 0.
        batches: How the records of each round are chosen: None for any order, or :class:`rustle.sampling.CyclicPoisson`.
        space: Values of each parameter. A run draws one of each, uniformly and by itself. Without a space runs have no
            ``parameters``.
    """

    def __init__(
        self,
        data_set: DataSet,
        name: str,
        *,
        plan: Plan,
        mean: float,
        shape: float | None = None,
        batches: Sampling | None = None,
        space: dict[str, list[Any]] | None = None,
    ):
        self.data_set = data_set
        self.name = name
        self.plan = plan
        self.mean = mean
        self._space = {key: list(values) for key, values in (space or {}).items()}
        empty = [key for key, values in self._space.items() if not values]
        if empty:
            raise errors.make("invalid_argument", f"space has no values of {empty[0]!r}; allowed: one or more")
        words = account_of(data_set, batches)
        assert words is not None
        self._account = words
        _native.create_sweep(data_set.folder, name, words, plan, (float(mean), shape))
        self._path = Path(data_set.folder) / f"{name}.sweep.json"
        known = self._stored()["space"]
        if known != json.loads(json.dumps(self._space)):
            text = f"sweep {name} has the space {known}; allowed: the same, which its runs draw from"
            raise errors.make("already_exists", text)

    def next(self) -> SweepRun | None:
        """The next run; None once all that were drawn have started. A run counts from its first :meth:`SweepRun.connect`."""
        started, complete, _ = self._state()
        return None if complete else self.run(started + 1)

    def __iter__(self) -> Iterator[SweepRun]:
        """All runs that are left, one after another. Each must have connected before the next."""
        last = None
        while (run := self.next()) is not None:
            if last is not None and run.number == last:
                text = f"run {run.job} was not connected; allowed: the next run once this one has begun"
                raise errors.make("invalid_argument", text)
            last = run.number
            yield run

    def run(self, number: int) -> SweepRun:
        """A run by its number, counted from 1: one that has started, to go on with it, or the next one."""
        started, complete, _ = self._state()
        last = started if complete else started + 1
        if not 1 <= number <= last:
            raise errors.make("invalid_argument", f"run is {number}; allowed: 1 to {last}")
        self._edit(lambda runs: runs.setdefault(str(number), {"parameters": self._drawn(), "score": None}))
        return SweepRun(self, number)

    def best(self) -> SweepRun | None:
        """The run with the highest score: the only one to publish. None where no run has a score.

        Raises:
            rustle.errors.InvalidArgument: Runs are left. To stop before K depends on what was seen, and costs more.
        """
        started, complete, _ = self._state()
        if not complete:
            text = f"{started} runs have started; allowed: the best of all that were drawn, once next() has no more"
            raise errors.make("invalid_argument", text)
        scores = {int(number): run["score"] for number, run in self._runs().items() if run["score"] is not None}
        if not scores:
            return None
        return SweepRun(self, max(scores, key=lambda number: (scores[number], -number)))

    def costs(self, delta: float) -> dict[str, float]:
        """ε at δ: of the selection (``epsilon``), and of as many runs as are expected, each of them published.

        ``composed`` is the accountant's ε of all of these, ``summed`` the sum of their ε. Nothing else of the data set is in it.
        """
        event = json.loads(self._state()[2])
        count = math.ceil(self.mean)
        many = {"kind": "self-composed", "event": event["event"], "count": count}
        relation = self.data_set.neighbouring
        return {
            "epsilon": epsilon_of(event, delta=delta, neighbouring=relation),
            "composed": epsilon_of(many, delta=delta, neighbouring=relation),
            "summed": count * epsilon_of(event["event"], delta=delta, neighbouring=relation),
        }

    def _state(self) -> tuple[int, bool, str]:
        return _native.sweep_state(self.data_set.folder, self.name)

    def _drawn(self) -> dict[str, Any]:
        system = random.SystemRandom()
        return {key: system.choice(values) for key, values in self._space.items()}

    def _stored(self) -> dict[str, Any]:
        return json.loads(self._path.read_text()) if self._path.exists() else {"space": self._space, "runs": {}}

    def _runs(self) -> dict[str, dict[str, Any]]:
        return self._stored()["runs"]

    def _edit(self, change: Callable[[dict[str, dict[str, Any]]], Any]) -> None:
        stored = self._stored()
        before = json.dumps(stored)
        change(stored["runs"])
        if json.dumps(stored) == before:
            return
        # Of mode 0600, and whole under its name or not there.
        with tempfile.NamedTemporaryFile("w", dir=self._path.parent, delete=False) as file:
            json.dump(stored, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(file.name, self._path)


class SweepRun:
    """One run of a :class:`Sweep`."""

    def __init__(self, sweep: Sweep, number: int):
        self._sweep = sweep
        self.number = number

    @property
    def job(self) -> str:
        """The name of the run's job."""
        return f"{self._sweep.name}.{self.number}"

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that the run drew from the sweep's space."""
        return self._entry()["parameters"]

    @property
    def score(self) -> float | None:
        """What runs are compared by, the higher the better. It is set once; a run without one is never the best."""
        return self._entry()["score"]

    @score.setter
    def score(self, value: float) -> None:
        value = float(value)
        if math.isnan(value):
            raise errors.make("invalid_argument", "score is NaN; allowed: a number")
        if self._entry()["score"] not in (None, value):
            raise errors.make("already_exists", f"run {self.job} has the score {self.score}; allowed: one score")
        self._sweep._edit(lambda runs: runs[str(self.number)].update(score=value))

    def connect(self, *, plan: Plan | None = None) -> Session:
        """Opens the session of the run's job, which starts the run, or continues it.

        Args:
            plan: A plan with another clip norm; by default the sweep's. Noise is rounded to float32, so that other than
                powers of two times the sweep's clip norm may have another event, which is refused.
        """
        folder = Path(self._sweep.data_set.folder)
        path = folder / f"{self.job}.plan.toml"
        (plan or self._sweep.plan).save(path)
        url = f"inproc://{folder}?job={quote(self.job)}&plan={quote(str(path))}"
        return Session(_native.connect(url, self._sweep._account, self._sweep.name))

    def _entry(self) -> dict[str, Any]:
        return self._sweep._runs()[str(self.number)]
