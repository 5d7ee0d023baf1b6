"""Correlated noise from the noise ranks of the same MPI launch, over mpi4py: a training rank in Python.

    mpirun -n 2 python -m mpi4py train.py : -n 2 noise-worker mpi --serve --plan plan.toml --key-file job.key …

    from mpi4py import MPI
    from rustle import mpi

    noise = mpi.join()                        # with all other ranks of the launch, before anything else
    row = noise.fetch(step, 0, noise.dimension, commitment=mpi.declared(b"batch 7 of epoch 3"))
    with noise.fetching(step, 0, n, commitment) as pending:
        gradient = compute()                  # the row comes meanwhile
    gradient += pending.values
    noise.close()

:func:`rustle.connect` by ``mpi://`` makes a session of it. The protocol is that of docs/mpi.md; `noise-worker mpi --train`
speaks it in Rust.
"""

from __future__ import annotations

import atexit
import hashlib
import hmac
import json
import operator
import struct
import sys
import time
import traceback
from typing import NamedTuple

import numpy as np
from mpi4py import MPI

__all__ = ["Noise", "Pending", "Refused", "TimeLimit", "declared", "exact", "join"]

VERSION = 3
STREAM_VERSION = 3

_HELLO = struct.Struct("<8sIIIIQ32s32s32sQQI44x")
_HELLO_MAGIC = b"RUSTLEMP"
_NOISE, _TRAINING = 1, 2

_MESSAGE = struct.Struct("<IHHIIQQQQQ33s5xH416s")
_MESSAGE_MAGIC = 0x4D505352
_GET, _READY, _REFUSED, _DONE = 1, 2, 3, 7
_PLACE, _CURSOR, _RESUME, _REWIND, _REPORT = 13, 14, 15, 16, 17
_IN_WINDOW, _MARKED = 1, 2
#: What a job's rows are, where its plan is on a grid.
_I32 = 3
_ANY_BRANCH = (1 << 64) - 1
_CONTROL = 1
_SLOTS = 8192
_DATA_BYTES = 1 << 30
#: Shards begin at multiples of it; part of the protocol. This file runs without the rest of the package.
_BLOCK = 512
_PAGE = 4096


class Refused(RuntimeError):
    """A noise rank refused. `kind` is the error's stable name, as over gRPC: "already_bound", "row_beyond_iterations";
    `fields` its numbers and names, as JSON; `words` the text, which may be cut."""

    def __init__(self, kind: str, fields: str, words: str):
        super().__init__(f"{words} ({kind})")
        self.kind, self.fields, self.words = kind, fields, words


class TimeLimit(RuntimeError):
    """Another rank did not come within the time limit."""


def declared(content: bytes) -> bytes:
    """A commitment to what the step's gradient will be made of: it must change whenever the gradient could."""
    content = _octets("content", content, "bytes")
    return b"\x01" + hashlib.sha256(b"rustle commitment v1" + content).digest()


def exact(clipped_sum, *, secret: bytes, row: int, branch: int = 0) -> bytes:
    """A commitment to the clipped sum itself, an array, for a row: under it the row may be replayed after a restart.

    `secret`: 32 bytes that the training job draws (`secrets.token_bytes(32)`), keeps in its checkpoint and never
    sends. Without it, readers of the ledger cannot test a guess of the sum.
    """
    secret = _octets("secret", secret, "32 random bytes, kept in the training's checkpoint")
    if len(secret) != 32:
        raise ValueError(f"secret has {len(secret)} bytes; allowed: 32, random, kept in the training's checkpoint")
    row, branch = _whole("row", row), _whole("branch", branch)
    keyed = hmac.new(secret, b"rustle exact sum of mpi v2" + struct.pack("<QQ", branch, row), hashlib.sha256)
    keyed.update(np.ascontiguousarray(clipped_sum).view(np.uint8).reshape(-1))
    return b"\x03" + keyed.digest()


def join(
    comm: MPI.Comm = MPI.COMM_WORLD,
    *,
    plan_digest: bytes = bytes(32),
    dimension: int = 0,
    window_bytes: int = 0,
    time_limit: float = 120.0,
) -> Noise:
    """Joins the launch as a training rank. All ranks of `comm` must do so, or be noise ranks.

    `plan_digest` (32 bytes) and `dimension`: what the job's must be, where given. `window_bytes`: memory that noise
    ranks of this node may place rows in. `time_limit`: seconds to wait for other ranks, at every step. An exception
    that is not caught ends the whole launch from now on.
    """
    plan_digest = _octets("plan_digest", plan_digest, "the 32 bytes of a plan's digest")
    if len(plan_digest) != 32:
        raise ValueError(f"plan_digest has {len(plan_digest)} bytes; allowed: 32, of a plan's digest")
    dimension, window_bytes = _whole("dimension", dimension), _whole("window_bytes", window_bytes)
    if not (isinstance(time_limit, (int, float)) and 0 < time_limit < float("inf")):
        raise ValueError(f"time_limit is {time_limit!r}; allowed: seconds above zero")
    return Noise(comm, plan_digest, dimension, window_bytes, time_limit)


def _octets(name: str, value, allowed: str) -> bytes:
    """Bytes; the value, which may be secret, is not shown."""
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise ValueError(f"{name} is of type {type(value).__name__}; allowed: {allowed}")
    return bytes(value)


def _whole(name: str, value) -> int:
    """A whole number that the protocol's messages have room for."""
    try:
        found = operator.index(value)
    except TypeError:
        found = -1
    if not 0 <= found < 1 << 64:
        raise ValueError(f"{name} is {value!r}; allowed: a whole number, 0 or more")
    return found


class Noise:
    """The noise ranks of this launch, as one training rank reaches them.

    `dimension` and `iterations` are the job's; `training` is a communicator of the training ranks alone; `window` is
    this rank's lent memory, empty where it lends none. `dtype`: float32, or int32 where the plan is on a grid
    (`on_grid`), whose rows are whole steps of it for a sum of integers.
    """

    def __init__(self, comm, plan_digest, dimension, window_bytes, time_limit):
        _end_launch_on_exceptions(comm)
        self._limit = time_limit
        self._slot = 0
        self._closed = False
        # Whole pages, so that every rank's part begins at one.
        window_bytes = -(-window_bytes // _PAGE) * _PAGE
        hello = _HELLO.pack(
            _HELLO_MAGIC, VERSION, _TRAINING, STREAM_VERSION, 0, dimension, plan_digest, bytes(32), bytes(32), 0,
            window_bytes, 0,
        )  # fmt: skip
        said = bytearray(_HELLO.size * comm.size)
        self._wait(comm.Iallgather([hello, MPI.UINT8_T], [said, MPI.UINT8_T]), "the ranks of the launch")
        hellos = [_HELLO.unpack_from(said, rank * _HELLO.size) for rank in range(comm.size)]
        root = self._check(comm, hellos, plan_digest, dimension)
        self._root = hellos.index(root)
        self.dimension, self.iterations = root[5], root[9]
        self.on_grid = root[11] == _I32
        self.dtype = np.dtype(np.int32 if self.on_grid else np.float32)
        noise = [rank for rank, hello in enumerate(hellos) if hello[2] == _NOISE]
        self._shards = list(zip(noise, _ranges(self.dimension, len(noise))))
        self._comm = comm.Dup()
        self.training = comm.Split(_TRAINING, 0)
        self._local: set[int] = set()
        self._window = None
        self.window = np.empty(0, self.dtype)
        if any(hello[10] for hello in hellos):
            self._share(window_bytes)
        atexit.register(self.close)

    def _check(self, comm, hellos, plan_digest, dimension):
        """The first noise rank's words. Noise ranks say what is wrong among all; this is for what they can't know."""
        for rank, hello in enumerate(hellos):
            if hello[0] != _HELLO_MAGIC:
                raise RuntimeError(f"rank {rank} is no process of Rustle: it said {hello[0]!r}")
        root = next((hello for hello in hellos if hello[2] == _NOISE), None)
        if root is None:
            raise RuntimeError("no rank of this launch is a noise rank; start some by `noise-worker mpi --serve`")
        own = hellos[comm.rank]
        wrong = root[1] != own[1] or (plan_digest != bytes(32) and plan_digest != root[6])
        if wrong or dimension not in (0, root[5]):
            # A noise rank says what differs and ends the launch; only where it does not, this one does.
            time.sleep(10)
            raise RuntimeError("this training rank's plan, dimension or protocol is not that of the noise ranks")
        return root

    def _share(self, window_bytes):
        node = self._comm.Split_type(MPI.COMM_TYPE_SHARED, 0)
        own, ranks = np.array([self._comm.rank], np.int32), np.empty(node.size, np.int32)
        self._wait(node.Iallgather(own, ranks), "the processes of this node")
        self._local = set(ranks.tolist())
        self._window = MPI.Win.Allocate_shared(window_bytes, 1, comm=node)
        self._window.Lock_all(MPI.MODE_NOCHECK)
        if window_bytes:
            memory, _ = self._window.Shared_query(node.rank)
            self.window = np.frombuffer(memory, self.dtype)

    def fetch(self, row: int, start: int, end: int, commitment: bytes, out: np.ndarray | None = None) -> np.ndarray:
        """Coordinates start..end of a row, bound to `commitment` before any of it comes; into `out` where given."""
        with self.fetching(row, start, end, commitment, out=out) as pending:
            pass
        return pending.values

    def fetch_in_window(self, row: int, start: int, end: int, commitment: bytes, place: int = 0) -> np.ndarray:
        """The same in `window[place:]`: noise ranks of this node copy it there, and nothing is copied here."""
        with self.fetching(row, start, end, commitment, place=place) as pending:
            pass
        return pending.values

    def fetching(self, row, start, end, commitment, *, out=None, place=None, branch=None) -> Pending:
        """Asks, and takes what comes when the `with` block ends: compute inside. `out` must not be touched meanwhile.

        `place`: values from the window's start, instead of `out`. `branch`: refused where the job is on another. Without
        it the row is of whichever the job is on, and refused where that changes while it comes.
        """
        if not 0 <= start < end <= self.dimension:
            raise ValueError(f"range is {start}..{end}; allowed: within 0..{self.dimension}, not empty")
        if not 0 <= row < self.iterations:
            raise ValueError(f"row is {row}; allowed: 0 to {self.iterations - 1}")
        if len(commitment) != 33:
            raise ValueError(f"commitment has {len(commitment)} bytes; allowed: 33, as declared() and exact() make")
        if place is not None:
            if not 0 <= place <= self.window.size - (end - start):
                raise ValueError(f"{end - start} values at {place}; allowed: within the {self.window.size} lent")
            out = self.window[place : place + end - start]
        elif out is None:
            out = np.empty(end - start, self.dtype)
        fits = out.dtype == self.dtype and out.shape == (end - start,) and out.flags.c_contiguous
        if not fits or not out.flags.writeable:
            allowed = f"contiguous {self.dtype} of ({end - start},)"
            why = ": the plan is on a grid, and its rows are integers" if self.on_grid else ""
            raise ValueError(f"out is {out.dtype} of shape {out.shape}; allowed: {allowed}{why}")
        return Pending(self, row, start, end, commitment, out, place, _ANY_BRANCH if branch is None else branch)

    def place(self) -> tuple[str, int, int]:
        """The job's name, its branch, and one more than the highest row bound on it."""
        answer, _ = self._ask(_PLACE)
        return answer.text.decode(), answer.id, answer.row

    def cursor(self, row: int) -> bytes:
        """The job's place before `row`, below 256 bytes. Changes nothing."""
        return self._ask(_CURSOR, row=row)[0].text

    def resume(self, cursor: bytes, replay: bool = False) -> tuple[int, int, bool]:
        """Continues at a cursor. Returns the branch, the next row, and whether a new branch was opened. `replay`: rows behind the
        cursor come again, where all of them are bound to exact commitments. Every noise rank has turned when it
        returns."""
        if len(cursor) > 255:
            raise ValueError(f"cursor has {len(cursor)} bytes; allowed: below 256")
        answer, _ = self._ask(_RESUME, text=cursor, flags=_MARKED if replay else 0)
        return answer.id, answer.row, bool(answer.flags & _MARKED)

    def rewind(self, row: int) -> tuple[int, int]:
        """Fresh noise from `row` on, on a new branch: the branch and the row."""
        answer, _ = self._ask(_REWIND, row=row)
        return answer.id, answer.row

    def report(self) -> str:
        """What was released, as one JSON object."""
        return self._ask(_REPORT)[1].decode()

    def _ask(self, kind, *, row=0, text=b"", flags=0) -> tuple[_Message, bytes]:
        """Of the first noise rank; its answer and the data that follows it."""
        slot, reply = self._next_slot(), bytearray(_MESSAGE.size)
        tag = 16 + 2 * slot
        replied = self._comm.Irecv([reply, MPI.UINT8_T], self._root, tag)
        ask = _message(kind, slot, flags, row, text=text)
        self._wait(self._comm.Isend([ask, MPI.UINT8_T], self._root, _CONTROL), "the first noise rank")
        self._wait(replied, "the first noise rank, to answer,")
        answer = _answer(reply)
        data = bytearray(answer.end if kind == _REPORT else 0)
        if data:
            coming = self._comm.Irecv([data, MPI.UINT8_T], self._root, tag + 1)
            self._wait(coming, "the first noise rank, to send,", moving=True)
        return answer, bytes(data)

    def rest(self):
        """Says that this rank asks for nothing more."""
        for rank, _ in self._shards:
            self._wait(self._comm.Isend([_message(_DONE), MPI.UINT8_T], rank, _CONTROL), "a noise rank")

    def close(self):
        """Asks for nothing more and gives lent memory back: do not use `window` after. Done at exit where it is not."""
        if self._closed or MPI.Is_finalized():
            return
        self._closed = True
        self.rest()
        self.window = np.empty(0, self.dtype)
        if self._window is not None:
            self._window.Unlock_all()
            self._window.Free()

    def _next_slot(self) -> int:
        self._slot = (self._slot + 1) % _SLOTS
        return self._slot

    def _wait(self, request, whom, moving=False):
        """`moving`: data is on its way, which moves by being looked at; else others have work to do first."""
        deadline = time.monotonic() + self._limit
        turns = 0
        while not request.Test():
            if time.monotonic() > deadline:
                raise TimeLimit(f"{whom} did not come within {self._limit} s (time_limit)")
            turns += 1
            time.sleep(0 if moving or turns < 200 else 50e-6)


class Pending:
    """A range of a row on its way. `values` is its array once the `with` block has ended."""

    def __init__(self, noise, row, start, end, commitment, out, place, branch):
        self._noise, self.values, self._parts = noise, out, []
        bytes_out = memoryview(out).cast("B")
        comm = noise._comm
        for rank, (first, last) in noise._shards:
            low, high = max(start, first), min(end, last)
            if low >= high:
                continue
            placed = place is not None and rank in noise._local
            slot = noise._next_slot()
            tag = 16 + 2 * slot
            reply = bytearray(_MESSAGE.size)
            requests = [comm.Irecv([reply, MPI.UINT8_T], rank, tag)]
            if not placed:
                mine = bytes_out[4 * (low - start) : 4 * (high - start)]
                for at in range(0, len(mine), _DATA_BYTES):
                    requests.append(comm.Irecv([mine[at : at + _DATA_BYTES], MPI.UINT8_T], rank, tag + 1))
            at = 4 * (place + low - start) if placed else 0
            flags = (_IN_WINDOW if placed else 0) | (_MARKED if out.dtype == np.int32 else 0)
            get = _message(_GET, slot, flags, row, low, high, at, branch, commitment)
            asked = comm.Isend([get, MPI.UINT8_T], rank, _CONTROL)
            self._parts.append((asked, get, reply, requests))

    def __enter__(self) -> Pending:
        return self

    def __exit__(self, kind, error, trace):
        noise, answers, refused = self._noise, [], None
        for asked, _get, reply, (replied, *data) in self._parts:
            noise._wait(asked, "a noise rank")
            noise._wait(replied, "a noise rank, to answer,")
            try:
                answers.append(_answer(reply))
            except Refused as error_of_one:
                # No data comes after a refusal.
                for request in data:
                    request.Cancel()
                    request.Wait()
                refused = refused or error_of_one
                continue
            for request in data:
                noise._wait(request, "a noise rank, to send,", moving=True)
        self._parts = []
        if noise._window is not None:
            noise._window.Sync()
        refused = refused or _of_two_branches(answers)
        if refused is not None and error is None:
            raise refused


def _message(
    kind, slot=0, flags=0, row=0, start=0, end=0, place=0, id=0, commitment=bytes(33), text=b""
) -> bytes:
    return _MESSAGE.pack(
        _MESSAGE_MAGIC, VERSION, kind, slot, flags, row, start, end, place, id, commitment, len(text), text
    )


class _Message(NamedTuple):
    """An answer, as far as a training rank looks at it."""

    flags: int
    row: int
    end: int
    id: int
    text: bytes


def _answer(reply: bytearray) -> _Message:
    """Raises `Refused` where it says so."""
    magic, version, said, _slot, flags, row, _start, end, _place, id, _, length, text = _MESSAGE.unpack(reply)
    if magic != _MESSAGE_MAGIC or version != VERSION:
        raise RuntimeError(f"an answer of another protocol: magic {magic:#x}, version {version}")
    if said != _READY:
        kind, fields, words = [*text[:length].decode("utf-8", "replace").split("\n", 2), "", ""][:3]
        raise Refused(kind, fields, words)
    return _Message(flags, row, end, id, text[:length])


def _of_two_branches(answers: list[_Message]) -> Refused | None:
    """Where one noise rank had turned to another branch when it answered and another not yet: each part is bound, and
    all of them are the row of no branch."""
    old, new = min(answers, key=lambda answer: answer.id), max(answers, key=lambda answer: answer.id)
    if old.id == new.id:
        return None
    job = new.text.decode()
    kind, fields = "branch_superseded", {"job": job, "branch": old.id, "current": new.id, "from_row": new.row}
    words = f"parts of the row are of branch {old.id} of job {job}, and of branch {new.id}, opened at row {new.row}"
    return Refused(kind, json.dumps({"kind": kind, **fields}), words)


def _ranges(dimension: int, count: int) -> list[tuple[int, int]]:
    """What each of `count` noise ranks owns: cut at multiples of 512, in sizes that differ by one block at most."""
    blocks = -(-dimension // _BLOCK)
    bounds = [min(blocks * rank // count * _BLOCK, dimension) for rank in range(count + 1)]
    return list(zip(bounds, bounds[1:]))


def _end_launch_on_exceptions(comm):
    """Without it a rank that died of an exception would let all others wait for ever."""

    def end_launch(kind, error, trace):
        traceback.print_exception(kind, error, trace)
        print(f"rank {comm.rank} ends the launch: {kind.__name__}: {error}", file=sys.stderr, flush=True)
        comm.Abort(1)

    sys.excepthook = end_launch
