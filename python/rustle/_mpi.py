"""The engine of a session over MPI: the noise ranks of the launch in which this process is a training rank."""

from __future__ import annotations

import json
from typing import Any, Callable, TypeVar
from urllib.parse import parse_qsl

import numpy as np

from . import _native, errors

T = TypeVar("T")

_joined = False


def session_of(url: str) -> _native.Session:
    """Joins the launch and opens a session. Collective over all ranks, once per process."""
    global _joined
    window, time_limit = _settings(url)
    if _joined:
        raise errors.make("busy", "this process has joined its launch already; a launch is joined once")
    try:
        from . import mpi
    except ImportError as error:
        text = f"mpi:// needs mpi4py ({error}); allowed: after `pip install mpi4py`"
        raise errors.make("invalid_argument", text) from error
    _joined = True
    return _native.session_over(Engine(mpi, mpi.join(window_bytes=window, time_limit=time_limit)))


def _settings(url: str) -> tuple[int, float]:
    """Returns the bytes to lend and the seconds to wait."""
    rest, _, query = url.removeprefix("mpi://").partition("?")
    try:
        pairs = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
        window, time_limit = int(pairs.pop("window", 0)), float(pairs.pop("time_limit", 120))
    except ValueError:
        raise _refused(url) from None
    if rest or pairs or window < 0 or not 0 < time_limit < float("inf"):
        raise _refused(url)
    return window, time_limit


def _refused(url: str) -> errors.RustleError:
    text = f"url is {url!r}; allowed: mpi://?window=BYTES&time_limit=SECONDS, whole bytes, and seconds above zero"
    return errors.make("invalid_argument", text)


class Engine:
    """The engine that :func:`rustle._native.session_over` takes."""

    def __init__(self, mpi: Any, noise: Any):
        self._mpi, self._noise = mpi, noise
        self.job = self._call(noise.place)[0]
        self.dimension, self.iterations = noise.dimension, noise.iterations
        self.on_grid = noise.on_grid
        self._scratch = np.empty(0, noise.dtype)

    def position(self) -> tuple[int, int]:
        """Returns the branch and one more than the highest row bound on it."""
        _, branch, next_row = self._call(self._noise.place)
        return branch, next_row

    def row(self, branch: int, row: int, start: int, end: int, commitment: bytes) -> np.ndarray:
        """Returns a row's values, valid until the next call: in lent memory where the range fits there. They are float32, or
        int32 where the plan is on a grid."""
        if row >= self.iterations:
            beyond = {"kind": "row_beyond_iterations", "row": row, "iterations": self.iterations}
            raise _native.refusal(json.dumps(beyond))
        size = end - start
        lent = size <= self._noise.window.size
        if not lent and self._scratch.size < size:
            self._scratch = np.empty(size, self._noise.dtype)
        where = {"place": 0} if lent else {"out": self._scratch[:size]}

        def fetch() -> np.ndarray:
            with self._noise.fetching(row, start, end, commitment, branch=branch, **where) as pending:
                pass
            return pending.values

        return self._call(fetch)

    def cursor(self, next_row: int) -> bytes:
        return self._call(lambda: self._noise.cursor(next_row))

    def resume(self, cursor: bytes, replay: bool) -> tuple[int, int, bool]:
        if len(cursor) > 255:
            text = f"cursor has {len(cursor)} bytes; allowed: below 256, as cursor() returned it"
            raise errors.make("invalid_argument", text)
        return self._call(lambda: self._noise.resume(cursor, replay))

    def rewind(self, row: int) -> tuple[int, int]:
        return self._call(lambda: self._noise.rewind(row))

    def report(self) -> str:
        return self._call(self._noise.report)

    def close(self) -> None:
        self._noise.close()

    def _call(self, ask: Callable[[], T]) -> T:
        """Runs `ask` and raises the exceptions that every other scheme raises."""
        try:
            return ask()
        except self._mpi.Refused as refused:
            error = _native.refusal(refused.fields) or errors.make(refused.kind, refused.words)
            raise error from None
        except self._mpi.TimeLimit as passed:
            raise errors.make("unavailable", str(passed), True) from passed
