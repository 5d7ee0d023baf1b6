"""Optimizers of other kinds: subclasses, fused ones, those that lose a parameter, and those that have noise already."""

import numpy as np
import pytest
from misuse import SIZE, STEPS, EngineTraining, Training, weights

torch = pytest.importorskip("torch")

import rustle
import rustle.torch
from rustle import errors

# Whose class has hooks from now on, as that of any optimizer that was made once.
torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)


class Edited(torch.optim.SGD):
    """Gradients of weights without their mean, as some optimizers take."""

    is_broken = False

    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            if p.ndim > 1:
                p.grad.sub_(p.grad.mean(1, keepdim=True))
        if self.is_broken:
            raise RuntimeError("broken")
        return super().step(closure)


def attached(t, kind, **arguments):
    t.attachment.detach()
    t.optimizer = kind(t.net.parameters(), lr=0.1, **arguments)
    t.attachment = rustle.torch.attach(t.optimizer, t.session, t.net, divide_by=SIZE)
    return t


@pytest.mark.filterwarnings("ignore:nothing checks")
@pytest.mark.parametrize("rounds", [True, False])
def test_a_step_within_a_step_has_its_noise_once(tmp_path, rounds):
    t = attached(Training(tmp_path / "run", rounds=rounds), Edited)
    for step, ids in enumerate(t.rounds if rounds else [range(SIZE)] * STEPS):
        before = weights(t.net)
        t.step(ids)
        grads = np.concatenate([p.grad.numpy().reshape(-1) for p in t.net.parameters()])
        assert t.session.next_step == step + 1
        assert np.allclose(before - weights(t.net), 0.1 * grads, atol=1e-6) and t.net[0].weight.grad.mean(1).abs().max() < 1e-5
    t.session.close()


def test_a_step_after_one_that_raised_has_noise(tmp_path):
    """No step passes for one within another that is over."""
    t = attached(Training(tmp_path / "run"), Edited)
    t.optimizer.is_broken = True
    with pytest.raises(RuntimeError, match="broken"):
        t.step(next(iter(t.rounds)))
    t.optimizer.is_broken = False
    assert t.session.next_step == 1
    t.step(next(iter(t.rounds)))
    assert t.session.next_step == 2
    t.session.close()


def test_a_backward_pass_within_a_step_is_refused(tmp_path):
    class Twice(torch.optim.SGD):
        def step(self, closure=None):
            self.zero_grad()
            (0.01 * t.loss(t.net, t.x, t.y)).backward()
            return super().step()

    t = attached(Training(tmp_path / "run"), Twice)
    before = weights(t.net)
    with pytest.raises(errors.StaleGradients, match="ran a backward pass"):
        t.step(next(iter(t.rounds)))
    assert np.array_equal(weights(t.net), before)
    t.session.close()


def test_a_step_within_a_step_under_the_engine(tmp_path, monkeypatch):
    pytest.importorskip("opacus")
    monkeypatch.setattr(torch.optim, "SGD", Edited)
    t = EngineTraining(tmp_path / "run")
    for x, y in t.loader:
        t.step(x, y)
    assert type(t.optimizer.original_optimizer) is Edited and t.session.next_step == STEPS
    t.session.close()


@pytest.mark.parametrize("kind, arguments", [("Adam", {"fused": True}), ("SGD", {"fused": True}), ("Adam", {"foreach": True})])
def test_fused_steps_move_parameters(tmp_path, recwarn, kind, arguments):
    """PyTorch's fused steps write values without a new version of the tensor."""
    t = attached(Training(tmp_path / "run"), getattr(torch.optim, kind), **arguments)
    for ids in t.rounds:
        t.step(ids)
    assert not [warning for warning in recwarn if issubclass(warning.category, errors.Unchecked)]
    t.session.close()


@pytest.mark.parametrize("arguments", [{"fused": True}, {}])
def test_a_warm_up_from_zero(tmp_path, recwarn, arguments):
    t = attached(Training(tmp_path / "run"), torch.optim.SGD, **arguments)
    t.optimizer.param_groups[0]["lr"] = 0.0
    for at, ids in enumerate(t.rounds):
        t.step(ids)
        t.optimizer.param_groups[0]["lr"] = 0.1 * at
    assert not [warning for warning in recwarn if issubclass(warning.category, errors.Unchecked)]
    t.session.close()


def dropped(t, optimizer):
    optimizer.param_groups[0]["params"].pop()
    return t.session.next_step


def test_a_parameter_that_the_optimizer_lost(tmp_path):
    t = Training(tmp_path / "run")
    t.step(next(iter(t.rounds)))
    dropped(t, t.optimizer)
    before = weights(t.net)
    with pytest.raises(errors.LayoutMismatch, match="does not hold parameter '2.bias' any more"):
        t.step(next(iter(t.rounds)))
    assert t.session.next_step == 1 and np.array_equal(weights(t.net), before)
    t.session.close()


def test_a_parameter_that_the_engines_optimizer_lost(tmp_path):
    pytest.importorskip("opacus")
    t = EngineTraining(tmp_path / "run")
    x, y = next(iter(t.loader))
    dropped(t, t.optimizer.original_optimizer)
    before = weights(t.net)
    with pytest.raises(errors.LayoutMismatch, match="does not hold parameter '2.bias' any more"):
        t.step(x, y)
    assert t.session.next_step == 0 and np.array_equal(weights(t.net), before)
    t.session.close()


@pytest.mark.parametrize("is_wrapped", [False, True])
def test_an_optimizer_has_noise_of_one_session(tmp_path, is_wrapped):
    """Each of its steps would use a row and then raise."""
    t, other = Training(tmp_path / "run"), Training(tmp_path / "other")
    other.attachment.detach()
    optimizer = t.optimizer
    if is_wrapped:
        t.attachment.detach()
        optimizer = rustle.torch.Optimizer(t.optimizer, t.session, t.net, divide_by=SIZE)
        t.attachment = optimizer.attachment
    with pytest.raises(errors.SessionBusy, match="has noise already"):
        rustle.torch.attach(optimizer, other.session, t.net, divide_by=SIZE)
    t.step(next(iter(t.rounds)))
    assert t.session.next_step == 1
    # The session that was refused is free, and so is the optimizer after it was detached.
    t.attachment.detach()
    rustle.torch.attach(t.optimizer, other.session, t.net, divide_by=SIZE)
    for one in (t, other):
        one.session.close()
