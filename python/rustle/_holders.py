"""Which session of this process holds a folder's ledger."""

from __future__ import annotations

import os
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING, Iterator

from . import errors

if TYPE_CHECKING:
    from ._session import Session

# The sessions of each process, by their folders: a fork has those of its parent, and can close none of them.
_sessions: weakref.WeakValueDictionary[tuple[int, str], Session] = weakref.WeakValueDictionary()


def note(folder: str, session: Session) -> None:
    """States that the session has the folder's ledger."""
    _sessions[os.getpid(), os.path.realpath(folder)] = session


def holder(folder: str) -> Session | None:
    """Returns the open session of this process that has the folder's ledger."""
    found = _sessions.get((os.getpid(), os.path.realpath(folder)))
    return None if found is None or found.closed else found


def held(folder: str) -> errors.RustleError:
    """Returns the error of a folder that this process holds."""
    text = f"this process has a session of {os.path.realpath(folder)} already; allowed: one. Close it first: session.close()"
    return errors.make("locked", text)


@contextmanager
def naming_the_holder(folder: str) -> Iterator[None]:
    """Says of a ledger that can't be opened that it is this process which holds it, where that is so."""
    try:
        yield
    except errors.Locked:
        if holder(folder) is None:
            raise
        raise held(folder) from None
