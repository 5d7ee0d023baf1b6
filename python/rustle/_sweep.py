"""Sweeps: the best of a random number of runs, charged for as one selection."""

from __future__ import annotations

import json
import math
import os
import random
import secrets
from pathlib import Path
from typing import Any, Iterator
from urllib.parse import quote

from . import _arguments, _holders, _native, errors
from ._data_set import DataSet, account_of
from ._native import Plan
from ._planning import epsilon as epsilon_of
from ._session import Session
from ._sweep_file import RunsFile, plain_space
from .sampling import Sampling


class Sweep:
    """A random number of runs of one plan, of which the best is published, under the budget of a data set.

    The budget is charged once, from the beginning, for the best of K runs (Papernot and Steinke 2021). K is drawn when the
    sweep is created, from the distribution that the charge is for, and kept in the folder's ledger: creating the sweep again
    opens it with the same K. Each run is a job of its own, with noise of its own. It can't rewind.

    The guarantee is for the best run alone, and its ε is that of the sweep, which is more than a run's: :meth:`costs` and
    :meth:`DataSet.report` state it. It is against those who see nothing else: not the other runs, their scores or their
    number, not the folder or its ledger. It holds only if

    * each run draws its parameters by itself, from one distribution that was fixed before: ``space`` does, and so does a
      random sampler; one that learns from earlier runs does not;
    * the score of a run needs no data of the data set, or only what the run released;
    * all runs are done before the best is taken: no one stops early. :meth:`best` refuses until each has a score and all rows
      of its plan, or was given up by :meth:`SweepRun.abandon` for a reason that is its own: not what other runs scored.

    Example::

        mails = rustle.DataSet("inproc://run", "mails", unit="user", epsilon=4, delta=1e-6)
        sweep = rustle.Sweep(mails, "rates", plan=plan, mean=20, space={"rate": [0.1, 0.2, 0.5]})
        for run in sweep:
            with run.connect() as session:
                run.score = train(session, run.parameters["rate"])
        print(sweep.best().parameters)

    Args:
        data_set: The data set whose budget pays.
        name: The sweep's name; its jobs are NAME and eight random hexadecimal digits, which count nothing.
        plan: The plan of every run. It names the ``dimension``.
        mean: The mean number of runs, E[K].
        shape: η of a truncated negative binomial K, 0 or more (1: geometric, 0: logarithmic), which is at least 1. Without one K is
            Poisson, and may be 0.
        batches: How the records of each round are chosen: None for any order, or :class:`rustle.sampling.CyclicPoisson`.
        space: Values of each parameter: numbers, texts, None, and lists or dicts of them, as JSON has them, which tuples and
            numpy's numbers become. A run draws one of each, uniformly and by itself. Without a space runs have no
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
        self.data_set = _arguments.instance("data_set", data_set, DataSet, "a rustle.DataSet, whose budget pays")
        self.name = _arguments.text("name", name)
        self.plan = _arguments.plan(plan)
        self.mean = _arguments.above_zero("mean", mean)
        if shape is not None:
            shape = _arguments.number("shape", shape)
            if not 0 <= shape < math.inf:
                raise _arguments.refused("shape", shape, "finite, 0 or more")
        self._space = plain_space({} if space is None else space)
        words = account_of(data_set, batches)
        assert words is not None
        self._account = words
        self._file = RunsFile(Path(data_set.folder) / f"{self.name}.sweep.json", self._space)
        # Before anything is charged: no part of a sweep that fails is given back.
        known = self._file.read()["space"]
        if known != self._space:
            text = f"sweep {name} has the space {known}; allowed: the same, which its runs draw from"
            raise errors.make("already_exists", text)
        with _holders.naming_the_holder(data_set.folder):
            _native.create_sweep(data_set.folder, name, words, plan, (self.mean, shape))
        self._check_known(self._state()[0])

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
        number = _arguments.whole("number", number)
        started, complete, _ = self._state()
        last = started if complete else started + 1
        if not 1 <= number <= last:
            raise errors.make("invalid_argument", f"run is {number}; allowed: 1 to {last}")
        self._check_known(started)
        self._file.edit(lambda runs: runs.setdefault(str(number), self._begun(runs)))
        return SweepRun(self, number)

    def best(self) -> SweepRun | None:
        """The run with the highest score: the only one to publish. None where no run has a score.

        Publish neither its ``number`` nor which runs there were. Its ε is that of the sweep (:meth:`costs`).

        Raises:
            rustle.errors.InvalidArgument: Runs are left, a run has neither a score nor :meth:`SweepRun.abandon`, or a run
                with a score has not taken all rows of its plan. To stop before depends on what was seen, and costs more.
        """
        started, complete, _ = self._state()
        if not complete:
            text = f"{started} runs have started; allowed: the best of all that were drawn, once next() has no more"
            raise errors.make("invalid_argument", text)
        self._check_known(started)
        scores = {}
        for number, run in self._runs().items():
            if not run["abandoned"]:
                scores[int(number)] = self._final_score(run)
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
        with _holders.naming_the_holder(self.data_set.folder):
            return _native.sweep_state(self.data_set.folder, self.name)

    def _final_score(self, run: dict[str, Any]) -> float:
        """The score of a run that is done."""
        job, rows = run["job"], run["rows"] or 0
        if run["score"] is None:
            text = f"run {job} has no score; allowed: a score, or abandon() for a run that cannot go on"
            raise errors.make("invalid_argument", text)
        if rows < self.plan.iterations:
            text = (
                f"run {job} has a score, and {rows} of {self.plan.iterations} rows when a session of it was last closed; "
                "allowed: all rows. Connect it, go on, and close the session"
            )
            raise errors.make("invalid_argument", text)
        return run["score"]

    def _begun(self, runs: dict[str, dict[str, Any]]) -> dict[str, Any]:
        """A run that has not started, with parameters of its own and a name that no other run has."""
        system = random.SystemRandom()
        parameters = {key: system.choice(values) for key, values in self._space.items()}
        used = {run["job"] for run in runs.values()}
        job = f"{self.name}.{secrets.token_hex(4)}"
        while job in used:
            job = f"{self.name}.{secrets.token_hex(4)}"
        # ``rows``: those bound when a session last began or ended; None before the first.
        return {"job": job, "parameters": parameters, "score": None, "abandoned": False, "rows": None}

    def _check_known(self, started: int) -> None:
        """Refuses a file without a run that has started: its parameters would be drawn anew."""
        runs = self._runs()
        missing = [number for number in range(1, started + 1) if str(number) not in runs]
        if missing:
            text = (
                f"{self._file.path} lacks {len(missing)} of the runs that the ledger has started; allowed: the file as it was, "
                "with the parameters that they drew. Restore it"
            )
            raise errors.make("not_found", text)

    def _runs(self) -> dict[str, dict[str, Any]]:
        return self._file.read()["runs"]


class SweepRun:
    """One run of a :class:`Sweep`. Its ``number`` is a secret: it says how many runs there are at least."""

    def __init__(self, sweep: Sweep, number: int):
        self._sweep = sweep
        self.number = number

    @property
    def job(self) -> str:
        """The name of the run's job, which says nothing of its number."""
        return self._entry()["job"]

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that the run drew from the sweep's space."""
        return self._entry()["parameters"]

    @property
    def score(self) -> float | None:
        """What runs are compared by, the higher the better. It is set once."""
        return self._entry()["score"]

    @score.setter
    def score(self, value: float) -> None:
        value = _arguments.number("score", value)
        if math.isnan(value):
            raise errors.make("invalid_argument", "score is NaN; allowed: a number")
        if self._entry()["abandoned"]:
            raise errors.make("already_exists", f"run {self.job} is abandoned; allowed: no score")
        if self._entry()["score"] not in (None, value):
            raise errors.make("already_exists", f"run {self.job} has the score {self.score}; allowed: one score")
        self._record(score=value)

    def abandon(self) -> None:
        """Gives the run up: it has no score for ever, and is never the best.

        For a run that cannot go on, or whose training failed. That must not depend on what other runs released or scored.

        Raises:
            rustle.errors.InvalidArgument: The run was not connected, or has a score.
        """
        run = self._entry()
        if run["rows"] is None or run["score"] is not None:
            state = "was not connected" if run["rows"] is None else f"has the score {run['score']}"
            text = f"run {self.job} {state}; allowed: a run that has begun and has no score"
            raise errors.make("invalid_argument", text)
        self._record(abandoned=True)

    def connect(self, *, plan: Plan | None = None) -> Session:
        """Opens the session of the run's job, which starts the run, or continues it. The session states no ε of its own.

        Args:
            plan: A plan with another clip norm; by default the sweep's. Noise is rounded to float32, and a grid's step is a
                power of two, so that other than powers of two times the sweep's clip norm may have another event, which is
                refused.
        """
        event = self._sweep._state()[2]
        folder = Path(self._sweep.data_set.folder)
        path = folder / f"{self.job}.plan.toml"
        (self._sweep.plan if plan is None else _arguments.plan(plan)).save(path)
        url = f"inproc://{folder}?job={quote(self.job)}&plan={quote(str(path))}"
        with _holders.naming_the_holder(str(folder)):
            native = _native.connect(url, self._sweep._account, self._sweep.name)
        session = _RunSession(native, self, event)
        try:
            session._count_rows()
        except BaseException:
            native.close()
            raise
        _holders.note(str(folder), session)
        return session

    def _record(self, **fields: Any) -> None:
        self._sweep._file.edit(lambda runs: runs[str(self.number)].update(fields))

    def _entry(self) -> dict[str, Any]:
        run = self._sweep._runs().get(str(self.number))
        if run is None:
            raise errors.make("not_found", f"run {self.number} is unknown; allowed: those of Sweep.next() and Sweep.run()")
        return run


class _RunSession(Session):
    """The session of one run: it keeps count of the rows, and states no ε, since what is selected costs more than a run."""

    def __init__(self, native: _native.Session, run: SweepRun, event: str):
        super().__init__(native)
        self._run = run
        self._event = event

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        delta: float | list[float] = 1e-6,
        neighbouring: str = "zero-out",
        batches: Any = None,
        format: str | None = None,
        unit: str | None = None,
    ) -> str:
        """Refused: the ε of a run is not that of the best of them, which :meth:`DataSet.report` states."""
        sweep = self._run._sweep
        first = _arguments.numbers("delta", delta)[0] if isinstance(delta, (list, tuple)) else _arguments.number("delta", delta)
        found = epsilon_of(json.loads(self._event), delta=first, neighbouring=sweep.data_set.neighbouring)
        # No digit that would make it less.
        shown = math.ceil(found * 1e5) / 1e5
        text = (
            f"report is of {self._run.job}, a run of sweep {sweep.name}, which has no ε of its own: the best run costs that "
            f"of the sweep, {shown:.5f} at δ = {first}. Allowed: DataSet.report, once the session is closed"
        )
        raise errors.make("invalid_argument", text)

    def finish(self, *, destroy_key: bool = False) -> str:
        """Ends the run's job, as :meth:`rustle.Session.finish` does; its key is that of all runs, and stays."""
        if destroy_key:
            text = f"destroy_key is True; allowed: False for a run of sweep {self._run._sweep.name}, whose runs share the key"
            raise errors.make("invalid_argument", text)
        return super().finish()

    def close(self) -> None:
        """Ends the session; a second time does nothing."""
        try:
            if not self.closed:
                self._count_rows()
        finally:
            super().close()

    def _count_rows(self) -> None:
        branches = json.loads(self._native.report())["released"]["branches"]
        self._run._record(rows=sum(end - start for branch in branches for start, end in branch["released"]))
