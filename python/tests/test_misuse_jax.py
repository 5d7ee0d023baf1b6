"""Loops in JAX that would break a plan's promise: each is refused, and what is right beside it works."""

import numpy as np
import pytest
from conftest import prepared, rows
from misuse import OTHER_SEED, RECORDS, SIZE, STEPS, batches, planned

jax = pytest.importorskip("jax")
optax = pytest.importorskip("optax")

import jax.numpy as jnp

import rustle
import rustle.jax
from rustle import errors

DIMENSION = 12


class JaxTraining:
    """A mean of the records' numbers, by sums of clipped differences."""

    def __init__(self, folder, *, jitted=True, rounds=True, **arguments):
        if not folder.exists():
            planned(folder, dimension=DIMENSION)
        self.session = rustle.connect(f"inproc://{folder}")
        self.rounds = rustle.Rounds(batches(), self.session) if rounds else None
        self.x = jnp.asarray(np.random.default_rng(0).normal(size=(RECORDS, DIMENSION)) / 10, jnp.float32)
        self.privatizer = rustle.jax.privatizer(self.session, **arguments)
        self.params = jnp.zeros(DIMENSION)
        self.state = self.privatizer.init(self.params)
        update = lambda sums, state: self.privatizer.update(sums, state)
        self.update = jax.jit(update) if jitted else update

    def sums(self, ids, scale=1.0):
        return scale * jnp.sum(self.x[np.asarray(ids)] - self.params, 0)

    def step(self, ids, scale=1.0):
        noisy, self.state = self.update(self.sums(ids, scale), self.state)
        self.params = self.params + 0.01 * noisy
        return self.params


def accumulated_batches(t):
    found = iter(t.rounds)
    t.step(np.r_[next(found), next(found)])


def bad_batch_left_by_continue(t):
    for at, ids in enumerate(t.rounds):
        if at == 3:
            continue
        t.step(ids)


def foreign_batches(t):
    t.step(range(SIZE))
    t.session.cursor()


def foreign_batches_later(t):
    t.step(next(iter(t.rounds)))
    foreign_batches(t)


def unclipped(t):
    t.step(next(iter(t.rounds)), scale=1e3)
    t.session.cursor()


def other_clip_norm(t):
    ids = next(iter(t.rounds))
    rows = t.x[np.asarray(ids)] - t.params
    longer = rows * (10 * t.session.clip_norm / jnp.linalg.norm(rows, axis=1, keepdims=True))
    noisy, t.state = t.update(jnp.sum(jnp.abs(longer), 0), t.state)
    t.session.cursor()


def too_large_batch(t):
    t.step(np.tile(next(iter(t.rounds)), 200))
    t.session.cursor()


def not_finite(t):
    t.step(next(iter(t.rounds)), scale=np.nan)
    t.session.cursor()


def an_older_state(t):
    state = t.state
    t.step(next(iter(t.rounds)))
    t.state = state
    t.step(next(iter(t.rounds)))
    t.session.cursor()


MISUSES = [
    (accumulated_batches, "met no noise", 0),
    (bad_batch_left_by_continue, "met no noise", 3),
    (foreign_batches, "another loader", 0),
    (foreign_batches_later, "another loader", 1),
    (unclipped, "clipped to", 0),
    (other_clip_norm, "clipped to", 0),
    (too_large_batch, "clipped to", 0),
    (not_finite, "not finite", 0),
    (an_older_state, "noised already", 1),
]


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("misuse, match, used", MISUSES, ids=[row[0].__name__ for row in MISUSES])
def test_misuse_is_refused_before_a_row_is_used(tmp_path, misuse, match, used, jitted):
    t = JaxTraining(tmp_path / "run", jitted=jitted)
    # What a callback raises comes out of jax as one of its own errors, with the text.
    with pytest.raises(Exception, match=match):
        misuse(t)
    assert t.session._native.next_step == used
    t.session.close()
    assert t.session.closed


@pytest.mark.parametrize("jitted", [False, True])
def test_a_divisor_that_sums_were_not_divided_by_is_refused(tmp_path, jitted):
    t = JaxTraining(tmp_path / "run", jitted=jitted, divide_by=1e3)
    with pytest.raises(Exception, match="divide_by"):
        t.step(next(iter(t.rounds)))
        t.session.cursor()
    assert t.session._native.next_step == 0
    t.session.close()


def as_planned(t):
    for ids in t.rounds:
        t.step(ids)


def a_batch_left_out(t):
    for at, ids in enumerate(t.rounds):
        if at == 3:
            t.state = rustle.jax.skip(t.session, t.state)
            continue
        t.step(ids)


def a_loop_left_early(t):
    for at, ids in enumerate(t.rounds):
        if at == 3:
            break
        t.step(ids)
    as_planned(t)


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("use", [as_planned, a_batch_left_out, a_loop_left_early])
def test_right_use_works_to_the_end(tmp_path, use, jitted):
    t = JaxTraining(tmp_path / "run", jitted=jitted)
    use(t)
    assert t.session.next_step == STEPS == int(t.state)
    t.session.close()


def test_resuming_with_another_seed_is_refused(tmp_path):
    t = JaxTraining(tmp_path / "run")
    for _, ids in zip(range(5), t.rounds):
        t.step(ids)
    cursor = t.session.cursor()
    t.session.close()
    t = JaxTraining(tmp_path / "run", rounds=False)
    t.session.resume(cursor)
    with pytest.raises(errors.BatchesChanged, match="seed"):
        rustle.Rounds(batches(OTHER_SEED), t.session)
    t.rounds = rustle.Rounds(batches(), t.session)
    t.state = t.privatizer.init(t.params)
    as_planned(t)
    assert (t.session.next_step, t.session.branch) == (STEPS, 0)
    t.session.close()


def test_what_nothing_checks_is_said(tmp_path):
    with pytest.warns(errors.Unchecked, match="participation"):
        JaxTraining(tmp_path / "run", rounds=False).session.close()


@pytest.mark.filterwarnings("ignore::rustle.errors.Unchecked")
def test_readers_wait_for_steps_that_were_started(tmp_path):
    """Each read comes right behind a jitted step whose sums are not there yet."""
    t = JaxTraining(tmp_path / "run", rounds=False)
    matrix = jnp.ones((1500, 1500)) / 1500
    slow = jax.jit(lambda x: jax.lax.fori_loop(0, 4, lambda _, x: matrix @ x, x))
    slow(matrix).block_until_ready()

    @jax.jit
    def step(params, state, values):
        noisy, state = t.privatizer.update(0.0 * values[0, :DIMENSION] + 0.1, state)
        return params + noisy, state

    readers = [
        lambda: t.session.next_step,
        lambda: len(t.session.cursor()) and t.session._native.next_step,
        lambda: len(t.session.report(delta=1e-5)) and t.session._native.next_step,
    ]
    for at in range(STEPS):
        t.params, t.state = step(t.params, t.state, slow(matrix))
        assert readers[at % 3]() == at + 1
    t.session.close()


@pytest.mark.filterwarnings("ignore::rustle.errors.Unchecked")
def test_the_state_is_ready_after_the_row(tmp_path):
    t = JaxTraining(tmp_path / "run", rounds=False)
    for at in range(4):
        _, t.state = t.update(jnp.zeros(DIMENSION), t.state)
        assert int(t.state) == t.session._native.next_step == at + 1
    t.session.close()


@pytest.mark.filterwarnings("ignore::rustle.errors.Unchecked")
def test_a_tree_of_one_array(tmp_path):
    planned(tmp_path / "run", dimension=DIMENSION)
    assert rustle.jax.layout(jnp.zeros((3, 4))) == [("params", (3, 4))]
    with rustle.connect(f"inproc://{tmp_path / 'run'}") as session:
        privatizer = rustle.jax.privatizer(session)
        noisy, _ = privatizer.update(jnp.zeros((3, 4)), privatizer.init(jnp.zeros((3, 4))))
        assert noisy.shape == (3, 4) and noisy.any()


@pytest.mark.parametrize("jitted", [False, True])
def test_micro_batches_have_one_row(tmp_path, jitted):
    with rustle.connect(f"inproc://{planned(tmp_path / 'noise', dimension=DIMENSION)}") as session:
        noise = rows(session, STEPS)
    t = JaxTraining(tmp_path / "run")
    optimizer = rustle.jax.accumulated(optax.chain(t.privatizer, optax.sgd(1.0, momentum=0.5)), 3)
    plain = optax.sgd(1.0, momentum=0.5)
    state, params = optimizer.init(t.params), t.params
    kept, expected = plain.init(t.params), t.params
    update = jax.jit(optimizer.update) if jitted else optimizer.update
    for step, ids in enumerate(t.rounds):
        for part in np.array_split(ids, 3):
            updates, state = update(jnp.sum(t.x[part], 0), state, params)
            params = optax.apply_updates(params, updates)
        whole, kept = plain.update(jnp.sum(t.x[ids], 0) + noise[step], kept)
        expected = optax.apply_updates(expected, whole)
        assert np.allclose(params, expected, atol=1e-4)
    assert t.session.next_step == STEPS
    t.session.close()


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("chained", [False, True])
def test_a_batch_left_out_takes_its_micro_batches(tmp_path, chained, jitted):
    with rustle.connect(f"inproc://{planned(tmp_path / 'noise', dimension=DIMENSION)}") as session:
        noise = rows(session, STEPS)
    t = JaxTraining(tmp_path / "run")
    within = optax.chain(t.privatizer, optax.scale(1.0)) if chained else t.privatizer
    optimizer = rustle.jax.accumulated(within, 3)
    state = optimizer.init(t.params)
    update = jax.jit(optimizer.update) if jitted else optimizer.update
    for at, ids in enumerate(t.rounds):
        parts = [jnp.sum(t.x[part], 0) for part in np.array_split(ids, 3)]
        if at == 1:
            _, state = update(parts[0], state)
            _, state = update(parts[1], state)
            state = rustle.jax.skip(t.session, state)
            assert int(state.micro_batches) == 0 and not state.sums.any()
            continue
        for part in parts:
            noisy, state = update(part, state)
        assert np.allclose(noisy, jnp.sum(t.x[ids], 0) + noise[at], atol=1e-4)
        if at == 3:
            break
    assert t.session.next_step == 4
    t.session.close()


def left_within_a_step(t, halves, step, state):
    state = step(halves(next(iter(t.rounds)))[0], state)
    return state


def left_and_resumed(t, halves, step, state):
    state = left_within_a_step(t, halves, step, state)
    t.session.resume(t.session.cursor())
    return state


def an_older_half(t, halves, step, state):
    begun = left_within_a_step(t, halves, step, state)
    step(halves(next(iter(t.rounds)))[1], begun)
    return begun


@pytest.mark.parametrize("jitted", [False, True])
@pytest.mark.parametrize("begun", [left_within_a_step, left_and_resumed, an_older_half])
def test_micro_batches_of_a_batch_that_comes_again_are_dropped(tmp_path, begun, jitted):
    """Each sum is of its own batch, once: a half of it that was kept would come again with the whole, and shift all others."""
    with rustle.connect(f"inproc://{planned(tmp_path / 'noise', dimension=DIMENSION)}") as session:
        noise = rows(session, STEPS)
    t = JaxTraining(tmp_path / "run")
    # Wherever the state comes from, such as a checkpoint.
    state = rustle.jax.accumulated(optax.chain(t.privatizer), 2).init(t.params)
    optimizer = rustle.jax.accumulated(optax.chain(t.privatizer), 2)
    update = jax.jit(optimizer.update) if jitted else optimizer.update
    noisy = []

    def step(ids, state):
        before = t.session.next_step
        updates, state = update(jnp.sum(t.x[np.asarray(ids)], 0), state)
        if t.session.next_step > before:
            noisy.append(updates)
        return state

    halves = lambda ids: (ids[:7], ids[7:])
    state = begun(t, halves, step, state)
    for ids in t.rounds:
        for half in halves(ids):
            state = step(half, state)
    assert (t.session.next_step, len(noisy)) == (STEPS, STEPS)
    for at in range(STEPS):
        assert np.allclose(noisy[at], jnp.sum(t.x[batches()[at]], 0) + noise[at], atol=1e-4)
    t.session.close()


@pytest.mark.parametrize("jitted", [False, True])
def test_a_micro_batch_too_many_is_refused(tmp_path, jitted):
    t = JaxTraining(tmp_path / "run")
    optimizer = rustle.jax.accumulated(t.privatizer, 2)
    update = jax.jit(optimizer.update) if jitted else optimizer.update
    state = optimizer.init(t.params)
    ids = next(iter(t.rounds))
    with pytest.raises(Exception, match="had its step already"):
        for part in np.array_split(ids, 3):
            _, state = update(jnp.sum(t.x[part], 0), state)
        jax.effects_barrier()
    assert t.session._native.next_step == 1
    t.session.close()


@pytest.mark.parametrize("bad", ["x", 2.5, 0, None, True])
def test_what_is_no_number_of_micro_batches_is_refused(tmp_path, bad):
    t = JaxTraining(tmp_path / "run")
    with pytest.raises(errors.InvalidArgument, match="micro_batches is .*allowed"):
        rustle.jax.accumulated(t.privatizer, bad)
    with pytest.raises(errors.InvalidArgument, match="optimizer is .*allowed"):
        rustle.jax.accumulated("sgd", 2)
    t.session.close()


@pytest.mark.parametrize("jitted", [False, True])
def test_scaling_before_the_noise(tmp_path, jitted):
    with rustle.connect(f"inproc://{planned(tmp_path / 'noise', dimension=DIMENSION)}") as session:
        noise = rows(session, STEPS)
    t = JaxTraining(tmp_path / "run")
    scaling = rustle.jax.Scaling(t.privatizer, divide_by=SIZE, decay=0.5, floor=0.1)
    update = jax.jit(scaling.update) if jitted else scaling.update
    state, squares = scaling.init(t.params), np.zeros(DIMENSION)
    for step, ids in enumerate(t.rounds):
        roots = np.sqrt(squares)
        inverse = 1 / np.maximum(roots, 0.1 * (np.sqrt(np.mean(squares)) or 1.0))
        scales = inverse / np.sqrt(np.mean(inverse**2))
        assert np.allclose(scaling.scales(state), scales, rtol=1e-4)
        sums = jnp.sum(scaling.scales(state) * t.x[ids], 0)
        gradient, state = update(sums, state)
        expected = (np.asarray(sums) + noise[step]) / scales / SIZE
        assert np.allclose(gradient, expected, rtol=1e-4, atol=1e-6)
        squares = 0.5 * squares + 0.5 * expected**2
    assert t.session.next_step == STEPS and not np.allclose(scales, 1.0, atol=0.1)
    for bad in (dict(divide_by=0.0), dict(divide_by=1.0, decay=1.0), dict(divide_by=1.0, floor=0.0)):
        with pytest.raises(errors.InvalidArgument, match="allowed"):
            rustle.jax.Scaling(t.privatizer, **bad)
    t.session.close()


@pytest.mark.parametrize("jitted", [False, True])
def test_a_step_that_may_not_run_binds_no_row_before_it_does(tmp_path, jitted):
    """`optax.apply_if_finite` decides within `lax.cond`, which is traced outside of `jit` too."""
    t = JaxTraining(tmp_path / "run")
    optimizer = optax.apply_if_finite(optax.chain(t.privatizer, optax.scale(-1.0)), 3)
    update = jax.jit(optimizer.update) if jitted else optimizer.update
    state = optimizer.init(t.params)
    for at, ids in zip(range(2), t.rounds):
        _, state = update(t.sums(ids), state, t.params)
        assert t.session.next_step == at + 1
    next(iter(t.rounds))
    _, state = update(t.sums(batches()[2], scale=np.nan), state, t.params)
    assert t.session.next_step == 2 and int(state.total_notfinite) == 1
    t.session.close()


def test_other_states_and_scalings_are_refused(tmp_path):
    t = JaxTraining(tmp_path / "run")
    chained = optax.chain(t.privatizer, optax.scale(1.0)).init(t.params)
    sums = t.sums(next(iter(t.rounds)))
    for state in (chained, "0", None, jnp.zeros(2)):
        for call in (lambda: t.privatizer.update(sums, state), lambda: rustle.jax.skip(t.session, state)):
            with pytest.raises(errors.InvalidArgument, match="noise_state is .*; allowed: .*state"):
                call()
    wrong = [("x", dict(divide_by=1)), (t.privatizer, dict(divide_by="x")), (t.privatizer, dict(divide_by=1, decay=None))]
    for privatizer, words in wrong:
        with pytest.raises(errors.InvalidArgument, match=" is .*; allowed: "):
            rustle.jax.Scaling(privatizer, **words)
    assert t.session.next_step == 0
    t.session.close()
