"""Hugging Face's accelerate: what Accelerator.prepare does to an optimizer with noise and to a checked loader."""

import pytest
from misuse import PER_EPOCH, RECORDS, SIZE, STEPS, Training

torch = pytest.importorskip("torch")
accelerate = pytest.importorskip("accelerate")

import rustle
import rustle.torch
from rustle import errors


@pytest.fixture(autouse=True)
def new_state():
    """Accelerators of one process share their state, which says whether gradients are accumulated."""
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


def accelerator():
    return accelerate.Accelerator(cpu=True)


def test_prepared_objects_train_with_checked_batches(tmp_path):
    t = Training(tmp_path / "run")
    loader = rustle.torch.DataLoader(t.data, t.rounds)
    made = accelerator()
    net, optimizer, prepared = made.prepare(t.net, t.optimizer, loader)
    assert prepared is loader
    for x, y in prepared:
        optimizer.zero_grad()
        rustle.torch.clipped_sum(net, t.loss, x, y, clip_norm=t.session.plan.clip_norm, divide_by=SIZE)
        optimizer.step()
    assert t.session.next_step == STEPS and t.session.branch == 0
    t.session.close()


def test_saved_states_resume(tmp_path):
    def steps(made, t, loader, count):
        for _, (x, y) in zip(range(count), loader):
            t.optimizer.zero_grad()
            rustle.torch.clipped_sum(t.net, t.loss, x, y, clip_norm=t.session.plan.clip_norm, divide_by=SIZE)
            t.optimizer.step()

    for at, count in enumerate((PER_EPOCH, STEPS - PER_EPOCH)):
        t, made = Training(tmp_path / "run"), accelerator()
        loader = made.prepare(t.net, t.optimizer, rustle.torch.DataLoader(t.data, t.rounds))[2]
        if at:
            made.load_state(tmp_path / "state")
        steps(made, t, loader, count)
        made.save_state(tmp_path / "state")
        assert (t.session.next_step, t.session.branch) == ((PER_EPOCH, STEPS)[at], 0)
        t.session.close()


def test_accumulated_batches_are_refused(tmp_path):
    t = Training(tmp_path / "run")
    made = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    net, optimizer, loader = made.prepare(t.net, t.optimizer, rustle.torch.DataLoader(t.data, t.rounds))
    with pytest.raises(errors.StepError, match="met no noise"):
        for x, y in loader:
            with made.accumulate(net):
                made.backward(0.01 * t.loss(net, x, y))
                optimizer.step()
                optimizer.zero_grad()
    assert t.session.next_step == 0
    t.session.close()


def test_its_own_loader_is_refused(tmp_path):
    t = Training(tmp_path / "run")
    net, optimizer, loader = accelerator().prepare(t.net, t.optimizer, t.loader(shuffle=True))
    x, y = next(iter(loader))
    rustle.torch.clipped_sum(net, t.loss, x, y, clip_norm=t.session.plan.clip_norm, divide_by=SIZE)
    with pytest.raises(errors.StepError, match="another loader"):
        optimizer.step()
    t.session.close()


def test_noise_is_attached_before_prepare(tmp_path):
    t = Training(tmp_path / "run")
    t.attachment.detach()
    optimizer = accelerator().prepare(t.optimizer)
    with pytest.raises(errors.InvalidArgument, match="before Accelerator.prepare"):
        rustle.torch.attach(optimizer, t.session, t.net)
    with pytest.raises(errors.InvalidArgument, match="optimizer is builtins.object; allowed: a torch.optim.Optimizer"):
        rustle.torch.attach(object(), t.session, t.net)
    # The session is free for another one.
    rustle.torch.attach(t.optimizer, t.session, t.net, records=RECORDS)
    t.session.close()
