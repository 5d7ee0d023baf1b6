"""Rounds of a server of federated training that would break a plan's promise: each is refused, and the model stays as it was."""

import numpy as np
import pytest
from misuse import SIZE, STEPS, batches, planned

import rustle
from rustle import errors
from rustle.federated import Server

DIMENSION = 40


@pytest.fixture
def server(tmp_path):
    with rustle.connect(f"inproc://{planned(tmp_path / 'run', dimension=DIMENSION)}") as session:
        yield Server(session, np.zeros(DIMENSION), clients_per_round=SIZE)


def step(server, clients, size=DIMENSION):
    server.step(np.full(size, 0.01) for _ in clients)


def stepped_twice(server, rounds):
    clients = next(iter(rounds))
    step(server, clients)
    step(server, clients)


def accumulated_rounds(server, rounds):
    found = iter(rounds)
    step(server, [*next(found), *next(found)])


def round_left_out(server, rounds):
    for at, clients in enumerate(rounds):
        if at != 1:
            step(server, clients)


def clients_of_another_draw(server, rounds):
    step(server, range(SIZE))


def too_many_clients(server, rounds):
    step(server, [*next(iter(rounds))] * 2)


def wrong_divisor(server, rounds):
    server.apply(np.full(DIMENSION, 10 / np.sqrt(DIMENSION)), divided_by=len(next(iter(rounds))))


def unclipped(server, rounds):
    server.apply(np.full(DIMENSION, 100.0 * len(next(iter(rounds)))))


def other_clip_norm(server, rounds):
    """As clients would that clip to ten times the plan's norm."""
    clients = next(iter(rounds))
    server.apply(np.full(DIMENSION, 10 * server.clip_norm * len(clients) / np.sqrt(DIMENSION)))


def fewer_arrays(server, rounds):
    step(server, next(iter(rounds)), DIMENSION - 1)


def more_arrays(server, rounds):
    step(server, next(iter(rounds)), DIMENSION + 1)


MISUSES = [
    (stepped_twice, errors.StepError, "had its step already", 1),
    (accumulated_rounds, errors.StepError, "met no noise", 0),
    (round_left_out, errors.StepError, "met no noise", 1),
    (clients_of_another_draw, errors.StepError, "another loader", 0),
    (too_many_clients, errors.StepError, "30 updates; allowed: 15", 0),
    (wrong_divisor, errors.SumTooLarge, "clipped to 1", 0),
    (unclipped, errors.SumTooLarge, "clipped to 1", 0),
    (other_clip_norm, errors.SumTooLarge, "clipped to 1", 0),
    (fewer_arrays, errors.LayoutMismatch, "coordinates|40|layout", 0),
    (more_arrays, errors.LayoutMismatch, "coordinates|40|layout", 0),
]


@pytest.mark.parametrize("misuse, kind, match, rows", MISUSES, ids=[row[0].__name__ for row in MISUSES])
def test_misuse_is_refused_before_a_row_is_used(server, misuse, kind, match, rows):
    rounds, inner, kept = rustle.Rounds(batches(), server.session), server.step, [np.zeros(DIMENSION)]

    def stepped(updates):
        inner(updates)
        kept.append(np.array(server.parameters))

    server.step = stepped
    with pytest.raises(kind, match=match):
        misuse(server, rounds)
    assert server.session.next_step == server.round == rows
    assert np.array_equal(server.parameters, kept[-1]) and len(kept) == rows + 1


def test_rounds_left_early(server):
    rounds = rustle.Rounds(batches(), server.session)
    for at, clients in enumerate(rounds):
        if at == 2:
            break
        step(server, clients)
    for clients in rounds:
        step(server, clients)
    assert (server.round, server.session.branch) == (STEPS, 0)
