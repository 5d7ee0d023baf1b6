"""Rows reserved before their gradients are computed: the same noise, bound already, and charged."""

import json
import os
import threading
import time

import numpy as np
import pytest
from conftest import DIMENSION, STEPS, prepared, rows

import rustle
from rustle import Commitment, errors


def released(session):
    return json.loads(session.report(format="json", delta=1e-5))["released"]["rows"]


def until_bound(session, count):
    """Waits until `count` rows are bound: reserving itself waits for nothing."""
    end = time.monotonic() + 30
    while (found := released(session)) < count:
        assert time.monotonic() < end, f"{found} rows are bound, of {count}"


@pytest.mark.parametrize("scheme", ["inproc", "shm", "unix"])
def test_reserved_rows_are_the_same(request, tmp_path, folder, plan, scheme):
    with rustle.connect(f"inproc://{prepared(tmp_path / 'other', plan)}") as other:
        expected = rows(other, STEPS)
    url = f"inproc://{folder}" if scheme == "inproc" else request.getfixturevalue("cluster").url(scheme)
    with rustle.connect(url) as session:
        for step in range(STEPS):
            session.reserve()
            session.reserve()
            if step % 3 == 0:
                until_bound(session, step + 1)
            assert session.next_step == step
            sums = np.full(DIMENSION, 2, np.float32)
            session.privatize_(sums, step)
            assert np.array_equal(sums, 2 + expected[step]), step
        assert released(session) == STEPS
        with pytest.raises(errors.StepError):
            session.privatize_(sums, STEPS)


@pytest.mark.parametrize("scheme", ["inproc", "shm", "unix"])
def test_several_reserved_steps_are_the_same_and_no_more_than_that(
    request, tmp_path, folder, plan, scheme
):
    with rustle.connect(f"inproc://{prepared(tmp_path / 'other', plan)}") as other:
        expected = rows(other, STEPS)
    url = f"inproc://{folder}" if scheme == "inproc" else request.getfixturevalue("cluster").url(scheme)
    with rustle.connect(url) as session:
        session.reserve(steps=5)
        until_bound(session, 2)
        assert session.next_step == 0
        for step in range(STEPS):
            session.reserve(steps=5)
            assert session.next_step == step
            assert np.array_equal(session.fetch_into(step, np.empty(DIMENSION, np.float32)), expected[step])
            assert step < released(session) <= min(step + 4, STEPS)
        assert released(session) == STEPS and 0 < session.waited


def test_rows_reserved_under_a_function_s_commitments(session, tmp_path, plan):
    with rustle.connect(f"inproc://{prepared(tmp_path / 'other', plan)}") as other:
        expected = rows(other, 6)
    batch = lambda step: Commitment.declared(f"batch {step}")
    got = np.empty(DIMENSION, np.float32)
    for step in range(4):
        session.reserve(steps=4, commitment=batch)
        assert np.array_equal(session.fetch_into(step, got, commitment=batch(step)), expected[step])
    until_bound(session, 6)
    with pytest.raises(errors.CommitmentRefused):
        session.fetch_into(4, got)
    # Reserved again under others: refused alike, and nothing hangs.
    session.reserve(steps=4)
    with pytest.raises(errors.CommitmentRefused):
        session.fetch_into(4, got)
    for step in (4, 5):
        assert np.array_equal(session.fetch_into(step, got, commitment=batch(step)), expected[step])
    with pytest.raises(TypeError):
        session.reserve(steps=2, commitment=lambda: None)
    with pytest.raises(errors.InvalidArgument, match="commitment is None"):
        session.reserve(steps=2, commitment=lambda step: None)


@pytest.mark.parametrize("scheme", ["inproc", "shm", "unix"])
def test_a_rewind_discards_what_was_reserved(request, tmp_path, folder, plan, scheme):
    with rustle.connect(f"inproc://{prepared(tmp_path / 'other', plan)}") as other:
        first = rows(other, 3)
    url = f"inproc://{folder}" if scheme == "inproc" else request.getfixturevalue("cluster").url(scheme)
    with rustle.connect(url) as session:
        assert np.array_equal(rows(session, 2), first[:2])
        session.reserve(steps=8)
        until_bound(session, 6)
        session.restart(2)
        assert session.branch == 1 and session.next_step == 2
        session.reserve(steps=8)
        # The new branch has a nonce of its own: what was reserved on the old one must not come.
        fresh = session.fetch_into(2, np.empty(DIMENSION, np.float32))
        assert not np.array_equal(fresh, first[2])
        # Four rows of the branch that was left, which no step used, and four of this one.
        until_bound(session, 2 + 4 + 4)


def test_a_function_of_commitments_may_look_at_the_session_and_so_may_others(session):
    stop = threading.Event()
    looking = threading.Thread(target=lambda: [repr(session) for _ in iter(stop.is_set, True)])
    looking.start()

    def batch(step):
        time.sleep(0.01)
        return Commitment.declared(f"{session.next_step} {step}")

    session.reserve(steps=8, commitment=batch)
    until_bound(session, 4)
    stop.set()
    looking.join(10)
    assert not looking.is_alive()


def test_another_range_or_commitment_comes_in_the_ordinary_way(session, tmp_path, plan):
    with rustle.connect(f"inproc://{prepared(tmp_path / 'other', plan)}") as other:
        expected = rows(other, 3)
    session.reserve((0, 512))
    assert np.array_equal(rows(session, 1)[0], expected[0])
    mine = Commitment.declared("batch 1")
    session.reserve(commitment=mine)
    got = np.empty(DIMENSION, np.float32)
    session.fetch_into(1, got, commitment=mine)
    assert np.array_equal(got, expected[1])
    session.reserve()
    with pytest.raises(errors.CommitmentRefused):
        session.fetch_into(2, got, commitment=Commitment.declared("another batch"))
    session.fetch_into(2, got)
    assert np.array_equal(got, expected[2])


def test_a_step_that_never_came_is_paid_for(folder, plan):
    with rustle.connect(f"inproc://{folder}") as session:
        rows(session, 2)
        cursor = session.cursor()
        session.reserve()
        # The ledger is free once this returns.
    with rustle.connect(f"inproc://{folder}") as session:
        assert session.next_step == 3 and released(session) == 3
        assert session.resume(cursor) and (session.next_step, session.branch) == (2, 1)
        session.reserve()
        session.restart(1)
        assert session.branch == 2 and session.next_step == 1


def test_what_cannot_be_reserved(folder, session):
    for bad in ((0, DIMENSION + 1), (3, 3)):
        with pytest.raises(errors.InvalidArgument):
            session.reserve(bad)
    for bad in (0, 1025):
        with pytest.raises(errors.InvalidArgument, match="steps"):
            session.reserve(steps=bad)
    with pytest.raises(errors.InvalidArgument, match="steps"):
        session.reserve(steps=2, commitment=Commitment.declared("one of them"))
    session.reserve()
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
    else:
        try:
            session.reserve()
        except errors.Forked:
            os._exit(0)
        os._exit(1)
    rows(session, 1)
    session.close()
    with pytest.raises(errors.SessionClosed):
        session.reserve()
    with rustle.connect(f"inproc://{folder}") as again, pytest.raises(errors.NotResumed):
        again.reserve()


def test_the_old_name_warns(session):
    with pytest.warns(DeprecationWarning, match="Session.reserve"):
        session.announce()
    until_bound(session, 1)
