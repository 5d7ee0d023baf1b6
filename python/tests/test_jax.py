"""JAX: the contract of jax_privacy's privatizers, with a session's rows."""

import os
import pickle

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")

import numpy as np
import pytest
from conftest import prepared
from ranks import RANKS, run

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")

import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import rustle
import rustle.jax
from rustle import errors

STEPS = 12
PARAMETERS = {"b": np.zeros(7, np.float32), "w": np.zeros((16, 24), np.float32)}


@pytest.fixture
def params():
    return jax.tree.map(jnp.asarray, PARAMETERS)


@pytest.fixture
def plan(params):
    found = rustle.plan(
        float=True,
        iterations=STEPS, epsilon=8, delta=1e-5, min_sep=4, max_participations=3, mechanism="band-mf", size=4
    )
    return found.replace(parameters=[(name, list(shape)) for name, shape in rustle.jax.layout(params)])


@pytest.fixture
def rows(tmp_path, plan):
    with rustle.connect(f"inproc://{prepared(tmp_path / 'noise', plan)}") as session:
        found = np.empty((4, session.dimension), np.float32)
        for step in range(4):
            session.fetch_into(step, found[step])
        return found


@pytest.fixture
def session(tmp_path, plan):
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        yield session


def flat(tree):
    return np.concatenate([np.asarray(leaf, np.float32).reshape(-1) for leaf in jax.tree.leaves(tree)])


def test_each_update_adds_the_next_row(session, rows, params):
    privatizer = rustle.jax.privatizer(session)
    state = privatizer.init(params)
    sums = jax.tree.map(lambda leaf: leaf + 0.5, params)
    for step in range(3):
        noisy, state = privatizer.update(sums, state)
        assert jax.tree.structure(noisy) == jax.tree.structure(params)
        assert np.array_equal(flat(noisy), np.float32(0.5) + rows[step])
        assert int(state) == session.next_step == step + 1
    half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), sums)
    noisy, state = privatizer.update(half, state)
    assert all(leaf.dtype == jnp.bfloat16 for leaf in jax.tree.leaves(noisy))


def test_it_chains_as_the_privatizers_of_jax_privacy_do(session, rows, params):
    privatizer = rustle.jax.privatizer(session, divide_by=2.0)
    optimizer = optax.chain(privatizer, optax.sgd(1.0))
    state = optimizer.init(params)
    updates, state = optimizer.update(jax.tree.map(jnp.zeros_like, params), state, params)
    assert np.array_equal(flat(optax.apply_updates(params, updates)), -rows[0] / 2)
    noise_addition = pytest.importorskip("jax_privacy.noise_addition")
    theirs = noise_addition.gaussian_privatizer(stddev=1.0, prng_key=0)
    for other in (theirs, privatizer):
        assert isinstance(other, optax.GradientTransformation)
    noisy, _ = theirs.update(sum_of_clipped_grads=params, noise_state=theirs.init(params))
    ours, _ = privatizer.update(sum_of_clipped_grads=params, noise_state=jnp.int32(1))
    assert jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), ours) == jax.tree.map(
        lambda leaf: (leaf.shape, leaf.dtype), noisy
    )


def test_within_jit_the_bits_are_the_same(session, rows, params):
    privatizer = rustle.jax.privatizer(session)
    step = jax.jit(lambda sums, state: privatizer.update(sums, state))
    state = privatizer.init(params)
    for at in range(3):
        noisy, state = step(jax.tree.map(lambda leaf: leaf + 1.0, params), state)
        assert np.array_equal(flat(noisy), np.float32(1) + rows[at]) and int(state) == at + 1


@pytest.mark.parametrize("axes", [("x", None), (None, "x"), (None, None)])
def test_shards_get_their_own_part(session, rows, axes):
    devices = jax.devices()
    if len(devices) < 4:
        pytest.skip("jax was imported with one device")
    mesh = Mesh(np.array(devices[:4]), ("x",))
    shardings = {"b": NamedSharding(mesh, PartitionSpec()), "w": NamedSharding(mesh, PartitionSpec(*axes))}
    sums = jax.device_put(PARAMETERS, shardings)
    privatizer = rustle.jax.privatizer(session, commitment="exact")
    state = privatizer.init(sums)
    for step in range(2):
        noisy, state = privatizer.update(sums, state)
        assert np.array_equal(flat(noisy), rows[step])
        assert all(leaf.sharding.is_equivalent_to(shardings[name], leaf.ndim) for name, leaf in noisy.items())
    given = rustle.jax.noise(
        session, 2, jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), sums)
    )
    assert np.array_equal(flat(given), rows[2])


def test_steps_and_sums_that_are_refused(session, params):
    privatizer = rustle.jax.privatizer(session)
    state = privatizer.init(params)
    _, after = privatizer.update(params, state)
    for bad in (state, after + 1):
        with pytest.raises(errors.StepError):
            privatizer.update(params, bad)
    with pytest.raises(errors.InvalidArgument, match="not finite"):
        privatizer.update(jax.tree.map(lambda leaf: leaf * jnp.nan, params), after)
    with pytest.raises(errors.InvalidArgument, match="skip"):
        privatizer.update(jax.tree.map(lambda leaf: leaf * jnp.nan, params), after)
    with pytest.raises(errors.LayoutMismatch):
        privatizer.init({"w": params["w"]})
    with pytest.raises(errors.SessionBusy):
        rustle.jax.privatizer(session)
    assert session.next_step == 1


@pytest.mark.parametrize("commitment", ["declared", "exact"])
def test_a_step_left_out_takes_its_row(session, rows, params, commitment):
    with pytest.raises(errors.InvalidArgument, match="no privatizer"):
        rustle.jax.skip(session, jnp.int32(0))
    privatizer = rustle.jax.privatizer(session, commitment=commitment)
    state, cursor = privatizer.init(params), session.cursor()
    for again in range(2 if commitment == "exact" else 1):
        _, state = privatizer.update(params, privatizer.init(params))
        state = rustle.jax.skip(session, state)
        assert int(state) == session.next_step == 2
        with pytest.raises(errors.StepError):
            rustle.jax.skip(session, jnp.int32(1))
        noisy, state = privatizer.update(params, state)
        assert np.array_equal(flat(noisy), rows[2])
        if commitment == "exact":
            session.resume(cursor, replay=True)
            assert (session.next_step, session.branch) == (0, 0)


SCRIPT = """
import os, sys
os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
os.environ["JAX_PLATFORMS"] = "cpu"
import jax
ranks, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
jax.distributed.initialize("127.0.0.1:" + os.environ["MASTER_PORT"], ranks, rank)
import numpy as np, pickle
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import rustle, rustle.jax
url, commitment, out = sys.argv[1:4]
mesh = Mesh(np.array(jax.devices()), ("x",))
shardings = {"b": NamedSharding(mesh, PartitionSpec()), "w": NamedSharding(mesh, PartitionSpec("x", None))}
shapes = {"b": (7,), "w": (16, 24)}
whole = {name: np.arange(np.prod(shape), dtype=np.float32).reshape(shape) for name, shape in shapes.items()}
sums = {
    name: jax.make_array_from_callback(shapes[name], shardings[name], lambda index, name=name: whole[name][index])
    for name in shapes
}
own = lambda tree: {
    name: [(shard.index, np.asarray(shard.data)) for shard in leaf.addressable_shards] for name, leaf in tree.items()
}
session = rustle.connect(url)
batches = lambda seed, population: rustle.Batches(rustle.schemes.fixed_order(4), population, 12, bytes([seed]) * 32)
def refused(call, said):
    try:
        call()
    except rustle.errors.InvalidArgument as error:
        assert said in str(error), error
    else:
        raise SystemExit(f"not refused: {said}")
    session._rounds = None
# Batches are compared where the privatizer is made.
rustle.Rounds(batches(rank, 60), session)
refused(lambda: rustle.jax.privatizer(session, commitment=commitment), "differ among ranks")
privatizer = rustle.jax.privatizer(session, commitment=commitment)
state = privatizer.init(sums)
found = []
# Those that came later at the first step. One share on all processes is refused, the whole batch is not.
for seed, place, said in [(rank, {}, "differ among ranks"), (0, dict(rank=0, ranks=2), "rank=0 ranks=2, rank=0 ranks=2")]:
    next(iter(rustle.Rounds(batches(seed, 60), session, **place)))
    refused(lambda: privatizer.update(sums, state), said)
whole_batches = iter(rustle.Rounds(batches(0, 2000 * 60), session))
for step in range(3):
    next(whole_batches)
    if step == 1:
        state = rustle.jax.skip(session, state)
        next(whole_batches)
    noisy, state = privatizer.update(sums, state)
    found.append(own(noisy))
next(whole_batches)
like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding), sums)
found.append(own(rustle.jax.noise(session, 4, like)))
with open(f"{out}.{rank}", "wb") as file:
    pickle.dump(found, file)
"""


@pytest.mark.parametrize("commitment", ["declared", "exact"])
def test_processes_together_have_one_row(cluster, tmp_path, plan, commitment):
    with rustle.connect(f"inproc://{prepared(tmp_path / 'noise', plan)}") as session:
        rows = np.empty((5, session.dimension), np.float32)
        for step in range(5):
            session.fetch_into(step, rows[step])
    run(SCRIPT, cluster.url(), commitment, tmp_path / "found")
    seen = np.zeros(rows.shape[1], bool)
    for rank in range(RANKS):
        found = pickle.loads((tmp_path / f"found.{rank}").read_bytes())
        for step, tree in zip([0, 2, 3, 4], found, strict=True):
            whole = {"b": rows[step][:7], "w": rows[step][7:].reshape(16, 24)}
            if step < 4:
                sums = lambda row: np.arange(row.size, dtype=np.float32).reshape(row.shape)
                whole = {name: row + sums(row) for name, row in whole.items()}
            here = {"b": seen[:7], "w": seen[7:].reshape(16, 24)}
            for name, shards in tree.items():
                for index, values in shards:
                    assert np.array_equal(values, whole[name][index])
                    here[name][index] = True
    assert seen.all()
