"""A training job's session: noise for its steps, one after the other."""

from __future__ import annotations

import os
from typing import Any, Callable, Literal

from . import _native, errors
from ._buffers import flat
from ._commitment import Commitment

Range = tuple[int, int] | slice | None


class Session:
    """Made by :func:`rustle.connect`. One trainer uses it, one call at a time.

    Rows are counted from 0 to ``iterations`` − 1, coordinates from 0 to ``dimension`` − 1. Values are those of
    σζ·C⁻¹Z: noise for the **sum** of clipped contributions, in the gradient's own units.
    """

    def __init__(self, native: _native.Session):
        self._native = native
        self._owner: object | None = None

    # Noise.

    def fetch_into(
        self, step: int, buffer: Any, range: Range = None, *, commitment: Commitment | None = None
    ) -> Any:
        """Overwrites ``buffer`` with the noise of ``step`` and returns it.

        ``buffer``: float32, as many values as the range has coordinates. ``range``: (start, end) of the flattened
        vector; all of it where left away. Without a commitment each coordinate of a step is given out once, and a
        step after the next is refused; with one, a step may be asked for again.
        """
        values = flat(buffer)
        start = self._start(range, values.size)
        self._native.fetch_into(_step(step), values, start, commitment.data if commitment else None)
        return buffer

    def privatize_(
        self,
        buffer: Any,
        step: int,
        range: Range = None,
        *,
        commitment: Commitment | Literal["declared", "exact"] = "declared",
        divide_by: float = 1.0,
    ) -> Any:
        """Adds the noise of ``step``, divided by ``divide_by``, to the clipped sum in ``buffer``, and returns it.

        ``divide_by``: what the sum was divided by already, such as the expected batch size. ``"exact"`` binds the row
        to a digest of the sum as it is now, for jobs that come again to the same bits. After an error the buffer is as
        it was; after an interrupt (Ctrl-C) it may hold the noise, and :attr:`next_step` says whether it does.
        """
        values = flat(buffer)
        start = self._start(range, values.size)
        bound: Commitment | None = None
        if isinstance(commitment, Commitment):
            bound = commitment
        elif commitment == "exact":
            bound = Commitment.exact(values, start=start, divide_by=divide_by)
        elif commitment != "declared":
            text = f"commitment is {commitment!r}; allowed: declared, exact, a Commitment"
            raise errors.make("invalid_argument", text)
        whole, data = (start, start + values.size), bound.data if bound else None
        self._native.add_into(_step(step), [(start, values)], whole, data, divide_by)
        return buffer

    def prefetch(self, rows: int) -> None:
        """Keeps ``rows`` rows made ahead in this process. A cluster's workers do so by themselves, as many as they are
        started with; no row leaves them before its step, since it would have to be bound, and so be paid for, first."""
        if rows < 0:
            raise errors.make("invalid_argument", f"rows is {rows}; allowed: 0 or more")
        self._native.prefetch(rows)

    def announce(
        self,
        range: Range = None,
        *,
        steps: int = 1,
        commitment: Commitment | Callable[[int], Commitment] | None = None,
    ) -> None:
        """Binds rows of the next steps in the background, up to ``steps`` of them, and fetches them where they are made
        elsewhere, while gradients are still being computed: then a step does not wait for a disk or a network. To be
        called before each step. Rows are bound in groups, of half as many, so that a disk is synced once for each.

        To be called where the steps are sure to come: rows count as released from here on, so that a job that ends
        before its steps, or goes back to a checkpoint before them, has paid for up to ``steps`` rows. ``range`` and
        ``commitment`` as in the calls that ask for the rows, ``commitment`` as a function of the step for more than one.
        What can't be announced is found out by those calls. Rows of a cluster take ``steps`` rows of memory here. Where
        several sessions or ranges share a worker's shard, announce one step: workers keep few rows for who comes later.
        """
        start, end = self._bounds(range)
        given: Any = commitment
        if isinstance(commitment, Commitment):
            given = commitment.data
        elif commitment is not None:
            given = lambda step: commitment(step).data
        self._native.announce(start, end, steps, given)

    # Place.

    def cursor(self, step: int | None = None) -> bytes:
        """Where the job stands before ``step`` (the next one where left away): below 256 bytes, for a checkpoint.

        Reads only: nothing is written, here or elsewhere.
        """
        return self._native.cursor(step)

    def resume(self, cursor: bytes, *, replay: bool = False) -> bool:
        """Goes on at a cursor; says whether that took fresh noise from there on (a new branch, which costs privacy).

        It does where rows after the cursor were released; unless ``replay``: then they come again, which is right
        where all of them were bound to exact commitments, and training is deterministic.
        """
        return self._native.resume(bytes(cursor), replay)

    def restart(self, step: int = 0) -> None:
        """Goes back to ``step`` without a cursor: rows from there on have fresh noise. Costs privacy."""
        self._native.rewind(_step(step))

    @property
    def next_step(self) -> int:
        """The step that comes next."""
        return self._native.next_step

    # Facts.

    @property
    def waited(self) -> float:
        """Seconds from when rows were asked for until they were here, of all calls so far. What comes after, copying
        rows or adding them, is not in it; but where a row comes over a socket right into a buffer, that is."""
        return self._native.waited

    @property
    def plan(self) -> _native.Plan:
        """The plan that the job was created with."""
        return self._native.plan()

    @property
    def job(self) -> str:
        return self._native.job

    @property
    def branch(self) -> int:
        return self._native.branch

    @property
    def dimension(self) -> int:
        """Coordinates of the flattened parameter vector."""
        return self._native.dimension

    @property
    def iterations(self) -> int:
        return self._native.iterations

    def report(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        delta: float | list[float] = 1e-6,
        neighbouring: str = "zero-out",
        batches: Any = None,
        format: str | None = None,
    ) -> str:
        """The statement of what was released and what that costs; see :func:`rustle.report`."""
        from ._planning import statement

        return statement(None, self._native.report(), path, delta, neighbouring, batches, format)

    # Life.

    def close(self) -> None:
        """Ends the session; a second time does nothing."""
        self._native.close()

    @property
    def closed(self) -> bool:
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

    def claim(self, owner: object) -> None:
        """Refuses a second trainer."""
        if self._owner is not None and self._owner is not owner:
            raise errors.make(
                "busy", "another trainer has this session; detach it, or connect a session of its own"
            )
        self._owner = owner

    def release(self, owner: object) -> None:
        if self._owner is owner:
            self._owner = None

    def add_to(
        self,
        pieces: list[tuple[int, Any]],
        step: int,
        range: tuple[int, int],
        commitment: Commitment,
        divide_by: float,
    ) -> None:
        """Adds the noise of ``step``, divided by ``divide_by``, to numpy arrays, each with its first coordinate, of one
        row of ``range``: to all of them, or after an error to none. After an interrupt :attr:`next_step` says which."""
        self._native.add_into(step, pieces, range, commitment.data, divide_by)

    def share(self) -> tuple[int, int, bytes]:
        """What other ranks of the same job need to bind the same rows. As secret as the batches."""
        return self._native.share()

    def join(self, place: tuple[int, int, bytes]) -> None:
        """Goes on where rank 0 is; ``place`` is its :meth:`share`."""
        self._native.join(*place)

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
        else:
            start, end = range
        if not 0 <= start < end <= self.dimension:
            raise errors.make(
                "invalid_argument", f"range is {start}..{end}; allowed: within 0..{self.dimension}, not empty"
            )
        return start, end


def _step(step: Any) -> int:
    step = int(step)
    if step < 0:
        raise errors.make("step", f"step is {step}; allowed: 0 or more")
    return step


def connect(url: str) -> Session:
    """Opens the session of a job.

    ``inproc://FOLDER?plan=PLAN.toml&job=NAME&dimension=M&key_file=FILE&threads=N``
        An engine in this process. The folder keeps the ledger that says what was released, and the key unless one is
        named; the plan is ``FOLDER/plan.toml`` unless one is named.
    ``grpc://HOST:PORT``, ``unix:///SOCKET``
        A coordinator on this host; beyond it only with ``?insecure=true``.
    ``grpcs://HOST:PORT?tls_dir=FOLDER``
        A coordinator by TLS, with ca.pem, cert.pem and key.pem.
    ``shm://HOST:PORT``, ``shm:///SOCKET``
        The same, rows coming by memory that is lent to workers of this host; other workers send theirs.

    ``mpi://?window=BYTES&time_limit=SECONDS``
        The noise ranks of this process's own ``mpirun`` (docs/mpi.md); all training ranks connect together. ``window``:
        memory lent to noise ranks of this node, four bytes a coordinate, that rows are placed in; without it they are
        sent.

    Clusters take ``job``, ``timeout`` (seconds a fetch waits, 60), ``tls_dir``, ``token_file`` and ``insecure``. The job
    must exist there: ``rustle job create``. The same plan, key and job name give the same bits by all of them.
    """
    if url.startswith("mpi://"):
        from ._mpi import session_of

        return Session(session_of(url))
    return Session(_native.connect(url))
