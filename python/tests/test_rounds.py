"""Rounds: a session adds the noise of a step to the sum of its own batch alone."""

import copy
import pickle

import numpy as np
import pytest
from misuse import OTHER_SEED, RECORDS, SEED, SIZE, STEPS, batches, folder, planned

import rustle
from rustle import errors, schemes
from rustle.federated import Server

DIMENSION = 40


@pytest.fixture
def session(folder):
    with rustle.connect(f"inproc://{planned(folder, dimension=DIMENSION)}") as session:
        yield session


def total(ids, scale=1.0):
    return np.full(DIMENSION, scale * len(ids) / np.sqrt(DIMENSION), np.float32)


def step(session, ids, scale=1.0, **arguments):
    session.privatize_(total(ids, scale), session.next_step, **arguments)


def accumulated_batches(session, rounds):
    found = iter(rounds)
    step(session, np.r_[next(found), next(found)])


def left_out(session, rounds):
    for at, ids in enumerate(rounds):
        if at != 3:
            step(session, ids)


def foreign(session, rounds):
    step(session, range(SIZE))


def stepped_twice(session, rounds):
    ids = next(iter(rounds))
    step(session, ids)
    step(session, ids)


def fetched_without_a_batch(session, rounds):
    session.fetch_into(0, np.empty(DIMENSION, np.float32))


def too_many_records(session, rounds):
    next(iter(rounds))
    step(session, range(2 * SIZE))


def wrong_divisor(session, rounds):
    step(session, next(iter(rounds)), divide_by=SIZE)


def unclipped(session, rounds):
    step(session, next(iter(rounds)), scale=3.0)


def not_finite(session, rounds):
    step(session, next(iter(rounds)), scale=np.nan)


def another_loop_while_one_runs(session, rounds):
    found = iter(rounds)
    step(session, next(found))
    step(session, next(iter(rounds)))
    next(found)


def resumed_while_a_loop_runs(session, rounds):
    cursor, found = session.cursor(), iter(rounds)
    step(session, next(found))
    session.resume(cursor)
    next(found)


def resumed_without_drawing(session, rounds):
    cursor, found = session.cursor(), iter(rounds)
    ids = next(found)
    step(session, ids)
    session.resume(cursor)
    step(session, ids)


def servers_step_without_a_batch(session, rounds):
    Server(session, np.zeros(DIMENSION), clients_per_round=SIZE).step([np.zeros(DIMENSION)])


MISUSES = [
    (accumulated_batches, errors.StepError, "met no noise", 0),
    (left_out, errors.StepError, "met no noise.*session.skip", 3),
    (foreign, errors.StepError, "another loader", 0),
    (stepped_twice, errors.StepError, "had its step already", 1),
    (fetched_without_a_batch, errors.StepError, "no batch", 0),
    (too_many_records, errors.SumTooLarge, "15 contributions", 0),
    (wrong_divisor, errors.SumTooLarge, "divide_by", 0),
    (unclipped, errors.SumTooLarge, "clipped to 1", 0),
    (not_finite, errors.InvalidArgument, "not finite.*skip", 0),
    (another_loop_while_one_runs, errors.StepError, "begin the loader anew", 2),
    (resumed_while_a_loop_runs, errors.StepError, "met no noise", 0),
    (resumed_without_drawing, errors.StepError, "no batch", 0),
    (servers_step_without_a_batch, errors.StepError, "no batch", 0),
]


@pytest.mark.parametrize("misuse, kind, match, rows", MISUSES, ids=[row[0].__name__ for row in MISUSES])
@pytest.mark.filterwarnings("ignore::rustle.errors.BranchOpened")
def test_misuse_is_refused_before_a_row_is_used(session, misuse, kind, match, rows):
    rounds = rustle.Rounds(batches(), session)
    with pytest.raises(kind, match=match):
        misuse(session, rounds)
    assert session.next_step == rows


def test_other_rounds_of_one_session_are_named_as_such(session):
    rounds = rustle.Rounds(batches(), session)
    with pytest.raises(errors.BatchesChanged, match="those of the rounds before"):
        rustle.Rounds(batches(OTHER_SEED), session)
    assert session.rounds is rounds
    cursor = session.cursor()
    session._rounds = None
    session.resume(cursor)
    with pytest.raises(errors.BatchesChanged, match="those of the cursor"):
        rustle.Rounds(batches(OTHER_SEED), session)


def test_right_use_works_to_the_end(session):
    rounds = rustle.Rounds(batches(), session)
    for at, ids in enumerate(rounds):
        assert np.array_equal(ids, batches()[at]) and len(rounds) == STEPS - at
        step(session, ids, 1 / SIZE, divide_by=SIZE)
        if at == 4:
            break
    for at, ids in enumerate(rounds):
        assert np.array_equal(ids, batches()[5 + at])
        session.skip() if at == 2 else step(session, ids)
    assert session.next_step == STEPS and len(rounds) == 0


def test_epochs(session):
    rounds = rustle.Rounds(batches(), session, steps_per_epoch=4)
    assert [sum(1 for ids in rounds if step(session, ids) is None) for _ in range(4)] == [4, 4, 4, 0]


def test_ranks_share_a_round(session):
    shares = [next(iter(rustle.Rounds(batches(), session, rank=rank, ranks=2))) for rank in range(2)]
    assert sorted(np.concatenate(shares)) == list(batches()[0])


def test_a_cursor_names_the_batches(folder, session):
    plain = session.cursor()
    rounds = rustle.Rounds(batches(), session)
    for _, ids in zip(range(3), rounds):
        step(session, ids)
    cursor = session.cursor()
    assert len(plain) < len(cursor) < 512
    session.close()
    for early in (False, True):
        with rustle.connect(f"inproc://{folder}") as again:
            if early:
                rustle.Rounds(batches(OTHER_SEED), again)
                with pytest.raises(errors.BatchesChanged, match="seed"):
                    again.resume(cursor)
                assert again.next_step != 3 or again.branch == 0
            else:
                again.resume(cursor)
                # Carried on, though nothing draws batches here.
                assert again.cursor() == cursor
                for other in (batches(OTHER_SEED), batches(records=RECORDS + 4)):
                    with pytest.raises(errors.BatchesChanged, match="seed"):
                        rustle.Rounds(other, again)
    with rustle.connect(f"inproc://{folder}") as again:
        rounds = rustle.Rounds(batches(), again)
        assert again.resume(cursor) is False
        assert np.array_equal(next(iter(rounds)), batches()[3])


def test_batches_that_break_the_plan_are_refused(session):
    for bad in (
        rustle.Batches(schemes.fixed_order(3), RECORDS, STEPS, bytes(32)),
        rustle.Batches(schemes.fixed_order(4), RECORDS, STEPS - 1, bytes(32)),
        rustle.Batches(schemes.poisson(0.1), RECORDS, STEPS, bytes(32)),
    ):
        with pytest.raises(errors.InvalidArgument):
            rustle.Rounds(bad, session)
    with pytest.raises(errors.InvalidArgument, match="rank"):
        rustle.Rounds(batches(), session, rank=2, ranks=2)
    with pytest.raises(errors.InvalidArgument, match="steps_per_epoch"):
        rustle.Rounds(batches(), session, steps_per_epoch=0)
    with pytest.raises(errors.InvalidArgument, match="pickled"):
        pickle.dumps(rustle.Rounds(batches(), session))
    assert session.next_step == 0


def test_empty_batches_have_a_sum_of_zero(folder):
    plan = rustle.plan(float=True, iterations=STEPS, epsilon=20, delta=1e-5, epochs=STEPS, mechanism="identity")
    folder.mkdir()
    plan.replace(dimension=DIMENSION).save(folder / "plan.toml")
    drawn = rustle.Batches(schemes.poisson(0.02), RECORDS, STEPS, bytes(32))
    with rustle.connect(f"inproc://{folder}") as session:
        sizes = []
        for ids in rustle.Rounds(drawn, session):
            sizes.append(len(ids))
            if not len(ids):
                with pytest.raises(errors.SumTooLarge):
                    step(session, [0])
            step(session, ids)
        assert 0 in sizes and session.next_step == STEPS


@pytest.mark.parametrize("given", [{}, dict(epochs=3, max_participations=3)])
def test_participation_has_no_cheap_default(given):
    for call in (rustle.plan, rustle.suggest):
        with pytest.raises(errors.InvalidArgument, match="max_participations.*epochs"):
            call(iterations=STEPS, epsilon=4, delta=1e-5, dimension=DIMENSION, **given)


def test_epochs_are_participations():
    setting = dict(iterations=STEPS, epsilon=4, delta=1e-5, mechanism="identity", min_sep=4)
    assert rustle.plan(float=True, **setting, epochs=3) == rustle.plan(float=True, **setting, max_participations=3)


def test_a_server_takes_cohorts_that_were_drawn(session):
    server = Server(session, np.zeros(DIMENSION), clients_per_round=SIZE)
    for clients in rustle.Rounds(batches(), session):
        server.step(np.full(DIMENSION, 0.01) for _ in clients)
    assert server.round == STEPS


def test_a_branch_that_opens_is_said(session):
    cursor = session.cursor()
    session.privatize_(np.zeros(DIMENSION, np.float32), 0)
    with pytest.warns(errors.BranchOpened, match="branch 1"):
        assert session.resume(cursor)


def of_users(scheme=schemes.fixed_order(4)):
    """Twelve users of four records, three users in each batch, with two of their records."""
    return rustle.Batches(schemes.uls(2, scheme), [4] * 12, STEPS, SEED)


def test_a_sum_of_users_has_one_contribution_of_each(session):
    rounds = rustle.Rounds(of_users(), session)
    for round, ids in enumerate(rounds):
        users = np.unique(of_users().owners(round))
        assert (len(users), len(ids)) == (3, 6)
        if round == 2:
            with pytest.raises(errors.SumTooLarge, match="3 contributions"):
                step(session, ids)
        step(session, users)
    assert session.next_step == STEPS


def test_ranks_do_not_share_the_records_of_a_user(session):
    with pytest.raises(errors.InvalidArgument, match="clip apart"):
        rustle.Rounds(of_users(), session, ranks=2)


def test_batches_are_not_pickled():
    made = rustle.Batches(schemes.fixed_order(4), 40, 8, bytes(32))
    assert copy.copy(made) is made and copy.deepcopy([made])[0] is made
    with pytest.raises(errors.InvalidArgument, match="secret seed"):
        pickle.dumps(made)
