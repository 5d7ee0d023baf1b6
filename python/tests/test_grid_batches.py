"""Batches compared with the κ of a plan on a grid: more records than it covers are refused before a row is bound."""

import warnings

import numpy as np
import pytest
from grids import opened

import rustle
from rustle import schemes, user_level
from rustle.errors import InvalidArgument, Unchecked
from rustle.grid import summing_error

SEED = bytes(range(32))
STEPS, RECORDS = 6, 192
#: Records of a batch.
BATCH = RECORDS // 3


def plan_of(layout, kappa):
    return rustle.plan(
        iterations=STEPS,
        epsilon=8,
        delta=1e-5,
        min_sep=3,
        max_participations=2,
        mechanism="identity",
        parameters=[(name, list(shape)) for name, shape in layout],
        summing_error=kappa,
        rounding="nearest",
    )


def kappas(dimension):
    """κ that no sum of a batch keeps, one that pairwise sums keep, and one that every order keeps."""
    bits = BATCH.bit_length() - 1
    pairwise = summing_error(BATCH, dimension, roundings=bits + 1, norm_dtype="float64")
    return pairwise * 0.99, pairwise * 1.01, summing_error(BATCH, dimension, norm_dtype="float64")


def rounds_of(session):
    return rustle.Rounds(rustle.Batches(schemes.fixed_order(3), RECORDS, STEPS, SEED), session)


@pytest.mark.parametrize("reduce", [False, True])
def test_torch_compares_the_batch(tmp_path, reduce):
    torch = pytest.importorskip("torch")
    import rustle.torch

    for at, expected in enumerate(["refused", "warned", "silent"]):
        net = torch.nn.Linear(20, 3)
        plan = plan_of(rustle.torch.layout(net), kappas(63)[at])
        with opened(tmp_path / expected / "run", plan) as session, warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            rustle.torch.attach(optimizer, session, net, reduce=reduce)
            before = net.weight.detach().clone()
            for _ in zip(range(2), rounds_of(session)):
                for parameter in net.parameters():
                    parameter.grad = torch.full_like(parameter, 0.01)
                if expected == "refused":
                    with pytest.raises(InvalidArgument, match="64 contributions.*batch_size"):
                        optimizer.step()
                    assert session.next_step == 0 and (net.weight == before).all()
                    break
                optimizer.step()
        found = [w for w in seen if issubclass(w.category, Unchecked) and "64 contributions" in str(w.message)]
        assert len(found) == (expected == "warned")


def test_jax_compares_the_batch(tmp_path):
    jnp = pytest.importorskip("jax.numpy")
    pytest.importorskip("optax")
    import rustle.jax

    params = {"w": jnp.zeros(63)}
    for at, expected in enumerate(["refused", "warned", "silent"]):
        plan = plan_of(rustle.jax.layout(params), kappas(63)[at])
        with opened(tmp_path / expected / "run", plan) as session, warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            rounds = rounds_of(session)
            privatizer = rustle.jax.privatizer(session)
            state = privatizer.init(params)
            next(iter(rounds))
            if expected == "refused":
                with pytest.raises(InvalidArgument, match="64 contributions.*batch_size"):
                    privatizer.update(params, state)
                assert session.next_step == 0
            else:
                privatizer.update(params, state)
        found = [w for w in seen if issubclass(w.category, Unchecked) and "64 contributions" in str(w.message)]
        assert len(found) == (expected == "warned")


def test_user_level_checks_all_batches_before_the_first(tmp_path):
    sizes = [1] * 400
    batches = rustle.Batches(schemes.uls(1, schemes.poisson(0.1)), sizes, STEPS, SEED)
    drawn = [len(batches[round]) for round in range(STEPS)]
    setting = dict(iterations=STEPS, epsilon=3.0, delta=1e-5, sampling_probability=0.1, dimension=40)
    # The first batch is covered, and a later one is not.
    assert drawn[0] < max(drawn)
    with opened(tmp_path / "small" / "run", user_level.plan(**setting, batch_size=max(drawn) - 1)) as session:
        with pytest.raises(InvalidArgument, match=f"has {max(drawn)} users.*batch_size of {max(drawn)}"):
            user_level.Training(session, batches)
        assert session.next_step == 0
    with opened(tmp_path / "large" / "run", user_level.plan(**setting, batch_size=len(sizes))) as session:
        training = user_level.Training(session, batches)
        for round, ids in training:
            training.noisy_mean(round, np.zeros((len(ids), 40)))
        assert session.next_step == STEPS
