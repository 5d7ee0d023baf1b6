"""Whether ranks that share a job draw one batch together, each record on one of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import errors


class Drawn(NamedTuple):
    """What one rank draws: the digest of its batches, its place and the number of places, 0 where it has none."""

    digest: bytes | None = None
    rank: int = 0
    ranks: int = 1


def drawn_by(rounds: Any) -> Drawn:
    """Returns what a rank draws whose session has these rounds, or None."""
    return Drawn() if rounds is None else Drawn(rounds.digest, rounds.rank, rounds.ranks)


def check_drawn(found: list[Drawn], *, whole: bool = False) -> None:
    """Refuses ranks of which two could have the same record in one step.

    Args:
        found: What each rank draws.
        whole: Whether each rank may have the whole batch too, for sums that are computed once over all ranks.
    """
    if len({one.digest for one in found}) > 1:
        text = "batches differ among ranks; allowed: one scheme, population, length and seed on all of them"
        raise errors.make("batches", text)
    if len(found) == 1 or found[0].digest is None:
        return
    of = f"rustle.Rounds(batches, session, rank=…, ranks={len(found)})"
    if any(one.ranks == 0 for one in found):
        text = f"the loaders of {len(found)} ranks may select one record for several ranks; allowed: {of}"
        raise errors.make("batches", text)
    if whole and all(one.ranks == 1 for one in found):
        return
    if any(one.ranks != len(found) for one in found) or len({one.rank for one in found}) < len(found):
        places = ", ".join(f"rank={one.rank} ranks={one.ranks}" for one in found)
        text = f"a record would count on several ranks, whose rounds have {places}; allowed: {of}, each rank once"
        raise errors.make("batches", text)


def check_kept(before: Drawn | None, rounds: Any) -> None:
    """Refuses rounds that came after ranks were compared, if they draw anything else. None: not compared yet."""
    if before is not None and drawn_by(rounds) != before:
        text = (
            "the rounds are not those that ranks were compared by before the first step; allowed: rounds of the same "
            "batches, rank and ranks, or to attach anew"
        )
        raise errors.make("batches", text)
