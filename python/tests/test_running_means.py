"""Layers that keep means of the records: refused in training mode, whenever they came; other buffers that change are named."""

import numpy as np
import pytest
from misuse import SIZE, EngineTraining, Training, weights

torch = pytest.importorskip("torch")

import rustle.torch
from rustle import errors


class Means(torch.nn.Module):
    """Adds what it keeps of the records by hand: in place, or by a new tensor."""

    def __init__(self, way):
        super().__init__()
        self.way = way
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        if self.training and self.way == "in place":
            self.mean.mul_(0.9).add_(0.1 * x.detach().mean(0))
        elif self.training and self.way == "assigned":
            self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        self.calls += 1
        return x


class Instances(torch.nn.InstanceNorm1d):
    def forward(self, x):
        return super().forward(x[..., None].expand(-1, -1, 2)).mean(-1)


def backward(t, ids):
    t.optimizer.zero_grad()
    (0.01 * t.loss(t.net, t.x[ids], t.y[ids])).backward()


LAYERS = {
    "batch": (lambda: torch.nn.BatchNorm1d(4, affine=False), "mixes examples"),
    "instances": (lambda: Instances(4, track_running_stats=True), "keeps means"),
}


@pytest.mark.parametrize("made, word", LAYERS.values(), ids=LAYERS)
def test_a_layer_that_was_added_later(tmp_path, made, word):
    t = Training(tmp_path / "run")
    t.step(next(iter(t.rounds)))
    t.net.insert(1, made())
    backward(t, next(iter(t.rounds)))
    before = weights(t.net)
    with pytest.raises(errors.MixesExamples, match=f"layer '1' is .* {word}"):
        t.optimizer.step()
    assert t.session.next_step == 1 and np.array_equal(weights(t.net), before)
    t.net[1].eval()
    t.optimizer.step()
    assert t.session.next_step == 2
    t.session.close()


def test_instances_in_clipped_sums(tmp_path):
    t = Training(tmp_path / "run")
    t.net.insert(1, Instances(4))
    t.step(next(iter(t.rounds)))
    t.net[1] = Instances(4, track_running_stats=True)
    with pytest.raises(errors.MixesExamples, match="Instances.*keeps means"):
        t.step(next(iter(t.rounds)))
    assert t.session.next_step == 1
    t.session.close()


@pytest.mark.parametrize("made, word", LAYERS.values(), ids=LAYERS)
def test_opacus(tmp_path, made, word):
    pytest.importorskip("opacus")
    t = EngineTraining(tmp_path / "run")
    t.step(*next(iter(t.loader)))
    t.net._module.insert(1, made())
    before = weights(t.net)
    with pytest.raises(errors.MixesExamples, match=f"{word}"):
        t.step(*next(iter(t.loader)))
    assert t.session.next_step == 1 and np.array_equal(weights(t.net), before)
    t.session.close()


@pytest.mark.parametrize("way", ["in place", "assigned"])
def test_buffers_that_change_are_named(tmp_path, way):
    t = Training(tmp_path / "run")
    t.net.insert(1, Means(way))
    rounds = iter(t.rounds)
    backward(t, next(rounds))
    t.optimizer.step()
    backward(t, next(rounds))
    with pytest.warns(errors.Unchecked, match="buffer '1.mean' .*without noise"):
        t.optimizer.step()
    t.session.close()


@pytest.mark.parametrize("is_trained", [True, False])
def test_buffers_that_say_nothing_of_records(tmp_path, recwarn, is_trained):
    """Counts, what is in evaluation mode, and what follows from the weights."""
    t = Training(tmp_path / "run")
    t.net.insert(1, Means("in place").train(False) if not is_trained else Means("none"))
    for ids in t.rounds:
        backward(t, ids)
        t.optimizer.step()
    assert not [warning for warning in recwarn if issubclass(warning.category, errors.Unchecked)]
    t.session.close()


def test_spectral_norms(tmp_path, recwarn):
    t = Training(tmp_path / "run")
    t.attachment.detach()
    t.net[1] = torch.nn.utils.parametrizations.spectral_norm(torch.nn.Linear(4, 4))
    t.net[1].requires_grad_(False)
    rustle.torch.attach(t.optimizer, t.session, t.net, divide_by=SIZE)
    for ids in t.rounds:
        backward(t, ids)
        t.optimizer.step()
    assert not [warning for warning in recwarn if issubclass(warning.category, errors.Unchecked)]
    t.session.close()
