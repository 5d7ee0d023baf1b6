"""Cursors that also name the batches of their run, and its schedule of clip norms."""

from __future__ import annotations

from . import errors

_BATCHES = b"rustle batches v1:"
_CLIP_NORMS = b"rustle clip norms v1:"
_DIGEST = 32


def tagged(cursor: bytes, batches: bytes | None, clip_norms: bytes | None = None) -> bytes:
    """Returns the cursor with the digests of the run's batches and of its clip norms behind it."""
    for mark, digest in ((_BATCHES, batches), (_CLIP_NORMS, clip_norms)):
        if digest is not None:
            cursor += mark + digest
    return cursor


def parted(cursor: bytes) -> tuple[bytes, bytes | None, bytes | None]:
    """Returns the cursor as the engine wrote it, and the digests of batches and clip norms behind it."""
    cursor, clip_norms = _cut(cursor, _CLIP_NORMS)
    cursor, batches = _cut(cursor, _BATCHES)
    return cursor, batches, clip_norms


def _cut(cursor: bytes, mark: bytes) -> tuple[bytes, bytes | None]:
    at = len(cursor) - _DIGEST - len(mark)
    if at < 0 or cursor[at : at + len(mark)] != mark:
        return cursor, None
    return cursor[:at], cursor[at + len(mark) :]


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


def check_same_norms(saved: bytes | None, here: bytes | None) -> None:
    """Refuses another schedule of clip norms than the saved position's: two multiples of one row at one sum reveal the sum."""
    if saved != here:
        of = lambda digest: "no schedule of clip norms" if digest is None else f"clip norms of digest {digest.hex()[:12]}…"
        allowed = "a session without one" if saved is None else "schedule_clip_norms with the norms that the run began with"
        text = (
            f"the session has {of(here)}, the cursor {of(saved)}; allowed: {allowed}, before resume. restart() begins again "
            "with fresh noise under any norms, which costs privacy"
        )
        raise errors.make("cursor_mismatch", text)
