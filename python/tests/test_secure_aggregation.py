"""The arithmetic of secure aggregation: Xu et al. (2023), Algorithm 2."""

import math

import numpy as np
import pytest
from conftest import prepared, rows

import rustle
from rustle import errors
from rustle.federated import Encoding, Server, Sgd

SEED = bytes(range(16))


def gaussians(count, dimension, norm, seed=0):
    drawn = np.random.default_rng(seed).normal(size=(count, dimension))
    return norm * drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


@pytest.mark.parametrize("dimension", [1, 2, 3, 17, 100, 1000])
@pytest.mark.parametrize("scale", [0.5, 30.0, 1e6])
def test_a_sum_comes_back_within_the_grid(dimension, scale):
    encoding = Encoding(dimension, 2.0, scale, clients=20)
    signs = encoding.signs(SEED)
    updates = gaussians(20, dimension, 1.5)
    encoded = [encoding.encode(update, signs) for update in updates]
    assert all(one.dtype == np.int64 and 0 <= one.min() and one.max() < encoding.modulus for one in encoded)
    got = encoding.decode(encoding.add(encoded), 20, signs)
    # A coordinate's rounding is within 1, of variance 1/4 at most; rotated back they mix.
    assert np.abs(got - updates.sum(0)).max() < 6 * math.sqrt(20) / scale / 2 + 1e-8


def test_an_encoded_update_keeps_the_inflated_norm():
    for dimension, scale in ((100, 3.0), (1000, 10.0), (1000, 0.5), (5, 0.2)):
        encoding = Encoding(dimension, 1.0, scale, clients=3)
        d, s = encoding.padded_dimension, scale
        # Algorithm 2's bound with α = e^{−1/2}, squared and unscaled.
        assert encoding.inflated_clip_norm**2 == pytest.approx(1 + d / (4 * s**2) + (s + d**0.5 / 2) / s**2)
        random = np.random.default_rng(1)
        for step, update in enumerate(gaussians(40, dimension, 50.0)):
            signs = encoding.signs(SEED + bytes([step]))
            one = encoding.encode(update, signs, random)
            whole = (one - encoding.bound).astype(float)
            assert np.linalg.norm(whole) / scale <= encoding.inflated_clip_norm * (1 + 1e-12)
            assert np.abs(whole).max() <= encoding.bound
            alone = encoding.decode(one, 1, signs)
            assert np.linalg.norm(alone) <= encoding.inflated_clip_norm * (1 + 1e-12)


def test_rounding_is_repeated_only_where_the_norm_is_exceeded():
    encoding = Encoding(64, 1.0, 4.0, clients=1)
    most = (4.0 * encoding.inflated_clip_norm) ** 2
    assert most == pytest.approx(40)
    # Halves: each rounding has a norm² of Bin(64, ½), which is above 40 at times.
    vector, random = np.full(64, 0.5), np.random.default_rng(2)
    plain = np.floor(vector) + (np.random.default_rng(3).random((4000, 64)) < 0.5)
    kept = plain[(plain**2).sum(1) <= most]
    assert 1 - math.exp(-0.5) <= len(kept) / 4000 < 0.995
    taken = np.array([encoding._rounded(vector, random) for _ in range(4000)])
    assert (taken**2).sum(1).max() == 40
    spread = math.sqrt(0.25 / 4000 + 0.25 / len(kept))
    assert np.abs(taken.mean(0) - kept.mean(0)).max() < 5 * spread
    sizes = (taken.sum(1).mean(), kept.sum(1).mean(), plain.sum(1).mean())
    assert sizes[0] == pytest.approx(sizes[1], abs=5 * 4 * spread) and sizes[0] < sizes[2]


def test_the_mean_is_unbiased():
    encoding = Encoding(24, 1.0, 4.0, clients=1)
    update = gaussians(1, 24, 0.9)[0]
    random = np.random.default_rng(4)
    count, total = 1500, np.zeros(24)
    for step in range(count):
        signs = encoding.signs(SEED + step.to_bytes(4, "little"))
        total += encoding.decode(encoding.encode(update, signs, random), 1, signs)
    # Rounding is hardly ever repeated here: what the condition cuts off is far below what is measured.
    error = total / count - update
    assert np.abs(error).max() < 5 * 0.5 / 4.0 / math.sqrt(count)


def test_rotation_is_hadamards_and_its_own_inverse():
    encoding = Encoding(16, 1.0, 1.0, clients=1)
    h = np.array([[1.0]])
    for _ in range(4):
        h = np.block([[h, h], [h, -h]])
    signs, vector = encoding.signs(SEED), np.arange(16.0)
    assert np.allclose(encoding._rotated(vector, signs), h @ (signs * vector) / 4)
    assert set(np.unique(Encoding(4096, 1.0, 1.0, 1).signs(SEED))) == {-1, 1}
    assert abs(Encoding(4096, 1.0, 1.0, 1).signs(SEED).sum()) < 5 * 64
    # Clients and server of other versions must agree.
    assert signs.tolist() == [-1, 1, 1, 1, 1, -1, 1, -1, -1, 1, 1, -1, 1, 1, 1, -1]


def test_no_sum_wraps_around_and_few_updates_are_scaled_down():
    encoding = Encoding(1024, 1.0, 100.0, clients=1000)
    assert encoding.bound == math.ceil(2 * 100 * math.log(1024) / 32)
    assert encoding.modulus == 2 * encoding.bound * 1000 + 1
    # As many clients as there may be, all at the edge.
    edge = np.full(1024, 2 * encoding.bound, np.int64)
    total = sum(edge for _ in range(1000))
    assert total.max() < encoding.modulus
    signs = encoding.signs(SEED)
    assert np.allclose(
        encoding._rotated(encoding.decode(total, 1000, signs) * 100, signs), 1000 * encoding.bound
    )
    # The worst update of all: one coordinate, which the rotation spreads evenly; and the bound on what others do.
    assert encoding.scaled_down_probability < 1e-30
    assert Encoding(128, 1.0, 10.0, 1).scaled_down_probability < 1e-15
    reach = [np.abs(encoding._rotated(update, signs)).max() for update in gaussians(200, 1024, 1.0)]
    assert max(reach) * 100 < encoding.bound
    for dimension in (2, 8, 64, 128, 4096):
        some = Encoding(dimension, 1.0, 1000.0, 1)
        t = np.abs(some._rotated(gaussians(1, dimension, 1000.0)[0], some.signs(SEED))).max()
        assert t <= some.bound or some.scaled_down_probability > 1e-6


def test_an_update_that_reaches_too_far_is_scaled_down():
    encoding = Encoding(256, 1.0, 50.0, clients=2)
    signs = encoding.signs(SEED)
    # Rotated it is one coordinate alone: what the signs make improbable, for a sender who does not know them.
    spike = encoding._rotated(np.zeros(256), signs)
    spike[3] = 1.0
    from rustle.federated._encoding import _hadamard

    update = signs * _hadamard(spike)
    one = encoding.encode(update, signs)
    assert one.max() == 2 * encoding.bound < 2 * 50
    got = encoding.decode(one, 1, signs)
    assert np.linalg.norm(got) < 0.75 < np.linalg.norm(update)
    assert got @ update / np.linalg.norm(got) > 0.9


def test_a_scale_for_some_bits():
    for bits in (8, 16, 20, 32, 62):
        encoding = Encoding.within(bits, 1000, 0.3, clients=50)
        assert encoding.modulus == 1 << bits
        wider = Encoding(1000, 0.3, min(encoding.scale * 1.2, 1e12), 50, 0)
        assert bits == 62 or wider.modulus > encoding.modulus
    norms = [Encoding.within(bits, 1000, 0.3, 50).inflated_clip_norm for bits in (10, 16, 24, 32)]
    assert norms == sorted(norms, reverse=True) and norms[-1] == pytest.approx(0.3, rel=1e-4)


def test_a_round_with_noise_for_the_inflated_norm(tmp_path):
    encoding = Encoding.within(20, 300, 0.5, clients=30)
    setting = dict(iterations=6, epsilon=4, delta=1e-5, min_sep=3, max_participations=2, dimension=300)
    plan = rustle.plan(float=True, **setting, mechanism="blt", size=2, clip_norm=0.5)
    with pytest.raises(errors.PlanError, match="rounded"):
        encoding.check(plan)
    plan = plan.replace(clip_norm=encoding.inflated_clip_norm)
    encoding.check(plan)
    with rustle.connect(f"inproc://{prepared(tmp_path / 'twin', plan)}") as session:
        noise = rows(session, 6)
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        server = Server(session, np.zeros(300), clients_per_round=30, optimizer=Sgd(1.0, 0.0))
        expected = np.zeros(300)
        for round in range(6):
            signs = encoding.signs(SEED + bytes([round]))
            updates = gaussians(25, 300, 0.4, seed=round)
            total = encoding.add(encoding.encode(update, signs) for update in updates)
            server.apply(encoding.decode(total, 25, signs))
            expected += (updates.sum(0) + noise[round]) / 30
        assert np.abs(server.parameters - expected).max() < 6 * 6 * 5 / 2 / encoding.scale / 30
        assert np.abs(noise).mean() > 100 / encoding.scale


def test_what_is_refused():
    for change in (
        dict(dimension=0),
        dict(clip_norm=0.0),
        dict(clip_norm=math.inf),
        dict(scale=-1.0),
        dict(scale=1e13),
        dict(clients=0),
        dict(modulus=1000),
        dict(modulus=1 << 63),
    ):
        with pytest.raises(errors.InvalidArgument):
            Encoding(**{"dimension": 100, "clip_norm": 1.0, "scale": 100.0, "clients": 10, **change})
    for bits in (1, 63, 4):
        with pytest.raises(errors.InvalidArgument):
            Encoding.within(bits, 100, 1.0, 10)
    encoding = Encoding(100, 1.0, 100.0, 10)
    signs = encoding.signs(SEED)
    one = encoding.encode(np.zeros(100), signs)
    nan = np.zeros(100)
    nan[5] = np.nan
    for call in (
        lambda: encoding.signs(b"short"),
        lambda: encoding.encode(np.zeros(101), signs),
        lambda: encoding.encode(nan, signs),
        lambda: encoding.encode(np.zeros(100), signs[:100]),
        lambda: encoding.encode(np.zeros(100), 0 * signs),
        lambda: encoding.decode(one, 11, signs),
        lambda: encoding.decode(one, 0, signs),
        lambda: encoding.decode(one.astype(float), 1, signs),
        lambda: encoding.decode(one[:100], 1, signs),
        lambda: encoding.decode(one - 10_000, 1, signs),
        lambda: encoding.decode(np.full(128, encoding.modulus - 1), 1, signs),
        lambda: encoding.add([one, one + encoding.modulus]),
    ):
        with pytest.raises(errors.InvalidArgument):
            call()
