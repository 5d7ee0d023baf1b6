"""PyTorch: noise once a step, at the right coordinates, at the right scale."""

import copy

import numpy as np
import pytest
from conftest import prepared

torch = pytest.importorskip("torch")

import rustle
import rustle.torch
from rustle import errors, schemes

STEPS = 12


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Tanh(), torch.nn.Linear(30, 3))


@pytest.fixture
def plan():
    found = rustle.plan(
        float=True,
        iterations=STEPS, epsilon=8, delta=1e-5, min_sep=4, max_participations=3, mechanism="band-mf", size=4
    )
    return found.replace(parameters=[(name, list(shape)) for name, shape in rustle.torch.layout(model())])


def noise(tmp_path, plan, steps, name="noise"):
    """The rows that a session of its own gives, flat."""
    with rustle.connect(f"inproc://{prepared(tmp_path / name, plan)}") as session:
        rows = np.empty((steps, session.dimension), np.float32)
        for step in range(steps):
            session.fetch_into(step, rows[step])
        return torch.from_numpy(rows)


def flat(tensors):
    return torch.cat([tensor.detach().reshape(-1) for tensor in tensors])


def gradients(net, step):
    for parameter in net.parameters():
        parameter.grad = torch.full_like(parameter, 0.1 * (step + 1))


def test_each_step_adds_its_row(tmp_path, plan):
    rows = noise(tmp_path, plan, 3)
    net = model()
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        rustle.torch.attach(optimizer, session, net, divide_by=5.0)
        for step in range(3):
            before = flat(net.parameters())
            gradients(net, step)
            optimizer.step()
            sums = flat(p.grad for p in net.parameters())
            assert torch.equal(sums, torch.full_like(sums, 0.1 * (step + 1)) + rows[step] / 5)
            assert torch.equal(flat(net.parameters()), before - sums)


def test_a_parameter_without_gradient_has_noise(tmp_path, plan):
    net = model()
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        rustle.torch.attach(optimizer, session, net)
        optimizer.step()
        assert torch.equal(flat(p.grad for p in net.parameters()), noise(tmp_path, plan, 1)[0])


def test_names_place_noise_whatever_wraps_the_model(tmp_path, plan):
    rows = noise(tmp_path, plan, 1)
    net = model()
    wrapped = torch.nn.Module()
    wrapped.module = net
    named = dict(wrapped.named_parameters())
    turned = [(name, named[name]) for name in reversed(named)]
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        rustle.torch.attach(optimizer, session, turned)
        gradients(net, -1)
        optimizer.step()
        assert torch.equal(flat(p.grad for p in net.parameters()), rows[0])


def test_half_precision_sums_are_rounded_once(tmp_path, plan):
    rows = noise(tmp_path, plan, 1)
    net = model().to(torch.bfloat16)
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        rustle.torch.attach(optimizer, session, net)
        gradients(net, 0)
        sums = flat(p.grad for p in net.parameters())
        optimizer.step()
        assert torch.equal(
            flat(p.grad for p in net.parameters()), (sums.float() + rows[0]).to(torch.bfloat16)
        )


def test_scaled_gradients(tmp_path, plan):
    rows = noise(tmp_path, plan, 3)
    net = model()
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        attachment = rustle.torch.attach(optimizer, session, net)
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        scaler.scale(sum(p.sum() for p in net.parameters())).backward()
        scaler.step(optimizer)
        scaler.update()
        assert torch.equal(flat(p.grad for p in net.parameters()), 1 + rows[0])
        # Gradients that overflowed are no step, and take no row.
        for parameter in net.parameters():
            parameter.grad = torch.full_like(parameter, float("inf"))
        scaler.step(optimizer)
        assert session.next_step == 1
        # Left out with its row: the batch after it has its own.
        before = flat(net.parameters())
        with pytest.raises(errors.InvalidArgument, match="skip"):
            optimizer.step()
        attachment.skip()
        assert attachment.next_step == session.next_step == 2
        assert torch.equal(flat(net.parameters()), before)
        gradients(net, -1)
        optimizer.step()
        assert torch.equal(flat(p.grad for p in net.parameters()), rows[2])


@pytest.mark.parametrize("wrapped", [False, True])
def test_scaled_gradients_of_a_fused_optimizer(tmp_path, plan, wrapped):
    rows = noise(tmp_path, plan, 1)
    net = model()
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        inner = torch.optim.SGD(net.parameters(), lr=1.0, fused=True)
        if wrapped:
            optimizer = rustle.torch.Optimizer(inner, session, net)
            attachment = optimizer.attachment
        else:
            optimizer, attachment = inner, rustle.torch.attach(inner, session, net)
        before = flat(net.parameters())
        scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
        scaler.scale(sum(p.sum() for p in net.parameters())).backward()
        scaler.step(optimizer)
        scaler.update()
        assert session.next_step == 1
        assert torch.allclose(flat(net.parameters()), before - (1 + rows[0]), atol=1e-6)
        assert getattr(optimizer, "grad_scale", None) is None
        attachment.detach()
        # As it was, for steps without noise.
        assert inner._step_supports_amp_scaling


@pytest.mark.parametrize("wrong", [dict(records=0), dict(divide_by=0), dict(divide_by=-1.0), dict(commitment="none")])
def test_arguments_are_checked_before_the_session_is_claimed(tmp_path, plan, wrong):
    net = model()
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        with pytest.raises(errors.InvalidArgument, match="allowed"):
            rustle.torch.attach(optimizer, session, net, **wrong)
        rustle.torch.attach(optimizer, session, net)


def test_a_step_left_out_comes_again_alike(tmp_path, plan):
    net = model()
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        attachment = rustle.torch.attach(optimizer, session, net, commitment="exact")
        start = attachment.state_dict()
        for _ in range(2):
            for step in range(3):
                gradients(net, step)
                attachment.skip() if step == 1 else optimizer.step()
            attachment.load_state_dict(start)
            assert (session.next_step, session.branch) == (0, 0)
        gradients(net, 0)
        optimizer.step()
        # A row that was left out is for no sum.
        gradients(net, 1)
        with pytest.raises(errors.CommitmentRefused):
            optimizer.step()


def unfrozen(net, optimizer):
    net[2].weight.requires_grad_()
    net[2].weight.grad = torch.ones_like(net[2].weight)


def added(net, optimizer):
    other = torch.nn.Linear(2, 2)
    optimizer.add_param_group({"params": other.parameters()})
    other.bias.grad = torch.ones(2)


def frozen_with_gradient(net, optimizer):
    net[2].weight.grad = torch.ones_like(net[2].weight)


@pytest.mark.parametrize("change", [unfrozen, added, frozen_with_gradient])
def test_what_has_no_noise_is_not_stepped(tmp_path, plan, change):
    net = model()
    net[2].weight.requires_grad_(False)
    named = [(name, list(shape)) for name, shape in rustle.torch.layout(net)]
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan.replace(parameters=named))}") as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        rustle.torch.attach(optimizer, session, net)
        for parameter in net.parameters():
            parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
        optimizer.step()
        for parameter in net.parameters():
            parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
        before, grads = flat(net.parameters()), flat(p.grad for p in net.parameters() if p.grad is not None)
        change(net, optimizer)
        with pytest.raises(errors.LayoutMismatch, match="no noise"):
            optimizer.step()
        assert torch.equal(flat(net.parameters()), before) and session.next_step == 1
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                if not any(parameter is p for p in net.parameters()) or parameter is net[2].weight:
                    parameter.grad = None
        assert torch.equal(flat(p.grad for p in net.parameters() if p.grad is not None), grads)
        optimizer.step()
        assert session.next_step == 2


class Scaled(torch.nn.Module):
    """A parameter without axes, between others."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Parameter(torch.zeros(3))
        self.scale = torch.nn.Parameter(torch.zeros(()))
        self.last = torch.nn.Parameter(torch.zeros(2, 2))


@pytest.mark.parametrize("in_place", [True, False])
def test_a_parameter_without_axes(tmp_path, plan, monkeypatch, in_place):
    if not in_place:
        monkeypatch.setattr(rustle.torch._tensors, "in_place", lambda sums: None)
    net = Scaled()
    plan = plan.replace(parameters=[(name, list(shape)) for name, shape in rustle.torch.layout(net)])
    row = noise(tmp_path, plan, 1)[0]
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        rustle.torch.attach(optimizer, session, net)
        gradients(net, -1)
        optimizer.step()
        assert torch.equal(flat(p.grad for p in net.parameters()), row)


def test_a_step_that_fails_changes_nothing(tmp_path, plan):
    net = model()
    session = rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}")
    optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
    attachment = rustle.torch.attach(optimizer, session, net)
    gradients(net, 0)
    before, grads = flat(net.parameters()), flat(p.grad for p in net.parameters())

    def refused(kind, **arguments):
        with pytest.raises(kind):
            optimizer.step(**arguments)
        assert torch.equal(flat(net.parameters()), before)
        assert torch.equal(flat(p.grad for p in net.parameters()), grads)

    next(net.parameters()).grad[0, 0] = float("nan")
    with pytest.raises(errors.InvalidArgument, match="not finite"):
        optimizer.step()
    next(net.parameters()).grad[0, 0] = grads[0]
    assert session.next_step == 0
    session.fetch_into(0, np.empty(session.dimension, np.float32))
    session.fetch_into(1, np.empty(session.dimension, np.float32))
    refused(errors.StepError)
    session.close()
    refused(errors.SessionClosed)
    attachment.detach()
    optimizer.step()


def test_one_trainer_a_session_and_one_layout(tmp_path, plan):
    net = model()
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        other = torch.nn.Linear(20, 30)
        with pytest.raises(errors.LayoutMismatch, match="plan"):
            rustle.torch.attach(torch.optim.SGD(other.parameters()), session, other)
        with pytest.raises(errors.LayoutMismatch):
            rustle.torch.attach(torch.optim.SGD(other.parameters()), session, net)
        first = rustle.torch.attach(optimizer, session, net)
        with pytest.raises(errors.SessionBusy):
            rustle.torch.attach(optimizer, session, net)
        first.detach()
        rustle.torch.attach(optimizer, session, net)


def test_the_state_carries_the_cursor_and_saving_changes_nothing(tmp_path, plan):
    folder = prepared(tmp_path / "run", plan)
    net = model()
    with rustle.connect(f"inproc://{folder}") as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        rustle.torch.attach(optimizer, session, net)
        for step in range(2):
            gradients(net, step)
            optimizer.step()
        state = optimizer.state_dict()
        assert optimizer.state_dict()["rustle"] == state["rustle"] and session.next_step == 2
        saved = (copy.deepcopy(net.state_dict()), copy.deepcopy(state))
        torch.save(state, tmp_path / "state.pt")
        torch.load(tmp_path / "state.pt", weights_only=True)
        gradients(net, 2)
        optimizer.step()
    with rustle.connect(f"inproc://{folder}") as session:
        again = model()
        again.load_state_dict(saved[0])
        optimizer = torch.optim.SGD(again.parameters(), lr=0.1, momentum=0.9)
        attachment = rustle.torch.attach(optimizer, session, again)
        gradients(again, 2)
        with pytest.raises(errors.NotResumed):
            optimizer.step()
        with pytest.raises(errors.NotResumed):
            optimizer.load_state_dict(torch.optim.SGD(model().parameters(), lr=0.1).state_dict())
        with pytest.raises(errors.LayoutMismatch):
            attachment.load_state_dict({**saved[1]["rustle"], "layout": "00"})
        optimizer.load_state_dict(saved[1])
        assert (session.next_step, session.branch) == (2, 1)
        gradients(again, 2)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        with attachment.paused():
            optimizer.step()
        assert session.next_step == 3
    # Row 2 is fresh noise on the new branch.
    assert not torch.equal(flat(net.parameters()), flat(again.parameters()))


def test_batches_in_a_loader():
    data = torch.utils.data.TensorDataset(torch.arange(40))
    batches = rustle.Batches(schemes.fixed_order(4), 40, 8, bytes(32))
    sampler = rustle.torch.BatchSampler(batches)
    loader = torch.utils.data.DataLoader(data, batch_sampler=sampler)
    assert len(loader) == 8
    assert [batch.tolist() for (batch,) in loader] == [ids.tolist() for ids in batches]
    sampler.start = 6
    assert [batch.tolist() for (batch,) in loader] == [batches[6].tolist(), batches[7].tolist()]


def test_a_loader_begins_where_the_session_is():
    batches = rustle.Batches(schemes.fixed_order(4), 40, 8, bytes(32))
    place = 0
    sampler = rustle.torch.BatchSampler(batches, lambda: place)
    for at, ids in enumerate(sampler):
        assert ids == batches[at].tolist()
        if at == 2:
            break
    place = 3
    assert next(iter(sampler)) == batches[3].tolist() and len(sampler) == 5


def test_ranks_share_a_batch():
    batches = rustle.Batches(schemes.poisson(0.05), 40, 30, bytes(32))
    shares = [list(rustle.torch.BatchSampler(batches, rank=rank, ranks=3)) for rank in range(3)]
    assert [] in shares[2]
    for at, parts in enumerate(zip(*shares, strict=True)):
        assert sorted(sum(parts, [])) == batches[at].tolist()
    for rank in (-1, 3):
        with pytest.raises(errors.InvalidArgument, match="0 to 2|0 or more"):
            rustle.torch.BatchSampler(batches, rank=rank, ranks=3)


def test_noise_is_added_alike_in_place_and_by_way_of_a_row(tmp_path, plan, monkeypatch):
    found = []
    for at, in_place in enumerate((rustle.torch._tensors.in_place, lambda sums: None)):
        monkeypatch.setattr(rustle.torch._tensors, "in_place", in_place)
        with rustle.connect(f"inproc://{prepared(tmp_path / str(at), plan)}") as session:
            net = model()
            optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
            attachment = rustle.torch.attach(optimizer, session, net, divide_by=3.0)
            for step in range(STEPS):
                attachment.reserve(steps=4 * at + 1)
                gradients(net, step)
                optimizer.step()
            found.append(flat(net.parameters()))
    assert torch.equal(*found)


def test_a_step_that_is_refused_leaves_every_gradient(tmp_path, plan):
    net = model()
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        rustle.torch.attach(optimizer, session, net)
        gradients(net, 0)
        # Bound to something else, and then given out by something else.
        session.reserve(commitment=rustle.Commitment.declared("x"))
        with pytest.raises(errors.CommitmentRefused):
            optimizer.step()
        session.fetch_into(0, np.empty(session.dimension, np.float32), commitment=rustle.Commitment.declared("x"))
        with pytest.raises(errors.StepError, match="gradients may hold it"):
            optimizer.step()
        assert all(torch.all(p.grad == 0.1) for p in net.parameters())


def test_reserved_steps_have_the_same_noise(tmp_path, plan):
    rows = noise(tmp_path, plan, STEPS)
    net = model()
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
        attachment = rustle.torch.attach(optimizer, session, net)
        for step in range(6):
            attachment.reserve()
            assert session.next_step == step
            optimizer.zero_grad()
            optimizer.step()
            assert torch.equal(flat(p.grad for p in net.parameters()), rows[step])
        # On another branch, which the announcement must follow.
        session.restart(5)
        attachment.reserve()
        optimizer.zero_grad()
        optimizer.step()
        assert not torch.equal(flat(p.grad for p in net.parameters()), rows[5])
        attachment.detach()
        exact = rustle.torch.attach(optimizer, session, net, commitment="exact")
        with pytest.raises(errors.InvalidArgument, match="exact"):
            exact.announce()


def test_the_norm_of_parts_is_that_of_the_whole(monkeypatch):
    """Four ranks of a mesh of two by two: one parameter in halves, each on two ranks, and one that all have."""
    from types import SimpleNamespace

    from rustle.torch import _tensors

    seen = []
    monkeypatch.setattr(_tensors.dist, "all_reduce", lambda value, group: seen.append(value.item()))
    placements = [SimpleNamespace(is_shard=lambda: False), SimpleNamespace(is_shard=lambda: True)]
    mesh = SimpleNamespace(shape=(2, 2))
    cut = SimpleNamespace(placements=placements, device_mesh=mesh, to_local=None)
    halves, whole = torch.tensor([[3.0, 1.0], [2.0, 5.0]]), torch.tensor([4.0, 6.0, 1.0])
    for rank in range(4):
        sums = {"cut": halves[rank % 2], "whole": whole}
        _tensors.whole_norm(sums, {"cut": cut, "whole": whole}, None, 4)
    assert sum(seen) == pytest.approx(float(halves.square().sum() + whole.square().sum()))
