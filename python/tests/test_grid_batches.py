"""Batches compared with the κ of a plan on a grid: more records than it covers are refused before a row is bound."""

import os
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


@pytest.mark.parametrize("summed_in", ["float32", "float64"])
def test_a_session_compares_the_batch(tmp_path, summed_in):
    """Sums in float64 that are rounded once have less error than any sum in float32: each is compared with its own."""
    once = summing_error(BATCH, 63, roundings=2, norm_dtype="float64")
    outcomes = {"float32": ["refused", "warned", "silent"], "float64": ["silent"] * 3}[summed_in]
    settings = [*zip(kappas(63), outcomes), (once * 0.99, "refused"), (once * 1.01, {"float32": "refused"}.get(summed_in, "silent"))]
    for number, (kappa, expected) in enumerate(settings):
        with opened(tmp_path / f"run{number}", plan_of([("w", (63,))], kappa)) as session:
            rounds, total = rounds_of(session), np.full(63, 0.01, np.float32)
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                for _ in zip(range(2), rounds):
                    with pytest.raises(InvalidArgument, match="summed_in is 'bfloat16'; allowed: float32, float64"):
                        session.privatize_(total, session.next_step, summed_in="bfloat16")
                    if expected == "refused":
                        way = "" if summed_in == "float64" else '; or summed_in="float64"'
                        with pytest.raises(InvalidArgument, match=f"64 contributions.*batch_size{way}"):
                            session.privatize_(total, session.next_step, summed_in=summed_in)
                        assert session.next_step == 0 and (total == np.float32(0.01)).all()
                        break
                    session.privatize_(total.copy(), session.next_step, summed_in=summed_in)
            assert len([w for w in seen if issubclass(w.category, Unchecked)]) == (expected == "warned")
            assert session.next_step == (0 if expected == "refused" else 2)


@pytest.mark.parametrize("is_covered", [True, False])
def test_keras_and_federated_servers_add_in_float64(tmp_path, is_covered):
    """Their κ is that of one rounding of the sum, with or without rounds: more contributions are refused before their row."""
    pytest.importorskip("torch")
    os.environ.setdefault("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras")
    import rustle.keras
    from rustle.federated import AdaptiveServer, Server
    from rustle.federated._adaptive import BELOW_CLIP_NORM

    kappa = summing_error(BATCH, 63, roundings=2, norm_dtype="float64") * (1.01 if is_covered else 0.99)

    def takes(session, call):
        at = session.next_step
        if is_covered:
            call()
        else:
            with pytest.raises(InvalidArgument, match="64 contributions"):
                call()
        assert session.next_step == at + (3 if at == 0 and is_covered and call.__name__ == "fits" else is_covered)

    model = keras.Sequential([keras.Input((20,)), keras.layers.Dense(3)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with opened(tmp_path / "keras" / "run", plan_of(rustle.keras.layout(model), kappa)) as session:
        rounds = rustle.Rounds(rustle.Batches(schemes.fixed_order(3), RECORDS, STEPS, SEED), session, steps_per_epoch=3)
        x, y = np.zeros((RECORDS, 20), np.float32), np.arange(RECORDS) % 3

        def fits():
            rustle.keras.fit(model, x, y, rounds=rounds, divide_by=64, epochs=1)

        takes(session, fits)
    updates = [{"w": np.full(63, 0.01)}] * BATCH
    with opened(tmp_path / "server" / "run", plan_of([("w", (63,))], kappa)) as session:
        server = Server(session, {"w": np.zeros(63)}, clients_per_round=BATCH)
        takes(session, lambda: server.step(updates))
        if is_covered:
            # How many a sum is of that was made elsewhere, only rounds could say.
            server.apply({"w": np.zeros(63, np.float32)})
    extra = [("w", (62,)), (BELOW_CLIP_NORM, ())]
    with opened(tmp_path / "adaptive" / "run", plan_of(extra, kappa)) as session:
        server = AdaptiveServer(session, {"w": np.zeros(62)}, clients_per_round=BATCH, clip_norm=1.0, bit_noise=50)
        takes(session, lambda: server.step([{"w": np.full(62, 0.01)}] * BATCH))
        takes(session, lambda: server.apply({"w": np.zeros(62)}, below=3, clients=BATCH))
        at = session.next_step
        with pytest.raises(InvalidArgument, match="64 contributions"):
            server.apply({"w": np.zeros(62, np.float32)}, below=3, clients=BATCH)
        assert session.next_step == at


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
