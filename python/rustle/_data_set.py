"""Data sets with one privacy budget for all jobs of a folder."""

from __future__ import annotations

import datetime
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from . import _arguments, _holders, _native, _notes, errors
from .sampling import CyclicPoisson, Sampling


class DataSet:
    """A data set with one privacy budget for all jobs that name it, in the ledger of a folder.

    Creating it again with the same definition opens it. Jobs name it by ``rustle.connect(url, data_set=…)``; one whose whole
    plan the budget does not hold, beside all others, is refused, and so is a rewind. No session may be open in the folder
    meanwhile: its ledger is held by one process at a time, and by one session in it.

    Args:
        url: ``inproc://FOLDER``. At a coordinator: ``rustle budget``.
        name: The data set's name.
        unit: Whose data the budget protects: ``"example"``, ``"user"`` or ``"device"``.
        epsilon: ε that all jobs together may cost.
        delta: δ at which ε is stated.
        neighbouring: ``"zero-out"``, ``"add-remove"`` or ``"replace"``.
        per_block: Whether the budget is of each block (:meth:`add_block`), for the part of a unit's data that lies in it. Nothing then
            bounds what a unit is charged whose data lies in several blocks; ``show()["all_blocks"]`` says it.
    """

    def __init__(
        self,
        url: str,
        name: str,
        *,
        unit: str,
        epsilon: float,
        delta: float,
        neighbouring: str = "zero-out",
        per_block: bool = False,
    ):
        self.folder = folder_of(url)
        self.name = _arguments.text("name", name)
        self.unit = _arguments.text("unit", unit, "example, user, device")
        self.neighbouring = _arguments.text("neighbouring", neighbouring, "zero-out, add-remove, replace")
        amount, per_block = _amount(epsilon, delta), _arguments.flag("per_block", per_block)
        is_new = not os.path.exists(os.path.join(self.folder, "ledger.redb"))
        with _holders.naming_the_holder(self.folder):
            _native.create_data_set(self.folder, (name, unit, neighbouring), amount, per_block)
        if is_new:
            _notes.write(self.folder)

    def show(self) -> dict[str, Any]:
        """The budget, what is ``spent``, ``reserved`` and ``left`` of it, every sweep, and every job that is no run of one."""
        return json.loads(self._reported("json"))

    def grant(self, *, epsilon: float, delta: float) -> None:
        """Replaces the budget by one that holds all that is spent and reserved."""
        with _holders.naming_the_holder(self.folder):
            _native.grant_budget(self.folder, self.name, _amount(epsilon, delta))

    def add_block(
        self,
        block: str,
        *,
        start: datetime.date | str,
        until: datetime.date | str,
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> None:
        """Adds a block: records of the days from ``start`` on and before ``until``, in UTC, with a budget of its own.

        A block never changes, and the same one again is no error. From the first one on, new jobs name the blocks that they read:
        ``rustle.connect(url, data_set=…, blocks=[…])``. Each of them is charged with the job's whole plan. ``epsilon`` and ``delta``
        are at most the data set's, which they are by default.
        """
        if (epsilon is None) != (delta is None):
            text = "one of epsilon and delta is given; allowed: both, or neither for those of the data set"
            raise errors.make("invalid_argument", text)
        budget = None if epsilon is None or delta is None else _amount(epsilon, delta)
        days = _day("start", start), _day("until", until)
        block = _arguments.text("block", block)
        with _holders.naming_the_holder(self.folder):
            _native.add_block(self.folder, self.name, block, days, budget)

    def report(self, path: str | os.PathLike[str] | None = None, *, format: str | None = None) -> str:
        """Returns the report on the data set, to be signed, and writes it to ``path`` if there is one.

        Runs of sweeps are in none of its formats, and where there is a sweep JSON has null for ``entries``, which count them.

        ``format``: markdown, html or json; by default the one that the path's ending names.
        """
        path = None if path is None else _arguments.path("path", path)
        ending = os.path.splitext(path)[1].lower() if path is not None else ""
        format = format or {".html": "html", ".htm": "html", ".json": "json"}.get(ending, "markdown")
        text = self._reported(_arguments.text("format", format, "markdown, html, json"))
        if path is not None:
            _arguments.write(path, text)
        return text

    def _reported(self, format: str) -> str:
        with _holders.naming_the_holder(self.folder):
            return _native.data_set_report(self.folder, self.name, format)


# The data set's name, its unit, its relation, the sampling as JSON, and the blocks.
AccountWords = tuple[str, str, str, str, list[str]]


@dataclass(frozen=True)
class Account:
    """What a job says of its data."""

    data_set: str
    unit: str
    neighbouring: str
    batches: Sampling | None
    blocks: tuple[str, ...] = ()

    def words(self) -> AccountWords:
        """Returns the words that the native module takes."""
        return self.data_set, self.unit, self.neighbouring, _sampling(self.batches), list(self.blocks)


def account_of(
    data_set: DataSet | None, batches: Sampling | None, blocks: Iterable[str] | None = None
) -> AccountWords | None:
    """Returns the account of a job of the data set."""
    if isinstance(blocks, str):
        raise errors.make("invalid_argument", f"blocks is {blocks!r}; allowed: a list of names, such as [{blocks!r}]")
    if data_set is None:
        if blocks is not None:
            raise errors.make("invalid_argument", "blocks are given without a data_set; allowed: both, or neither")
        if batches is not None:
            raise errors.make("invalid_argument", "batches are given without a data_set; allowed: both, or neither")
        return None
    _arguments.instance("data_set", data_set, DataSet, "a rustle.DataSet of the job's folder")
    return Account(data_set.name, data_set.unit, data_set.neighbouring, batches, tuple(blocks or ())).words()


def folder_of(url: str) -> str:
    """Returns the folder of a URL of an engine in this process."""
    scheme, _, rest = _arguments.text("url", url, "inproc://FOLDER").partition("://")
    folder, question, _ = rest.partition("?")
    if scheme != "inproc" or not folder or question:
        text = f"url is {url!r}; allowed: inproc://FOLDER. At a coordinator data sets are recorded by rustle budget create"
        raise errors.make("invalid_argument", text)
    return folder


def check_folder(url: str, data_set: DataSet) -> None:
    """Refuses a data set of another folder than the URL's."""
    folder = url.removeprefix("inproc://").partition("?")[0]
    if os.path.realpath(folder) != os.path.realpath(data_set.folder):
        text = f"data_set is of {data_set.folder}; allowed: one of the job's folder, {folder}"
        raise errors.make("invalid_argument", text)


def _day(name: str, day: datetime.date | str) -> str:
    if isinstance(day, datetime.datetime) or not isinstance(day, (datetime.date, str)):
        raise _arguments.refused(name, day, "a datetime.date, or a text such as '2026-11-01'")
    return day.isoformat() if isinstance(day, datetime.date) else day


def _amount(epsilon: float, delta: float) -> tuple[float, float]:
    return _arguments.number("epsilon", epsilon), _arguments.number("delta", delta)


def _sampling(batches: Sampling | None) -> str:
    if batches is None:
        return ""
    if not isinstance(batches, CyclicPoisson):
        text = f"batches are {batches!r}; allowed: None, or rustle.sampling.CyclicPoisson, whose events compose"
        raise errors.make("invalid_argument", text)
    probability, partition, cap = batches.arguments()
    event: dict[str, Any] = {
        "kind": "cyclic-poisson",
        "sampling_probability": probability,
        "partition": partition,
    }
    if cap is not None:
        event["cap"] = {"batch_cap": cap[0], "dataset_size": cap[1]}
    return json.dumps(event)
