"""The session of a training job: noise for its steps, one after another."""

from __future__ import annotations

import os
import warnings
from typing import Any, Callable, Literal

import numpy as np

from . import _arguments, _native, errors
from ._buffers import flat
from ._clip_schedule import ClipNorms
from ._commitment import Commitment
from ._deprecated import warn_renamed
from ._grid_choice import ADD_REMOVE
from ._round_checks import RoundChecks
from ._sum_bound import check_finite
from ._tagged_cursor import check_same, check_same_norms, parted, tagged

Range = tuple[int, int] | slice | None


class Session(RoundChecks, ClipNorms):
    """A training job's access to its noise, opened by :func:`rustle.connect`.

    One trainer uses a session, one call at a time. Steps are counted from 0 to ``iterations`` − 1, coordinates from 0
    to ``dimension`` − 1. Values are those of σζ·C⁻¹Z: noise for the **sum** of clipped contributions, in the gradient's
    own units.

    Example::

        with rustle.connect("inproc://run") as session:
            for step in range(session.next_step, session.iterations):
                total = clipped_sum(step)           # yours: float32, contributions of norm ≤ plan.clip_norm
                session.privatize_(total, step)     # adds the noise of this step in place
    """

    def __init__(self, native: _native.Session):
        _arguments.instance("native", native, _native.Session, "none of yours: rustle.connect(url) opens a session")
        RoundChecks.__init__(self)
        ClipNorms.__init__(self)
        self._native = native
        self._opened_at = native.next_step
        self._owner: object | None = None
        self._on_grid = _native.is_on_grid(native)
        self._refused: dict[str, str] = {"add-remove": ADD_REMOVE} if self._on_grid else {}

    # Noise.

    def fetch_into(
        self, step: int, buffer: Any, range: Range = None, *, commitment: Commitment | None = None
    ) -> Any:
        """Overwrites ``buffer`` with the noise of ``step`` and returns it.

        Args:
            step: The step, counted from 0; at most :attr:`next_step`.
            buffer: float32 in C order, one value for each coordinate of the range; int32, in steps of the grid, where
                the plan has one.
            range: (start, end) of the flattened vector; by default all of it.
            commitment: The commitment to bind the row to. Without one, each coordinate of a step is delivered once.
                With one, a step may be requested again: the noise itself is yours then, for one sum.

        Raises:
            rustle.errors.StepError: The step was skipped, or delivered already.
            rustle.errors.CommitmentRefused: The row is bound to another commitment, or its noise is in another sum.
        """
        values = flat(buffer, dtype="int32" if self._on_grid else "float32")
        start, step = self._start(range, values.size), _step(step)
        bound = None if commitment is None else _commitment(commitment, "None, a Commitment").data
        self._check_round(step)
        self._begun = True
        if self._on_grid:
            _native.fetch_integers(self._native, step, values, start, bound)
        else:
            self._native.fetch_into(step, values, start, bound)
            self._scale_in_place(step, values)
        return buffer

    def privatize_(
        self,
        buffer: Any,
        step: int,
        range: Range = None,
        *,
        commitment: Commitment | Literal["declared", "exact"] = "declared",
        divide_by: float = 1.0,
        summed_in: Literal["float32", "float64"] = "float32",
    ) -> Any:
        """Adds the noise of ``step``, divided by ``divide_by``, to the clipped sum in ``buffer``, and returns it.

        Under a plan on a grid the sum, times ``divide_by``, is rounded to the grid as the plan says, integers are added,
        and the buffer holds their float32 afterwards.

        Args:
            buffer: The sum: float32 in C order, one value for each coordinate of the range.
            step: The step, counted from 0; at most :attr:`next_step`.
            range: (start, end) of the flattened vector; by default all of it.
            commitment: ``"declared"`` binds the row to a commitment that this session alone can repeat. ``"exact"``
                binds it to a keyed digest of the sum as it is now, for deterministic jobs that reproduce the same bits.
                Under either kind of :class:`Commitment` a step may be requested again for the same sum, range and
                ``divide_by``; the session remembers their keyed digests for its last 4,096 steps and refuses others.
            divide_by: The number that the sum was divided by already, such as the expected batch size.
            summed_in: The type that contributions were clipped and added in, before one rounding to float32 where it is float64.
                Under a plan on a grid whose session has :class:`rustle.Rounds`, more of them than the plan's κ covers are
                refused, and where only pairwise sums in float32 are covered a warning says so.

        After an error the buffer is unchanged. After an interrupt (Ctrl-C) it may hold the noise; it does if
        :attr:`next_step` is past ``step``.

        Raises:
            rustle.errors.StepError: The step was skipped, delivered already, or is not that of the batch that the
                session's :class:`rustle.Rounds` handed out.
            rustle.errors.SumTooLarge: The sum can't be one of that batch, clipped.
            rustle.errors.InvalidArgument: The sum is not finite; :meth:`skip` leaves the step out. Or the plan's κ does not
                cover it.
            rustle.errors.CommitmentRefused: The row is bound to another commitment, or its noise is in another sum.
        """
        values = flat(buffer)
        start = self._start(range, values.size)
        whole, step = (start, start + values.size), _step(step)
        divide_by = _arguments.above_zero("divide_by", divide_by)
        _check_commitment(commitment)
        self._check_round(step, values, divide_by)
        self._check_kappa(step, summed_in)
        check_finite(values)
        self._begun = True
        if commitment == "declared":
            self._native.add_into(step, [(start, values)], whole, None, divide_by / self._scale(step))
            return buffer
        own = self.exact(step, values, start=start, divide_by=divide_by)
        bound = _bound(commitment, own)
        scaled = divide_by / self._scale(step)
        self._native.add_into(step, [(start, values)], whole, bound.data, scaled, own.data[1:])
        return buffer

    def release_(
        self,
        buffer: Any,
        step: int,
        range: Range = None,
        *,
        commitment: Commitment | Literal["declared", "exact"] = "declared",
    ) -> Any:
        """Adds the noise of ``step`` to integers in steps of the plan's grid, and returns them.

        Args:
            buffer: The sum that :class:`rustle.grid.Sum` or :func:`rustle.grid.contribution` made: int64 in C order, one
                integer for each coordinate of the range.
            step: The step, counted from 0; at most :attr:`next_step`.
            range: (start, end) of the flattened vector; by default all of it.
            commitment: As of :meth:`privatize_`.

        :func:`rustle.grid.to_float` turns the result into floats. After an error the buffer is unchanged.

        Raises:
            rustle.errors.InvalidArgument: The plan has no grid, its sums are dithered, or an integer is beyond 2⁴⁷.
            rustle.errors.StepError: As of :meth:`privatize_`, and the other errors there.
        """
        values = flat(buffer, dtype="int64")
        start = self._start(range, values.size)
        step = _step(step)
        _check_commitment(commitment)
        if not self._on_grid:
            text = "the buffer holds integers; allowed: a float32 sum, to privatize_: the plan has no [grid]"
            raise errors.make("invalid_argument", text)
        if self._rounds is not None:
            self._check_round(step, values * 2.0 ** self.plan.grid["step"])
        if commitment == "declared":
            _native.release_integers(self._native, step, values, start, None)
            return buffer
        # The word keeps the digest apart from that of a float32 sum with these bytes.
        own = self.exact(step, np.frombuffer(b"int64", np.uint8), values, start=start)
        _native.release_integers(
            self._native, step, values, start, _bound(commitment, own).data, own.data[1:]
        )
        return buffer

    def exact(self, step: int, *sums: Any, start: int = 0, divide_by: float = 1.0) -> Commitment:
        """The exact commitment to sums, arrays in the order of their coordinates, at a step of this session's branch.

        A keyed digest (HMAC-SHA256) of their bytes. Its key is 32 bytes that the session draws, keeps in its
        :meth:`cursor` and gives to no service: without it a guess of a sum cannot be tested.

        Args:
            step: The step that the sums are of.
            start: Their first coordinate.
            divide_by: The number that sums and noise are divided by.
        """
        pieces = [np.ascontiguousarray(one).reshape(-1).view(np.uint8) for one in sums]
        start = _arguments.whole("start", start)
        scaled = _arguments.above_zero("divide_by", divide_by) / self._scale(_step(step))
        return Commitment.of_digest(_native.digest(self._native, _step(step), pieces, start, scaled))

    def prefetch(self, rows: int) -> None:
        """Keeps ``rows`` rows produced ahead in this process.

        Of a cluster it changes nothing: workers produce rows ahead by themselves, as many as their settings say. No row
        leaves them before its step unless it is reserved, since it must be bound first, and then counts as released.
        """
        self._native.prefetch(_arguments.whole("rows", rows))

    def reserve(
        self,
        range: Range = None,
        *,
        steps: int = 1,
        commitment: Commitment | Callable[[int], Commitment] | None = None,
    ) -> None:
        """Binds the rows of the next steps in the background, and fetches them from a cluster, while gradients are
        computed. Then a step waits for no disk and no network.

        Call it before each step, and only where the steps are certain to follow: reserved rows count as released, so a
        job that ends or rewinds before them has paid for up to ``steps`` rows. What cannot be reserved is reported by
        the calls that request the rows.

        Args:
            range: As in the calls that request the rows.
            steps: The most rows to have reserved, 1 to 1024. They are bound in groups of half as many, one disk sync
                for each group. Rows of a cluster take ``steps`` rows of memory here. Reserve one step where several
                sessions or ranges share a worker's shard: workers keep few rows for a session that comes later.
            commitment: As in the calls that request the rows; for more than one step, a function of the step.
        """
        start, end = self._bounds(range)
        steps = _arguments.whole("steps", steps, 1)
        bound: Any = commitment
        if callable(commitment):
            made = commitment
            bound = lambda step: _commitment(made(step), "a Commitment for each step").data
        elif commitment is not None:
            bound = _commitment(commitment, "None, a Commitment, a function of the step").data
        self._begun = True
        self._native.reserve(start, end, steps, bound)

    def announce(
        self,
        range: Range = None,
        *,
        steps: int = 1,
        commitment: Commitment | Callable[[int], Commitment] | None = None,
    ) -> None:
        """Deprecated name of :meth:`reserve`."""
        warn_renamed("Session.announce", "Session.reserve")
        self.reserve(range, steps=steps, commitment=commitment)

    # Position.

    def cursor(self, step: int | None = None) -> bytes:
        """Returns the job's position before ``step``, by default the next one: below 512 bytes, for a checkpoint.

        It has the secret that exact commitments are keyed by, so keep it as private as the checkpoint and give it to
        :meth:`resume` alone. Changes nothing, here or elsewhere.
        """
        self.settle()
        step = None if step is None else _step(step)
        return tagged(self._native.cursor(step), self._batches_digest, self._norms_digest)

    def resume(self, cursor: bytes, *, replay: bool = False) -> bool:
        """Continues at a cursor. Returns whether that opened a new branch with fresh noise, which costs privacy.

        A new branch is opened where rows after the cursor were released. With ``replay`` the same rows are delivered
        again instead, if all of them were bound to exact commitments; training must then be deterministic, and the cursor
        one of a session's.

        Raises:
            rustle.errors.CursorMismatch: The cursor is of another job, plan or layout, of a job of this name in
                another ledger, or of another schedule of clip norms than the session has.
            rustle.errors.LedgerBehind: The ledger knows less than the cursor: it is an old copy.
            rustle.errors.BatchesChanged: The session's :class:`rustle.Rounds` are not those of the cursor.
        """
        self.settle()
        data = _arguments.octets("cursor", cursor, "bytes, as session.cursor() returned them")
        replay = _arguments.flag("replay", replay)
        plain, saved, norms = parted(data)
        check_same_norms(norms, self._norms_digest)
        check_same(saved, self._rounds.digest if self._rounds is not None else None)
        self._begun = True
        branched = self._native.resume(plain, replay)
        self._resumed(saved)
        if branched:
            text = f"rows after the cursor were released: branch {self.branch} opens with fresh noise, which costs privacy"
            warnings.warn(f"{text}. report() states how much", errors.BranchOpened, stacklevel=2)
        return branched

    def restart(self, step: int = 0) -> None:
        """Rewinds to ``step`` without a cursor: rows from there on have fresh noise, which costs privacy."""
        self.settle()
        step = _step(step)
        self._begun = self._begun or step > 0
        self._native.rewind(step)
        self._resumed(self._resumed_batches)

    def skip(self) -> None:
        """Leaves the next step out: its row is bound and discarded, and counts as released.

        For training loops without an adapter, which have one of their own. Call it for a batch that no noise is added
        to: each later batch would have the row before its own otherwise.
        """
        step = self.next_step
        self.excuse(step)
        self.fetch_into(step, self.row(1), (0, 1))

    @property
    def next_step(self) -> int:
        """The next step."""
        self.settle()
        return self._native.next_step

    # Facts.

    @property
    def waited(self) -> float:
        """Seconds between requests for rows and their arrival, over all calls so far.

        Copying or adding a row that has arrived is not counted, except where a socket is read right into the buffer.
        """
        return self._native.waited

    @property
    def plan(self) -> _native.Plan:
        """The plan that the job was created with."""
        return self._native.plan()

    @property
    def job(self) -> str:
        """The job's name, which its ledger and reports have."""
        return self._native.job

    @property
    def branch(self) -> int:
        """The branch that the session's rows are of: 0, and one more after each return to an earlier step with fresh noise."""
        return self._native.branch

    @property
    def dimension(self) -> int:
        """Coordinates of the flattened parameter vector."""
        return self._native.dimension

    @property
    def iterations(self) -> int:
        """The steps of the plan."""
        return self._native.iterations

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        delta: float | list[float] = 1e-6,
        neighbouring: str = "zero-out",
        batches: Any = None,
        format: str | None = None,
        unit: str | None = None,
    ) -> str:
        """Returns the statement of what was released and what it costs; arguments as in :func:`rustle.report`.

        ``unit`` is by default that of the batches in the session's :class:`rustle.Rounds` (a record is an example), or user.

        A relation that the session's trainer cannot keep is refused, such as add-remove where it divides by a number that
        depends on how many records there are.
        """
        from ._planning import statement

        self.settle()
        self.check(neighbouring)
        unit = self.unit if unit is None else unit
        return statement(None, self._native.report(), path, delta, neighbouring, batches, format, unit, self._noted)

    # Life.

    def finish(self, *, destroy_key: bool = False) -> str:
        """Ends the job for good: from now on no row is bound, on no branch. Returns what can no longer be done.

        Args:
            destroy_key: Also gives up the rows that are bound, and deletes the folder's ``job.key``: with the ledger it makes
                all noise of the run, which can then be subtracted. Copies of the file, such as those of backups and snapshots
                of a disk, are not known here, and this process holds the key until :meth:`close`. Of a cluster it
                destroys the job, checkpoints too, which takes an operator's access; the files of its key are the operator's to
                delete, which a warning says, :class:`rustle.errors.KeyIsLeft`.

        The ledger keeps what was released, and :meth:`report` works as before. A second call does nothing. A call that raised
        :class:`rustle.errors.StoreError` comes again: the key's file may still be there.

        Raises:
            rustle.errors.InvalidArgument: The key is not this job's alone (``key_file``, another job of the folder, a file with
                a second name), or the session is one of ``mpi://``. Nothing was changed.
            rustle.errors.AccessDenied: A trainer of a cluster can't destroy a job.
        """
        self.settle()
        said, is_key_left = _native.finish(self._native, _arguments.flag("destroy_key", destroy_key))
        if is_key_left:
            warnings.warn(said, errors.KeyIsLeft, stacklevel=2)
        return said

    def close(self) -> None:
        """Ends the session; a second time does nothing."""
        try:
            self.settle()
        finally:
            self._native.close()

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` was called."""
        return self._native.closed

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Session(job={self.job!r}, dimension={self.dimension}, next_step={self.next_step})"

    def __reduce__(self) -> Any:
        raise errors.make(
            "invalid_argument", "a session can't be pickled; keep its cursor() and connect anew"
        )

    # For adapters.

    @property
    def is_on_grid(self) -> bool:
        """Whether rows are integers on the plan's grid."""
        return self._on_grid

    @property
    def needs_resume(self) -> bool:
        """Whether the job has rows released by earlier sessions, and this one has neither resumed nor restarted."""
        return not self._has_position and self._native.next_step == self._opened_at > 0

    def row(self, coordinates: int) -> np.ndarray:
        """Memory for a row's noise of so many coordinates: int32 where the plan is on a grid, else float32."""
        return np.empty(coordinates, np.int32 if self._on_grid else np.float32)

    def claim(self, owner: object) -> None:
        """Reserves the session for one trainer and refuses a second."""
        if self._owner is not None and self._owner is not owner:
            raise errors.make(
                "busy", "another trainer has this session; detach it, or connect a session of its own"
            )
        self._owner = owner

    @property
    def unit(self) -> str:
        """The unit of privacy that the session's rounds describe: example, user or owner; user without rounds."""
        batches = getattr(self.rounds, "batches", None)
        unit: str = "user" if batches is None else batches.event["unit"]
        return "example" if unit == "record" else unit

    def refuse(self, relation: str, why: str) -> None:
        """Has :meth:`check` refuse a neighbouring relation from now on; the first reason is kept."""
        self._refused.setdefault(relation, why)

    def check(self, relation: str) -> None:
        """Refuses a neighbouring relation that the session's trainer does not keep."""
        if relation in self._refused:
            raise errors.make("accounting", f"neighbouring is {relation}; {self._refused[relation]}")

    def release(self, owner: object) -> None:
        """Frees the session for another trainer, where ``owner`` is the one that claimed it."""
        if self._owner is owner:
            self._owner = None

    def _is_used(self) -> bool:
        return self._owner is not None

    def add_to(
        self,
        pieces: list[tuple[int, Any]],
        step: int,
        range: tuple[int, int],
        commitment: Commitment,
        divide_by: float,
    ) -> None:
        """Adds the noise of ``step``, divided by ``divide_by``, to numpy arrays within ``range``, once.

        ``pieces``: arrays, each with its first coordinate. The noise is added to all of them, or after an error to
        none; after an interrupt :attr:`next_step` states which.

        Raises:
            rustle.errors.BufferRefused: Two arrays overlap, whose values would have the same noise.
        """
        _check_apart(pieces)
        self._check_round(step)
        self._begun = True
        self._native.add_into(step, pieces, range, commitment.data, divide_by / self._scale(step))

    def used(self, step: int, ranges: list[tuple[int, int]]) -> None:
        """Records that the noise of these ranges, which came by :meth:`fetch_into`, goes to one sum and to no other."""
        for start, end in ranges:
            self._native.used(step, start, end)

    def share(self) -> tuple[int, int, bytes]:
        """Returns what other ranks of the same job need to bind the same rows: branch, next step, and 64 secret bytes."""
        return self._native.share()

    def join(self, position: tuple[int, int, bytes]) -> None:
        """Continues at the position that rank 0 returned from :meth:`share`."""
        self.refuse_clip_schedule("several ranks")
        self._begun = True
        self._has_position = True
        self._native.join(*position)

    def _start(self, range: Any, length: int) -> int:
        start, end = self._bounds(range)
        if length != end - start:
            text = f"the buffer holds {length} values; allowed: {end - start}, one for each of {start}..{end}"
            raise errors.make("buffer", text)
        return start

    def _bounds(self, range: Any) -> tuple[int, int]:
        if range is None:
            start, end = 0, self.dimension
        elif isinstance(range, slice):
            if range.step not in (None, 1):
                raise errors.make(
                    "invalid_argument", f"range is {range}; allowed: coordinates one after another"
                )
            start = range.start or 0
            end = self.dimension if range.stop is None else range.stop
        elif isinstance(range, (tuple, list)) and len(range) == 2:
            start, end = range
        else:
            raise _arguments.refused("range", range, "None, (start, end), a slice")
        if not (_is_whole(start) and _is_whole(end)):
            raise _arguments.refused("range", range, "two whole numbers")
        if not 0 <= start < end <= self.dimension:
            raise errors.make(
                "invalid_argument", f"range is {start}..{end}; allowed: within 0..{self.dimension}, not empty"
            )
        return start, end


def check_session(session: Any) -> None:
    """Refuses what is no session, such as its URL."""
    # By what it has: a session of a test, or one that wraps another, is one too.
    if not hasattr(session, "privatize_"):
        raise _arguments.refused("session", session, "a session, as rustle.connect(url) opens it")


def _check_apart(pieces: list[tuple[int, Any]]) -> None:
    """Refuses arrays of which two have the same coordinate."""
    end = 0
    for start, array in sorted(pieces, key=lambda piece: piece[0]):
        if start < end and len(array):
            text = f"an array begins at coordinate {start}, and the one before it ends at {end}; allowed: arrays apart"
            raise errors.make("buffer", text)
        end = max(end, start + len(array))


def _step(step: Any) -> int:
    return _arguments.whole("step", step, kind="step")


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _commitment(commitment: Any, allowed: str) -> Commitment:
    return _arguments.instance("commitment", commitment, Commitment, allowed)


def _check_commitment(commitment: Any) -> None:
    if not isinstance(commitment, Commitment) and commitment not in ("declared", "exact"):
        text = f"commitment is {commitment!r}; allowed: declared, exact, a Commitment"
        raise errors.make("invalid_argument", text)


def _bound(commitment: Commitment | str, own: Commitment) -> Commitment:
    """Returns the commitment to bind a sum under, whose exact one is ``own``."""
    bound = commitment if isinstance(commitment, Commitment) else own
    if bound.is_exact and bound != own:
        text = "commitment is exact and of another sum, step or divide_by; allowed: that of the buffer as it is now"
        raise errors.make("invalid_argument", text)
    return bound
