"""Where rows go: memory of every kind, written to in place, in one piece or several."""

import array

import numpy as np
import pytest
from conftest import DIMENSION, prepared, rows

import rustle
from rustle import Commitment, errors


def test_privatize_adds_what_fetch_gives(session, tmp_path, plan):
    noise = rows(session, 2)
    with rustle.connect(f"inproc://{prepared(tmp_path / 'other', plan)}") as other:
        sums = np.linspace(-1, 1, DIMENSION, dtype=np.float32)
        got = other.privatize_(sums.copy(), 0)
        assert np.array_equal(got, sums + noise[0])
        got = other.privatize_(sums.copy(), 1, divide_by=4.0)
        assert np.array_equal(got, sums + noise[1] / np.float32(4))


@pytest.mark.parametrize(
    "make",
    [
        lambda values: values,
        lambda values: values.reshape(30, 100),
        lambda values: memoryview(values),
        lambda values: array.array("f", values),
    ],
)
def test_buffers_are_written_to_in_place(session, make):
    buffer = make(np.zeros(DIMENSION, np.float32))
    assert session.fetch_into(0, buffer) is buffer
    assert np.asarray(buffer).std() > 0


class Lent:
    """DLPack and nothing else."""

    def __init__(self, values):
        self.values = values

    def __dlpack__(self, **how):
        return self.values.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.values.__dlpack_device__()


def test_dlpack_is_written_to_in_place(session):
    values = np.zeros(DIMENSION, np.float32)
    session.fetch_into(0, Lent(values))
    assert values.std() > 0


def read_only():
    values = np.zeros(DIMENSION, np.float32)
    values.flags.writeable = False
    return values


@pytest.mark.parametrize(
    "buffer, word",
    [
        (np.zeros(DIMENSION, np.float16), "float16"),
        (np.zeros(DIMENSION, np.float64), "float64"),
        (np.zeros(DIMENSION, ">f4"), "float32"),
        (np.zeros((DIMENSION, 2), np.float32)[:, 0], "not contiguous"),
        (np.zeros((DIMENSION // 2, 2), np.float32).T, "not contiguous"),
        (read_only(), "read-only"),
        (np.zeros(DIMENSION - 1, np.float32), "3000"),
        ([0.0] * DIMENSION, "list"),
    ],
)
def test_buffers_that_are_refused(session, buffer, word):
    with pytest.raises(errors.BufferRefused, match=word):
        session.fetch_into(0, buffer)
    assert session.next_step == 0


@pytest.mark.parametrize("first", [(0, 100), (700, 2300)])
def test_pieces_get_their_parts_of_one_row(session, tmp_path, plan, first):
    start, end = first
    noise = rows(session, 1)[0]
    with rustle.connect(f"inproc://{prepared(tmp_path / 'other', plan)}") as other:
        middle = (start + end) // 2
        pieces = [(middle, np.ones(end - middle, np.float32)), (start, np.ones(5, np.float32))]
        other.add_to(pieces, 0, first, Commitment.declared("sums"), 3.0)
        for at, piece in pieces:
            assert np.array_equal(piece, 1 + noise[at : at + len(piece)] / np.float32(3))
        before = [piece.copy() for _, piece in pieces]
        for at, length in ((start - 1, 1), (end, 1), (end - 4, 5)):
            bad = [*pieces, (at, np.ones(length, np.float32))]
            with pytest.raises((errors.InvalidArgument, OverflowError)):
                other.add_to(bad, 1, first, Commitment.declared("more"), 3.0)
        assert other.next_step == 1
        assert all(np.array_equal(piece, was) for (_, piece), was in zip(pieces, before, strict=True))


@pytest.mark.parametrize("dimension", [2**21, 2**21 + 2**20 + 5])
def test_rows_that_several_threads_move(tmp_path, dimension):
    plan = rustle.plan(float=True, iterations=4, epsilon=4, delta=1e-5, epochs=1, mechanism="identity").replace(dimension=dimension)
    with rustle.connect(f"inproc://{prepared(tmp_path / 'one', plan)}") as session:
        noise = session.fetch_into(0, np.full(dimension, np.nan, np.float32))
    with rustle.connect(f"inproc://{prepared(tmp_path / 'other', plan)}") as session:
        assert np.array_equal(session.privatize_(np.ones(dimension, np.float32), 0, divide_by=2.0), 1 + noise / 2)
    with rustle.connect(f"inproc://{prepared(tmp_path / 'parts', plan)}") as session:
        cuts = range(0, dimension, 2**19)
        parts = [session.fetch_into(0, np.empty(min(2**19, dimension - at), np.float32), (at, min(at + 2**19, dimension))) for at in cuts]
        assert np.array_equal(np.concatenate(parts), noise)
