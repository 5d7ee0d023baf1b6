"""What the tables of wrong inputs share: rows of a call and the words of its refusal, and what every refusal keeps to."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Callable

import numpy as np
import pytest
from conftest import KEY, prepared

import rustle
from rustle import errors

#: A call on what it needs, and what its refusal says, as a regular expression.
Row = tuple[str, Callable[[Any], Any], str]

SEED = bytes(range(100, 132))
TOKEN = "a-token-that-no-error-may-show"
STEPS, DIMENSION = 12, 40
RUN = dict(iterations=STEPS, epsilon=4, delta=1e-5, min_sep=4, max_participations=3, dimension=DIMENSION)

# Words of Python and of its bindings that name no argument, or a place in the code in its stead.
_STRANGE = re.compile(
    r"panicked|PanicException|object cannot be (converted|interpreted)|can't convert negative|out of range integral|"
    r"not supported between|'NoneType'|has no attribute|unpack|not iterable|not subscriptable|too large to convert|"
    r"unsupported operand|must be real number|expected str, bytes|Result::unwrap|line \d+ column \d+|positional argument"
)
_WAY_OUT = re.compile(
    r"allowed|expected|the next one is|session\.skip|cannot be read|is not available now|[Cc]lose|restart|adopt|connect"
)
_SECRETS = [text for secret in (KEY, SEED) for text in (secret.hex(), repr(secret)[2:-1])] + [TOKEN]


class World:
    """A folder, a plan, and a session of its run."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.plan = rustle.plan(float=True, mechanism="band-mf", size=4, **RUN)
        prepared(folder / "run", self.plan)
        self.url = f"inproc://{folder / 'run'}"
        self.session = rustle.connect(self.url)
        prepared(folder / "closed", self.plan)
        self.closed = rustle.connect(f"inproc://{folder / 'closed'}")
        self.closed.close()
        self.batches = rustle.Batches(rustle.schemes.fixed_order(4), 60, STEPS, SEED)
        self.sum = np.zeros(DIMENSION, np.float32)

    def state(self) -> tuple[Any, ...]:
        """All that a refusal leaves as it was: files, the position, and the sum."""
        files = sorted(str(path) for path in self.folder.rglob("*"))
        return files, self.session.next_step, self.sum.tobytes()


def world(tmp_path_factory: Any) -> Any:
    """Yields a world, closed afterwards: the body of a fixture."""
    made = World(tmp_path_factory.mktemp("inputs"))
    before = os.getcwd()
    # What a wrong call writes beside its run lies in the world too.
    os.chdir(made.folder)
    yield made
    os.chdir(before)
    made.session.close()


def refusal(call: Callable[[Any], Any], on: Any) -> BaseException | None:
    """Returns the error of a call, or None."""
    try:
        call(on)
    except BaseException as error:
        return error
    return None


def complaints(error: BaseException | None) -> list[str]:
    """Returns what is wrong with an error for its reader."""
    if error is None:
        return ["nothing was refused"]
    text = str(error)
    found = []
    if not isinstance(error, (errors.RustleError, IndexError)):
        found.append(f"{type(error).__name__} is no error of the package")
    if _STRANGE.search(text):
        found.append("it speaks of Python's insides")
    if not _WAY_OUT.search(text):
        found.append("it does not say what is allowed")
    if any(secret in text for secret in _SECRETS):
        found.append("a secret is in it")
    return found


def check(row: Row, on: Any) -> None:
    """Checks one row of a table."""
    _, call, words = row
    before = on.state()
    error = refusal(call, on)
    assert on.state() == before, "a refusal spends and writes nothing"
    assert not complaints(error), f"{type(error).__name__}: {error}\n{complaints(error)}"
    assert re.search(words, str(error), re.DOTALL), f"{words!r} is not in: {error}"


def table(rows: list[Row]) -> Any:
    """Parametrises a test with the rows of a table."""
    return pytest.mark.parametrize("row", rows, ids=[row[0] for row in rows])
