"""Several processes of JAX on one job: one way to bind rows, and one batch a step."""

from __future__ import annotations

import struct

import jax
import numpy as np
from jax.experimental import multihost_utils

from ._commitment import Commitment
from ._ranks import Drawn, check_drawn, drawn_by
from ._session import Session

# Whether there are batches, their digest, rank and ranks.
_DRAWN = "<?32sQQ"


def agree(session: Session) -> None:
    """All processes bind rows as process 0 does, and draw the same batches, as far as they have rounds by now."""
    if jax.process_count() > 1:
        agree_on_batches(session)
        mine = np.frombuffer(struct.pack("<QQ64s", *session.share()), np.uint8)
        place = np.asarray(multihost_utils.broadcast_one_to_all(mine), np.uint8)
        if jax.process_index():
            session.join(struct.unpack("<QQ64s", place.tobytes()))


def agree_on_batches(session: Session) -> Drawn | None:
    """Refuses processes whose batches differ, in all of them. Returns what this one draws; None where it is alone."""
    if jax.process_count() == 1:
        return None
    mine = drawn_by(session.rounds)
    packed = struct.pack(_DRAWN, mine.digest is not None, mine.digest or bytes(32), mine.rank, mine.ranks)
    parts = np.asarray(multihost_utils.process_allgather(np.frombuffer(packed, np.uint8)), np.uint8)
    found = [struct.unpack(_DRAWN, part.tobytes()) for part in parts]
    # Arrays over all devices are of one batch, which each process may draw whole.
    check_drawn([Drawn(one[1] if one[0] else None, *one[2:]) for one in found], whole=True)
    return mine


def together(mine: Commitment) -> Commitment:
    """The exact commitment of what all processes have: one row is bound once."""
    if jax.process_count() == 1:
        return mine
    parts = np.asarray(multihost_utils.process_allgather(np.frombuffer(mine.data, np.uint8)), np.uint8)
    return Commitment.together([part.tobytes() for part in parts])
