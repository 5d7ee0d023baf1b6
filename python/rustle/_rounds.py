"""The batches of a run, each for the step of its round."""

from __future__ import annotations

from typing import Any, Iterator

import numpy as np

from . import _arguments, _assumptions, errors
from ._batches import Batches
from ._round_guard import RoundGuard
from ._session import Session, check_session


class Rounds(RoundGuard):
    """Yields the batches of a run in order, and makes the session refuse a step with any other batch.

    From now on the session adds the noise of step t only after the batch of round t was handed out here. A batch of
    another source, a round that was left out or repeated, and two batches for one step are refused before anything is
    released. The session's cursor carries the digest of the batches: resuming with other batches, or with another
    seed, is refused.

    Iteration begins at the session's next step whenever it is begun, also after a resume and after a loop that was
    left early.

    Of batches whose unit is a user, a step's sum holds one contribution for each user: the gradients of all of a user's
    records (``batches.owners(round)``) together, clipped as one. Sums larger than that many contributions are refused.

    Args:
        batches: The batches that the account assumes; they must keep the plan's participation.
        session: The session of the job.
        rank, ranks: The share of each batch that is yielded here, for ranks that sum their gradients. Adapters refuse
            several ranks that have one share.
        steps_per_epoch: The steps after which iteration pauses; the next one continues there. By default it ends with
            the plan.

    Raises:
        rustle.errors.RustleError: The batches break the plan's participation, or are not those of the cursor that the
            session resumed at.

    Example::

        rounds = rustle.Rounds(batches, session)
        for ids in rounds:
            total = clipped_sum(ids)                      # yours
            session.privatize_(total, session.next_step)
    """

    def __init__(
        self,
        batches: Batches,
        session: Session,
        *,
        rank: int = 0,
        ranks: int = 1,
        steps_per_epoch: int | None = None,
    ):
        _arguments.instance("batches", batches, Batches, "rustle.Batches, and then the session")
        check_session(session)
        super().__init__(session)
        rank, ranks = _arguments.whole("rank", rank), _arguments.whole("ranks", ranks, 1)
        if not 0 <= rank < ranks:
            raise errors.make("invalid_argument", f"rank is {rank}; allowed: 0 to {ranks - 1}")
        if steps_per_epoch is not None:
            steps_per_epoch = _arguments.whole("steps_per_epoch", steps_per_epoch, 1)
        if batches.event["kind"] == "user-level":
            unit = batches.event["unit"]
            text = f"the {unit} may have several sampled records in a batch; allowed: rustle.user_level.Training"
            raise errors.make("batches", text)
        self._of_users = batches.event["unit"] == "user"
        if self._of_users and ranks > 1:
            text = f"ranks is {ranks} and the unit a user, whose records two ranks would clip apart; allowed: 1"
            raise errors.make("batches", text)
        self.sampling = _assumptions.sampling_of(session.plan, batches)
        self.batches, self.digest = batches, bytes.fromhex(batches.digest)
        self.rank, self.ranks, self.steps_per_epoch = rank, ranks, steps_per_epoch
        session.watch(self)

    def __iter__(self) -> Iterator[np.ndarray]:
        for round, ids in self.drawn():
            here = self.share(ids)
            if self._of_users:
                users = len(np.unique(self.batches.owners(round)))
                self.deliver(round, users, users)
            else:
                self.deliver(round, len(ids), len(here))
            yield here

    def __len__(self) -> int:
        first, end = self._stretch()
        return end - first

    def drawn(self) -> Iterator[tuple[int, np.ndarray]]:
        first, end = self._stretch()
        return zip(range(first, end), self.batches.rounds(first, end))

    def share(self, ids: Any) -> Any:
        # By place in the batch: without a record those after it would go to other ranks. No account of a plan on a grid, whose
        # ranks round their sums, takes such a neighbour (docs/grid.md).
        return ids[self.rank :: self.ranks]

    def _stretch(self) -> tuple[int, int]:
        first, end = self.session.next_step, self.session.iterations
        if self.steps_per_epoch is not None:
            end = min(end, (first // self.steps_per_epoch + 1) * self.steps_per_epoch)
        return first, end
