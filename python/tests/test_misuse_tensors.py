"""Parameters and gradients that the plan's coordinates do not fit: refused before the row, with the model as it was."""

import numpy as np
import pytest
from misuse import SIZE, EngineTraining, Training, weights

torch = pytest.importorskip("torch")

import rustle
import rustle.torch
from rustle import errors


def grown(net, axis):
    """A first layer with three outputs more, or a last one with three inputs more."""
    at = {0: 0, 1: 2}[axis]
    parameter = net[at].weight
    length = list(parameter.shape)
    length[axis] = 3
    parameter.data = torch.cat([parameter.data, torch.zeros(length)], axis)


def shrunk(net):
    net[0].weight.data = net[0].weight.data[:2].clone()


CHANGES = [lambda net: grown(net, 0), lambda net: grown(net, 1), shrunk]


def filled(net, value=1e-3):
    for p in net.parameters():
        p.grad = torch.full_like(p, value)


@pytest.mark.parametrize("change", CHANGES, ids=["rows", "columns", "shrunk"])
@pytest.mark.parametrize("is_in_place", [True, False])
def test_a_parameter_of_another_shape(tmp_path, change, is_in_place, monkeypatch):
    """Rows that were added would have the next layer's noise, which two coordinates then share."""
    t = Training(tmp_path / "run")
    if not is_in_place:
        monkeypatch.setattr(rustle.torch._tensors, "in_place", lambda sums: None)
    t.step(next(iter(t.rounds)))
    change(t.net)
    before = weights(t.net)
    next(iter(t.rounds))
    filled(t.net)
    with pytest.raises(errors.LayoutMismatch, match="weight' has shape .* now; allowed"):
        t.optimizer.step()
    assert t.session.next_step == 1 and np.array_equal(weights(t.net), before)
    assert all((p.grad == 1e-3).all() for p in t.net.parameters())
    t.session.close()


def test_a_gradient_of_another_shape(tmp_path):
    """An axis of length 1 that grew after the backward pass would have one value of noise for all of it."""
    t = Training(tmp_path / "run")
    next(iter(t.rounds))
    filled(t.net)
    sums = {name: p.grad for name, p in t.net.named_parameters()}
    noise = t.attachment.noise
    for longer in (sums["0.weight"].repeat(2, 1), sums["0.weight"].reshape(-1)):
        for add in (noise.add_all, noise.row):
            with pytest.raises(errors.LayoutMismatch, match=r"gradient of '0.weight' has shape .* allowed: \(4, 5\)"):
                add({**sums, "0.weight": longer}, 1.0)
    assert t.session.next_step == 0
    t.session.close()


@pytest.mark.parametrize("change", CHANGES, ids=["rows", "columns", "shrunk"])
def test_opacus(tmp_path, change):
    pytest.importorskip("opacus")
    t = EngineTraining(tmp_path / "run")
    for at, (x, y) in enumerate(t.loader):
        if at:
            break
        t.step(x, y)
    change(t.net._module)
    before = weights(t.net)
    t.optimizer.zero_grad()
    for p in t.net.parameters():
        p.grad_sample = torch.zeros(SIZE, *p.shape)
    with pytest.raises(errors.LayoutMismatch, match="weight' has shape .* now; allowed"):
        t.optimizer.step()
    assert t.session.next_step == 1 and np.array_equal(weights(t.net), before)
    t.session.close()


def test_pieces_that_overlap_have_no_noise(tmp_path):
    t = Training(tmp_path / "run", rounds=False)
    commitment = rustle.Commitment.declared("x")
    whole = np.zeros(t.session.dimension, np.float32)
    with pytest.raises(errors.BufferRefused, match="arrays apart"):
        t.session.add_to([(3, whole[3:]), (0, whole[:4].copy())], 0, (0, len(whole)), commitment, 1.0)
    assert t.session.next_step == 0 and not whole.any()
    t.session.add_to([(3, whole[3:]), (0, whole[:3])], 0, (0, len(whole)), commitment, 1.0)
    assert t.session.next_step == 1 and whole.all()
    t.session.close()


NO_VALUES = [
    (lambda p: torch.zeros_like(p).to_sparse(), "sparse=False"),
    (lambda p: torch.zeros(1).expand(p.shape), "contiguous"),
]


@pytest.mark.parametrize("made, word", NO_VALUES, ids=["sparse", "expanded"])
def test_a_gradient_without_memory_for_each_value(tmp_path, made, word):
    t = Training(tmp_path / "run")
    next(iter(t.rounds))
    before = weights(t.net)
    filled(t.net)
    t.net[0].weight.grad = made(t.net[0].weight)
    with pytest.raises(errors.InvalidArgument, match=f"'0.weight' .*{word}"):
        t.optimizer.step()
    assert t.session.next_step == 0 and np.array_equal(weights(t.net), before)
    t.session.close()


def test_a_model_on_the_meta_device(tmp_path):
    t = Training(tmp_path / "run")
    t.attachment.detach()
    net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3)).to("meta")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    rustle.torch.attach(optimizer, t.session, net, divide_by=SIZE)
    next(iter(t.rounds))
    with pytest.raises(errors.InvalidArgument, match="'0.weight' is on the meta device"):
        optimizer.step()
    assert t.session.next_step == 0
    t.session.close()


def test_a_data_set_whose_records_have_no_numbers(tmp_path):
    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(60))

    t = Training(tmp_path / "run")
    with pytest.raises(errors.InvalidArgument, match="dataset is a Stream.*__len__"):
        rustle.torch.DataLoader(Stream(), t.rounds)
    t.session.close()


def test_a_data_set_of_the_engine_whose_records_have_no_numbers(tmp_path, monkeypatch):
    pytest.importorskip("opacus")

    class Stream(torch.utils.data.IterableDataset):
        def __init__(self, *tensors):
            pass

        def __iter__(self):
            return iter(range(60))

    monkeypatch.setattr(torch.utils.data, "TensorDataset", Stream)
    with pytest.raises(errors.InvalidArgument, match="dataset is a Stream.*__len__"):
        EngineTraining(tmp_path / "run")
