"""A step announced before its gradient is there: the same noise, bound already, and paid for."""

import json
import os

import numpy as np
import pytest
from conftest import DIMENSION, STEPS, prepared, rows

import rustle
from rustle import Commitment, errors


def released(session):
    return json.loads(session.report(format="json", delta=1e-5))["released"]["rows"]


def until_bound(session, count):
    """Announcing once more waits for nothing; the ledger says when the first is through."""
    while released(session) < count:
        pass


@pytest.mark.parametrize("scheme", ["inproc", "shm", "unix"])
def test_announced_rows_are_the_same(request, tmp_path, folder, plan, scheme):
    with rustle.connect(f"inproc://{prepared(tmp_path / 'other', plan)}") as other:
        expected = rows(other, STEPS)
    url = f"inproc://{folder}" if scheme == "inproc" else request.getfixturevalue("cluster").url(scheme)
    with rustle.connect(url) as session:
        for step in range(STEPS):
            session.announce()
            session.announce()
            if step % 3 == 0:
                until_bound(session, step + 1)
            assert session.next_step == step
            sums = np.full(DIMENSION, 2, np.float32)
            session.privatize_(sums, step)
            assert np.array_equal(sums, 2 + expected[step]), step
        assert released(session) == STEPS
        with pytest.raises(errors.StepError):
            session.privatize_(sums, STEPS)


def test_another_range_or_commitment_comes_in_the_ordinary_way(session, tmp_path, plan):
    with rustle.connect(f"inproc://{prepared(tmp_path / 'other', plan)}") as other:
        expected = rows(other, 3)
    session.announce((0, 512))
    assert np.array_equal(rows(session, 1)[0], expected[0])
    mine = Commitment.declared("batch 1")
    session.announce(commitment=mine)
    got = np.empty(DIMENSION, np.float32)
    session.fetch_into(1, got, commitment=mine)
    assert np.array_equal(got, expected[1])
    session.announce()
    with pytest.raises(errors.CommitmentRefused):
        session.fetch_into(2, got, commitment=Commitment.declared("another batch"))
    session.fetch_into(2, got)
    assert np.array_equal(got, expected[2])


def test_a_step_that_never_came_is_paid_for(folder, plan):
    with rustle.connect(f"inproc://{folder}") as session:
        rows(session, 2)
        cursor = session.cursor()
        session.announce()
        # The ledger is free once this returns.
    with rustle.connect(f"inproc://{folder}") as session:
        assert session.next_step == 3 and released(session) == 3
        assert session.resume(cursor) and (session.next_step, session.branch) == (2, 1)
        session.announce()
        session.restart(1)
        assert session.branch == 2 and session.next_step == 1


def test_what_can_not_be_announced(folder, session):
    for bad in ((0, DIMENSION + 1), (3, 3)):
        with pytest.raises(errors.InvalidArgument):
            session.announce(bad)
    session.announce()
    if child := os.fork():
        assert os.waitpid(child, 0)[1] == 0
    else:
        try:
            session.announce()
        except errors.Forked:
            os._exit(0)
        os._exit(1)
    rows(session, 1)
    session.close()
    with pytest.raises(errors.SessionClosed):
        session.announce()
    with rustle.connect(f"inproc://{folder}") as again, pytest.raises(errors.NotResumed):
        again.announce()
