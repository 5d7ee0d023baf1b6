"""Clipped sums in PyTorch: what floating point may add to a contribution, in long vectors and under autocast."""

import math

import numpy as np
import pytest
from conftest import prepared
from misuse import Training, weights

torch = pytest.importorskip("torch")

import rustle
import rustle.torch
from rustle import errors
from rustle.torch import _sums


def largest_contribution(values, clip_norm):
    """The norm of one clipped contribution, by a model whose gradient is ``values``."""
    net = torch.nn.Linear(len(values), 1, bias=False)
    rustle.torch.clipped_sum(net, lambda call, x: call(x).sum(), values[None], clip_norm=clip_norm)
    return math.sqrt(net.weight.grad.double().square().sum().item())


@pytest.mark.parametrize("dimension", [10**6, 2**23])
def test_a_long_contribution_is_not_longer_than_the_clip_norm(dimension):
    """Squares that are added in float32 one after the other lose 7e-3 of the norm at 2^23."""
    values = torch.full((dimension,), 0.1)
    found = largest_contribution(values, 1.0)
    assert 1 - 8 * 2**-24 < found <= 1 + 8 * 2**-24


def test_the_scale_of_a_contribution_is_rounded_down():
    torch.manual_seed(2)
    for clip_norm in torch.rand(200).tolist():
        scale = torch.tensor([clip_norm / 3], dtype=torch.float64)
        rounded = _sums.rounded_down(scale, torch.float32)
        assert rounded.dtype == torch.float32
        assert scale * (1 - 2**-23) <= rounded.double() <= scale
    one = torch.ones(1, dtype=torch.float64)
    assert _sums.rounded_down(one, torch.float32) == 1 and _sums.rounded_down(one, torch.float64) == 1


def test_autocast_leaves_the_clipped_sum_in_float32():
    """A product in bfloat16 rounds the sum to 8 bits, and a sum within it loses contributions."""
    torch.manual_seed(3)
    net = torch.nn.Linear(6, 1, bias=False)
    # The gradients are the examples, which bfloat16 holds.
    x = torch.randn(40, 6).to(torch.bfloat16).float()
    with torch.autocast("cpu", torch.bfloat16):
        rustle.torch.clipped_sum(net, lambda call, x: call(x).sum(), x, clip_norm=0.3)
    wide = x.double()
    expected = (wide * (0.3 / wide.norm(dim=1).clamp(min=0.3))[:, None]).sum(0)
    found = net.weight.grad
    assert found.dtype == torch.float32
    assert (found.double() - expected).abs().max() < 40 * 40 * 0.3 * 2**-24


class AutocastSeen(torch.overrides.TorchFunctionMode):
    """Notes which operations run under autocast, and how many run in all."""

    def __init__(self):
        super().__init__()
        self.under, self.count = [], 0

    def __torch_function__(self, operation, types, args=(), kwargs=None):
        self.count += 1
        # An attribute that is read computes nothing.
        if torch.is_autocast_enabled("cpu") and operation.__name__ != "__get__":
            self.under.append(operation.__name__)
        return operation(*args, **(kwargs or {}))


def test_no_operation_of_a_sum_runs_under_autocast():
    """Which of them autocast takes in fewer bits differs among devices and versions of PyTorch: none is left to it."""
    gradients = {"a": torch.randn(7, 3, 2), "b": torch.randn(7)}
    alone = _sums.summed(gradients, 0.5)
    with torch.autocast("cpu", torch.bfloat16), AutocastSeen() as seen:
        found = _sums.summed(gradients, 0.5)
        # The guard ends with the sum.
        torch.ones(2)
    assert seen.count > 10 and seen.under == ["ones"]
    assert found.keys() == alone.keys() and all(torch.equal(found[name], alone[name]) for name in alone)


def test_parameters_without_an_axis_are_clipped_too():
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor(2.0))

        def forward(self, x):
            return self.scale * x

    net = Scaled()
    rustle.torch.clipped_sum(net, lambda call, x: call(x).sum(), torch.tensor([[0.5], [3.0], [-4.0]]), clip_norm=1.0)
    assert net.scale.grad.item() == pytest.approx(0.5, rel=1e-6)


def cross_entropy(call, x, y):
    return torch.nn.functional.cross_entropy(call(x), y)


class Assigned(torch.nn.Module):
    """A buffer that each call sets anew."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(5, 3)
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x):
        found = self.layer(x)
        self.mean = 0.9 * self.mean + 0.1 * found.mean(0).detach()
        return found


def test_a_buffer_that_a_module_sets_stays_as_it_was():
    net, x, y = Assigned(), torch.randn(9, 5), torch.arange(9) % 3
    before = net.mean
    for microbatch in (None, 4):
        rustle.torch.clipped_sum(net, cross_entropy, x, y, clip_norm=1.0, microbatch=microbatch)
    assert net.mean is before and not before.any()
    net.load_state_dict(net.state_dict())
    assert net.layer.weight.grad.any()


def test_a_loss_of_another_module_than_its_argument():
    net, x, y = torch.nn.Linear(5, 3), torch.randn(9, 5), torch.arange(9) % 3
    with pytest.raises(errors.InvalidArgument, match="did not call the module"):
        rustle.torch.clipped_sum(net, lambda model, x, y: cross_entropy(net, x, y), x, y, clip_norm=1.0)
    assert net.weight.grad is None


def test_a_model_of_which_nothing_is_trained():
    net = torch.nn.Linear(5, 3).requires_grad_(False)
    with pytest.raises(errors.InvalidArgument, match="no parameter .* requires a gradient"):
        rustle.torch.clipped_sum(net, cross_entropy, torch.randn(9, 5), torch.arange(9) % 3, clip_norm=1.0)


def test_a_backward_pass_on_top_of_a_clipped_sum(tmp_path):
    t = Training(tmp_path / "run")
    ids = next(iter(t.rounds))
    before = weights(t.net)
    for left in (False, True):
        # Zeros are no sum that clipped_sum made any more, and clipping once more is no backward pass.
        t.gradients(ids)
        if left:
            t.optimizer.zero_grad(set_to_none=False)
        (0.01 * t.loss(t.net, t.x[ids], t.y[ids])).backward()
        if not left:
            with pytest.raises(errors.SumTooLarge, match="which clipped_sum made, what nothing clipped"):
                t.optimizer.step()
            assert np.array_equal(weights(t.net), before) and t.session.next_step == 0
    t.optimizer.step()
    assert t.session.next_step == 1
    t.session.close()


@pytest.mark.filterwarnings("ignore:nothing checks")
def test_records_of_a_clipped_sum_are_compared_without_rounds(tmp_path):
    t = Training(tmp_path / "run", rounds=False, records=5)
    with pytest.raises(errors.StepError, match="of 15 records; allowed: 5"):
        t.step(range(15))
    assert t.session.next_step == 0
    t.step(range(5))
    t.session.close()


@pytest.mark.filterwarnings("ignore:nothing checks")
def test_records_of_a_clipped_sum_are_those_of_the_plans_grid(tmp_path):
    net = torch.nn.Linear(5, 3)
    plan = rustle.plan(
        iterations=4,
        min_sep=4,
        max_participations=1,
        epsilon=6,
        delta=1e-5,
        mechanism="identity",
        parameters=rustle.torch.layout(net),
        batch_size=15,
        norm_dtype="float64",
    )
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        rustle.torch.attach(optimizer, session, net, divide_by=15)
        for count, rows in ((1200, 0), (15, 1)):
            x, y = torch.randn(count, 5), torch.arange(count) % 3
            rustle.torch.clipped_sum(net, cross_entropy, x, y, clip_norm=plan.clip_norm, divide_by=15)
            if rows:
                optimizer.step()
            else:
                with pytest.raises(errors.InvalidArgument, match="has 1200 contributions"):
                    optimizer.step()
            assert session.next_step == rows
