"""Gradients that are there when a batch is left out, a state is loaded, a session goes elsewhere, or noise is paused."""

import copy

import numpy as np
import pytest
from misuse import SIZE, STEPS, EngineTraining, Training, weights

torch = pytest.importorskip("torch")

import rustle
import rustle.torch
from rustle import errors

pytestmark = pytest.mark.filterwarnings("ignore::rustle.errors.BranchOpened")


def backward(t, ids):
    (0.01 * t.loss(t.net, t.x[ids], t.y[ids])).backward()


def own(t, ids):
    """The gradients of one batch, whatever is there."""
    return torch.autograd.grad(0.01 * t.loss(t.net, t.x[ids], t.y[ids]), list(t.net.parameters()))


def assert_own(t, ids):
    for p, grad in zip(t.net.parameters(), own(t, ids)):
        assert torch.allclose(p.grad, grad, atol=1e-7)


class Wrapped(Training):
    def __init__(self, folder):
        super().__init__(folder)
        self.attachment.detach()
        self.optimizer = rustle.torch.Optimizer(self.optimizer, self.session, self.net, divide_by=SIZE)
        self.attachment = self.optimizer.attachment


@pytest.fixture(params=[Training, Wrapped])
def t(tmp_path, request):
    made = request.param(tmp_path / "run")
    yield made
    made.session.close()


def test_a_batch_left_out_is_in_no_sum(t):
    for at, ids in enumerate(t.rounds):
        backward(t, ids)
        assert_own(t, ids)
        if at % 3 == 1:
            t.attachment.skip()
            assert all(p.grad is None for p in t.net.parameters())
            continue
        t.optimizer.step()
        t.optimizer.zero_grad()
    assert t.session.next_step == STEPS


def first_steps(t, count):
    for _, ids in zip(range(count), t.rounds):
        backward(t, ids)
        t.optimizer.step()
        t.optimizer.zero_grad()


# From where to where, and by what.
MOVES = {
    "the same place": (0, lambda t, state, cursor: t.optimizer.load_state_dict(state)),
    "an older state": (2, lambda t, state, cursor: t.optimizer.load_state_dict(state)),
    "its attachment's": (2, lambda t, state, cursor: t.attachment.load_state_dict(state["rustle"])),
    "a cursor": (2, lambda t, state, cursor: t.session.resume(cursor)),
    "a restart": (2, lambda t, state, cursor: t.session.restart(1)),
}


@pytest.mark.parametrize("steps, move", MOVES.values(), ids=MOVES)
def test_a_batch_of_before_is_in_no_sum_after(t, steps, move):
    first_steps(t, 1)
    state, cursor = copy.deepcopy(t.optimizer.state_dict()), t.session.cursor()
    first_steps(t, steps)
    backward(t, next(iter(t.rounds)))
    move(t, state, cursor)
    assert t.session.next_step == 1 and t.session.branch == (steps > 0)
    assert all(p.grad is None for p in t.net.parameters())
    for ids in t.rounds:
        backward(t, ids)
        assert_own(t, ids)
        t.optimizer.step()
        t.optimizer.zero_grad()
    assert t.session.next_step == STEPS


def test_a_session_that_goes_back_while_noise_is_attached(t):
    """What the text of `NotResumed` recommends, also for sums of `clipped_sum`, whose records are compared with the round's."""
    t.step(next(iter(t.rounds)))
    cursor = t.session.cursor()
    for go in (lambda: None, lambda: t.session.resume(cursor), t.session.restart):
        go()
        for _, ids in zip(range(2), t.rounds):
            t.step(ids)
    assert (t.session.next_step, t.session.branch) == (2, 2)


def test_a_session_that_repeats_rows_by_its_cursor(tmp_path):
    t = Training(tmp_path / "run", commitment="exact")
    cursor, before = t.session.cursor(), [p.detach().clone() for p in t.net.parameters()]
    found = []
    for _ in range(2):
        for _, ids in zip(range(3), t.rounds):
            t.step(ids)
        found.append(weights(t.net))
        with torch.no_grad():
            for p, value in zip(t.net.parameters(), before):
                p.copy_(value)
        t.session.resume(cursor, replay=True)
    assert np.array_equal(*found) and t.session.branch == 0
    t.session.close()


def test_a_detached_attachment_discards_nothing(t):
    t.attachment.detach()
    backward(t, range(SIZE))
    t.session.restart()
    assert t.session.on_move == [] and all(p.grad is not None for p in t.net.parameters())


def test_a_paused_step_has_no_gradients(t):
    ids = next(iter(t.rounds))
    before = weights(t.net)
    backward(t, ids)

    def closure():
        t.optimizer.zero_grad()
        backward(t, ids)
        return 0.0

    for words in ((), (closure,)):
        with t.attachment.paused(), pytest.raises(errors.StaleGradients, match="'0.weight' is not zero.*paused"):
            t.optimizer.step(*words)
    assert np.array_equal(weights(t.net), before) and t.session.next_step == 0
    for to_none in (True, False):
        t.optimizer.zero_grad(set_to_none=to_none)
        with t.attachment.paused():
            t.optimizer.step()
    assert np.array_equal(weights(t.net), before) and t.session.next_step == 0
    t.step(ids)


def test_a_paused_step_of_the_engine(tmp_path):
    pytest.importorskip("opacus")
    t = EngineTraining(tmp_path / "run")
    before = weights(t.net)
    x, y = next(iter(t.loader))
    t.optimizer.zero_grad()
    t.backward(x, y)
    with t.engine.attachment.paused():
        with pytest.raises(errors.StaleGradients, match="'0.weight' is not zero.*paused"):
            t.optimizer.original_optimizer.step()
        with pytest.raises(errors.StepError, match="original_optimizer"):
            t.optimizer.step()
    assert np.array_equal(weights(t.net), before) and t.session.next_step == 0
    t.optimizer.step()
    assert t.session.next_step == 1
    t.session.close()


@pytest.mark.parametrize("move", ["load", "restart"])
def test_the_engine_discards_a_batch_of_before(tmp_path, move):
    pytest.importorskip("opacus")
    t = EngineTraining(tmp_path / "run")
    state = copy.deepcopy(t.optimizer.state_dict())
    x, y = next(iter(t.loader))
    t.optimizer.zero_grad()
    t.backward(x, y)
    t.optimizer.clip_and_accumulate()
    t.optimizer.load_state_dict(state) if move == "load" else t.session.restart()
    for p in t.optimizer.params:
        assert p.grad_sample is None and p.summed_grad is None
    for x, y in t.loader:
        t.backward(x, y)
        t.optimizer.step()
        t.optimizer.zero_grad()
    assert t.session.next_step == STEPS
    t.session.close()


DAMAGED = {
    "none": lambda state: None,
    "a list": lambda state: [state],
    "no layout": lambda state: {"cursor": state["cursor"]},
    "no cursor": lambda state: {"layout": state["layout"]},
    "no hex": lambda state: {**state, "cursor": "zz"},
    "bytes": lambda state: {**state, "cursor": bytes.fromhex(state["cursor"])},
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_state(t, damage):
    state = t.optimizer.state_dict()
    backward(t, next(iter(t.rounds)))
    with pytest.raises(errors.InvalidArgument, match=r"state\b.*; allowed: "):
        t.optimizer.load_state_dict({**state, "rustle": damage(state["rustle"])})
    assert all(p.grad is not None for p in t.net.parameters())
    t.optimizer.step()
    assert t.session.next_step == 1


def test_a_state_of_other_groups_opens_no_branch(t):
    state = copy.deepcopy(t.optimizer.state_dict())
    first_steps(t, 1)
    state["param_groups"][0]["params"].append(99)
    with pytest.raises(errors.LayoutMismatch, match=r"groups of \[5\] parameters; allowed: \[4\]"):
        t.optimizer.load_state_dict(state)
    assert (t.session.next_step, t.session.branch) == (1, 0)
