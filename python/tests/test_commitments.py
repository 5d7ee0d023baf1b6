"""Commitments: they tell readers of the ledger nothing, and a row is for one sum."""

import hashlib
import hmac
import json

import numpy as np
import pytest

import rustle
from conftest import DIMENSION, STEPS, prepared
from rustle import Commitment, _layout, _native, errors

# Bytes before the ledger's own cursor in a session's: a tag, the secret, a checksum.
BEFORE = 37


def total(seed):
    return np.random.default_rng(seed).standard_normal(DIMENSION).astype(np.float32)


def digested(sums, divide_by=1.0):
    """The bytes that are digested for a sum of row 0 on branch 0, from coordinate 0 on."""
    head = b"rustle exact sum v2" + bytes(3 * 8) + np.float32(divide_by).tobytes()
    return head + sums.nbytes.to_bytes(8, "little") + sums.tobytes()


def unkeyed(sums):
    """Digests of a sum that anybody can make: without a key, and under one that is no secret."""
    found = [hashlib.sha256(content).digest() for content in (digested(sums), sums.tobytes())]
    return [*found, hmac.digest(bytes(32), digested(sums), "sha256")]


def test_readers_of_the_ledger_cannot_test_sums(session, folder):
    session.privatize_(total(1), 0, commitment="exact")
    ledger = (folder / "ledger.redb").read_bytes()
    assert not any(digest in ledger for digest in unkeyed(total(1)))
    assert session.exact(0, total(1)).data in ledger
    # These are the bytes: under the secret they give what the ledger has.
    secret = session.cursor()[1:33]
    assert hmac.digest(secret, digested(total(1)), "sha256") == session.exact(0, total(1)).data[1:]


def test_a_cursor_carries_the_key_of_exact_commitments(folder):
    with rustle.connect(f"inproc://{folder}") as session:
        cursor = session.cursor()
        first = session.exact(0, total(1))
        noisy = session.privatize_(total(1), 0, commitment="exact")
    secret = cursor[1:33]
    files = [path.read_bytes() for path in folder.iterdir() if path.is_file()]
    assert len(cursor) < 512 and not any(secret in content for content in files)
    with rustle.connect(f"inproc://{folder}") as session:
        assert session.exact(0, total(1)) != first, "a secret of its own"
        changed = [cursor[:at] + bytes([cursor[at] ^ 1]) + cursor[at + 1 :] for at in (0, 5)]
        for damaged in (cursor[:20], *changed):
            with pytest.raises(errors.InvalidArgument, match="cursor"):
                session.resume(damaged, replay=True)
        with pytest.raises(errors.InvalidArgument, match="without a secret"):
            session.resume(cursor[BEFORE:], replay=True)
        assert not session.resume(cursor, replay=True)
        assert session.exact(0, total(1)) == first and secret not in repr(session).encode()
        assert np.array_equal(session.privatize_(total(1), 0, commitment="exact"), noisy)
    with rustle.connect(f"inproc://{folder}") as session:
        assert session.resume(cursor[BEFORE:]), "the ledger's own cursor, with fresh noise"


def test_equal_sums_do_not_look_equal(session):
    found = {session.exact(step, total(1), divide_by=by).data for step in range(4) for by in (1.0, 2.0)}
    found |= {session.exact(0, total(1)[:5], start=start).data for start in (0, 5)}
    session.fetch_into(0, np.empty(DIMENSION, np.float32))
    session.restart()
    found.add(session.exact(0, total(1)).data)
    assert len(found) == 11


def test_digests_without_a_key_are_refused(session):
    with pytest.raises(errors.InvalidArgument, match="without a key"):
        Commitment(b"\x02" + unkeyed(total(1))[0])
    with pytest.raises(errors.InvalidArgument, match="without a key"):
        session._native.fetch_into(0, total(1), 0, b"\x02" + unkeyed(total(1))[0])
    with pytest.raises(errors.InvalidArgument, match="another sum"):
        session.privatize_(total(2), 0, commitment=session.exact(0, total(1)))
    assert session.next_step == 0


class Rows:
    """An engine in Python, as the one of MPI: it binds a row to what is asked first."""

    job, dimension, iterations = "default", DIMENSION, STEPS
    on_grid = False

    def __init__(self):
        self.bound = {}

    def position(self):
        return 0, 0

    def row(self, branch, row, start, end, commitment):
        if self.bound.setdefault(row, commitment) != commitment:
            raise _native.refusal(
                json.dumps({"kind": "already_bound", "job": "default", "branch": branch, "row": row})
            )
        return total(1000 + row)[start:end]

    def close(self):
        pass


@pytest.fixture(params=["inproc", "unix", "shm", "python", "reserved"])
def any_session(request, tmp_path, plan):
    what = request.param
    if what == "python":
        opened = rustle.Session(_native.session_over(Rows()))
    elif what in ("unix", "shm"):
        opened = rustle.connect(request.getfixturevalue("cluster").url(what))
    else:
        opened = rustle.connect(f"inproc://{prepared(tmp_path / what, plan)}")
    with opened as session:
        if what == "reserved":
            session.reserve(commitment=Commitment.declared("step 0"))
        yield session


def test_a_declared_row_is_for_one_sum(any_session):
    session, named = any_session, Commitment.declared("step 0")
    first = session.privatize_(total(1), 0, commitment=named, divide_by=2)
    # Another sum, another divisor, a part, and noise that comes once.
    for sums, place, by in ((2, None, 2), (1, None, 1), (1, (0, 512), 2)):
        start, end = place or (0, DIMENSION)
        given = total(sums)[start:end].copy()
        kept = given.copy()
        with pytest.raises(errors.CommitmentRefused, match="sum already") as refused:
            session.privatize_(given, 0, place, commitment=named, divide_by=by)
        assert np.array_equal(given, kept) and not refused.value.retry_safe
    with pytest.raises(errors.CommitmentRefused, match="sum already"):
        session.add_to([(0, total(2))], 0, (0, DIMENSION), named, 2.0)
    again = session.privatize_(total(1), 0, commitment=named, divide_by=2)
    assert np.array_equal(first, again) and session.next_step == 1
    with pytest.raises(errors.StepError):
        session.privatize_(total(1), 0)


def test_parts_of_a_row_are_for_parts_of_one_sum(session):
    named, whole = Commitment.declared("step 0"), total(1)
    parts = [(0, 7), (7, 512), (512, DIMENSION)]
    for _ in range(2):
        got = [session.privatize_(whole[a:b].copy(), 0, (a, b), commitment=named) for a, b in parts]
    with pytest.raises(errors.CommitmentRefused):
        session.privatize_(total(2)[7:512].copy(), 0, (7, 512), commitment=named)
    noise = session.fetch_into(0, np.empty(DIMENSION, np.float32), commitment=named)
    assert np.array_equal(np.concatenate(got), whole + noise)


def test_rows_of_before_the_session_are_for_no_sum(folder):
    named = Commitment.declared("step 0")
    with rustle.connect(f"inproc://{folder}") as session:
        session.privatize_(total(1), 0, commitment=named)
        cursor = session.cursor()
        # Further on, on the same branch, and on another that has the row from it.
        session.resume(cursor)
        for _ in range(2):
            with pytest.raises(errors.CommitmentRefused):
                session.privatize_(total(2), 0, commitment=named)
            session.privatize_(total(1), session.next_step)
            session.restart(1)
        # Fresh noise is for another sum.
        session.restart(0)
        session.privatize_(total(2), 0, commitment=named)
        cursor = session.cursor()
    with rustle.connect(f"inproc://{folder}") as session:
        session.resume(cursor)
        # Its noise that is delivered again, in part or whole, reveals nothing of the sum it was added to.
        for end in (0, 1, DIMENSION):
            if end > 0:
                session.fetch_into(0, np.empty(end, np.float32), (0, end), commitment=named)
                session._native.used(0, 0, end)
            with pytest.raises(errors.CommitmentRefused, match="before this session"):
                session.privatize_(total(2), 0, commitment=named)
            with pytest.raises(errors.CommitmentRefused, match="before this session"):
                session.privatize_(total(2)[1:512].copy(), 0, (1, 512), commitment=named)


def test_what_an_adapter_adds_is_for_no_other_sum(session):
    commitment = _layout.declared(session.share()[2], 0)
    found = _layout.Row(session, 0, [(0, 512), (512, DIMENSION)], commitment)
    assert len(found.within(0, DIMENSION)) == 2
    with pytest.raises(errors.CommitmentRefused):
        session.privatize_(total(1), 0, commitment=commitment)


def test_ranks_make_the_same_commitments(tmp_path, plan, folder):
    with rustle.connect(f"inproc://{folder}") as session:
        other_folder = prepared(tmp_path / "other", plan)
        with rustle.connect(f"inproc://{other_folder}") as other:
            assert session.exact(0, total(1)) != other.exact(0, total(1))
            other.join(session.share())
            assert session.exact(0, total(1)) == other.exact(0, total(1))
            with pytest.raises(errors.InvalidArgument, match="64"):
                other.join((0, 0, bytes(32)))
