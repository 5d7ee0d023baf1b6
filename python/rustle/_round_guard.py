"""The check that each step's noise meets the batch of its own round."""

from __future__ import annotations

from typing import Any, Callable, Iterator, Sequence

from . import errors
from ._session import Session


class RoundGuard:
    """Knows which round's batch the training loop has, and refuses a step of a session with any other.

    Subclasses name the rounds and their records, and the digest that is theirs alone.
    """

    #: 32 bytes that are equal where the batches of all rounds are.
    digest: bytes
    #: This rank, and the number of ranks whose shares make a batch: 0 where records are not shared out.
    rank: int
    ranks: int
    #: The most records of a batch whose sum the plan's grid covers, where the batches were made with the plan.
    largest: int | None = None

    def __init__(self, session: Session):
        self.session = session
        self._round: int | None = None
        self._records, self._here = 0, 0
        #: Called with the round before it is handed out again, as after a loop that was left early.
        self.on_repeat: list[Callable[[int], None]] = []

    def drawn(self) -> Iterator[tuple[int, Sequence[int]]]:
        """Yields rounds from the session's next step on, with the records of all ranks."""
        raise NotImplementedError

    def share(self, ids: Any) -> Any:
        """Returns those of a round's records that are this rank's."""
        return ids

    def deliver(self, round: int, records: int, here: int) -> None:
        """States that the round's batch is handed to the training loop now.

        Args:
            round: The round.
            records: How many records, or users, the batch has over all ranks: the most contributions of its sum.
            here: How many of them this rank has.

        Raises:
            rustle.errors.StepError: The session is at another step.
        """
        at = self.session.next_step
        if round != at:
            # What was handed out before has no step any more: one that follows would be of any batch.
            self.forget()
        if round > at:
            text = (
                f"the batch of round {round - 1} met no noise, since the session is at step {at}; allowed: one step for "
                "each batch. Leave a batch out with its row: attachment.skip(), rustle.jax.skip or session.skip()"
            )
            raise errors.make("step", text)
        if round < at:
            text = f"the loader is at round {round}, the session at step {at}; begin the loader anew"
            raise errors.make("step", text)
        if round == self._round:
            for check in self.on_repeat:
                check(round)
        self._round, self._records, self._here = round, records, here

    def check(self, step: int) -> None:
        """Refuses the noise of a step whose batch was not handed out here."""
        if self._round != step:
            handed_out = "no batch" if self._round is None else f"the batch of round {self._round}"
            text = (
                f"step {step} follows {handed_out} of the batches that the session checks; allowed: that of round "
                f"{step}. The gradients are of another loader, or of a batch that had its step already"
            )
            raise errors.make("step", text)

    def records(self, step: int) -> int:
        """Returns how many records the sum of a step is of, over all ranks.

        Raises:
            rustle.errors.InvalidArgument: They are more than the plan's grid covers.
        """
        self.check(step)
        if self.largest is not None and self._records > self.largest:
            text = (
                f"the batch of step {step} has {self._records} records; allowed: {self.largest}, whose sum the plan's grid "
                "covers. Leave it out, with its row: attachment.skip(), rustle.jax.skip or session.skip()"
            )
            raise errors.make("batches", text)
        return self._records

    def records_here(self, step: int) -> int:
        """Returns how many records of a step this rank has."""
        self.check(step)
        return self._here

    def excuse(self, step: int) -> None:
        """Admits the row of a step that is left out, whatever was handed out."""
        self._round, self._records, self._here = step, 0, 0

    def forget(self) -> None:
        """Forgets what was handed out, as the session went to another step."""
        self._round = None

    def __reduce__(self) -> Any:
        raise errors.make("invalid_argument", "rounds belong to a session and can't be pickled")
