"""Cursors that also name the batches of their run."""

from __future__ import annotations

from . import errors

_MARK = b"rustle batches v1:"
_DIGEST = 32


def tagged(cursor: bytes, digest: bytes | None) -> bytes:
    """Returns the cursor with the digest of the run's batches behind it."""
    return cursor if digest is None else cursor + _MARK + digest


def parted(cursor: bytes) -> tuple[bytes, bytes | None]:
    """Returns the cursor as the engine wrote it, and the digest behind it."""
    at = len(cursor) - _DIGEST - len(_MARK)
    if at < 0 or cursor[at : at + len(_MARK)] != _MARK:
        return cursor, None
    return cursor[:at], cursor[at + len(_MARK) :]


def check_same(saved: bytes | None, here: bytes | None, of: str = "the cursor") -> None:
    """Refuses batches other than those of the saved position: records could return sooner than the plan allows.

    ``of``: what the saved digest is of.
    """
    if saved is not None and here is not None and saved != here:
        text = (
            f"the batches have digest {here.hex()[:12]}…, those of {of} {saved.hex()[:12]}…; allowed: the scheme, "
            "population, iterations and seed that the run began with"
        )
        raise errors.make("batches_changed", text)
