"""Loops around the Opacus engine that would break a plan's promise: each is refused, and what is right beside it works."""

import copy

import pytest
from misuse import OTHER_SEED, PER_EPOCH, SIZE, STEPS, EngineTraining, batches, planned

torch = pytest.importorskip("torch")
pytest.importorskip("opacus")

from opacus.schedulers import ExponentialGradClip, ExponentialNoise
from opacus.utils.batch_memory_manager import BatchMemoryManager

import rustle
import rustle.opacus
from rustle import errors


def managed(t, most=4):
    return BatchMemoryManager(data_loader=t.loader, max_physical_batch_size=most, optimizer=t.optimizer)


def accumulated_batches(t):
    for at, (x, y) in enumerate(t.loader):
        t.backward(x, y)
        if at % 4 == 3:
            t.optimizer.step()
            t.optimizer.zero_grad()


def two_backward_passes(t):
    x, y = next(iter(t.loader))
    t.backward(x, y)
    t.backward(x, y)
    t.optimizer.step()


def loader_as_it_was(t):
    for x, y in t.given:
        t.step(x, y)


def shuffled_loader_of_a_framework(t):
    for x, y in torch.utils.data.DataLoader(t.data, batch_size=SIZE, shuffle=True):
        t.step(x, y)


def another_loader_later(t):
    t.step(*next(iter(t.loader)))
    loader_as_it_was(t)


def batch_too_large(t):
    next(iter(t.loader))
    t.step(*(one.repeat(10, *([1] * (one.dim() - 1))) for one in next(iter(t.loader))))


def records_added_by_hand(t):
    x, y = next(iter(t.loader))
    t.step(torch.cat([x, x[:1]]), torch.cat([y, y[:1]]))


def bad_batch_left_by_continue(t):
    for at, (x, y) in enumerate(t.loader):
        if at == 2:
            continue
        t.step(x, y)


def bad_part_left_by_continue(t):
    with managed(t) as loader:
        for at, (x, y) in enumerate(loader):
            if at == 9:
                continue
            t.step(x, y)


def bad_batch_stepped(t):
    x, y = next(iter(t.loader))
    t.step(x * float("nan"), y)


def clip_norm_changed(t):
    t.step(*next(iter(t.loader)))
    t.optimizer.max_grad_norm = 10.0
    t.step(*next(iter(t.loader)))


def noise_multiplier_changed(t):
    t.step(*next(iter(t.loader)))
    t.optimizer.noise_multiplier /= 2
    t.step(*next(iter(t.loader)))


def clip_norm_scheduled(t):
    scheduler = ExponentialGradClip(t.optimizer, gamma=1.5)
    for x, y in t.loader:
        t.step(x, y)
        scheduler.step()


def noise_scheduled(t):
    scheduler = ExponentialNoise(t.optimizer, gamma=0.9)
    for x, y in t.loader:
        t.step(x, y)
        scheduler.step()


def optimizer_within(t):
    t.backward(*next(iter(t.loader)))
    t.optimizer.original_optimizer.step()


def optimizer_within_once_more(t):
    t.step(*next(iter(t.loader)))
    t.optimizer.original_optimizer.step()


def new_optimizer(t):
    t.backward(*next(iter(t.loader)))
    torch.optim.Adam(t.net.parameters()).step()


def stepped_twice(t):
    t.step(*next(iter(t.loader)))
    t.optimizer.step()


def without_zero_grad(t):
    for x, y in t.loader:
        t.backward(x, y)
        t.optimizer.step()


def deep_copy(t):
    copy.deepcopy(t.optimizer)


MISUSES = [
    (accumulated_batches, errors.StepError, "met no noise", 0),
    (two_backward_passes, ValueError, "grad accumulation", 0),
    (loader_as_it_was, errors.StepError, "another loader", 0),
    (shuffled_loader_of_a_framework, errors.StepError, "another loader", 0),
    (another_loader_later, errors.StepError, "another loader", 1),
    (batch_too_large, errors.StepError, "150 records", 0),
    (records_added_by_hand, errors.StepError, "16 records", 0),
    (bad_batch_left_by_continue, errors.StepError, "met no noise", 2),
    (bad_part_left_by_continue, errors.StepError, "left out", 2),
    (bad_batch_stepped, errors.InvalidArgument, "not finite", 0),
    (clip_norm_changed, errors.InvalidArgument, "max_grad_norm", 1),
    (noise_multiplier_changed, errors.InvalidArgument, "noise_multiplier", 1),
    (clip_norm_scheduled, errors.InvalidArgument, "max_grad_norm", 1),
    (noise_scheduled, errors.InvalidArgument, "noise_multiplier", 1),
    (optimizer_within, errors.StepError, "by itself", 0),
    (optimizer_within_once_more, errors.StepError, "by itself", 1),
    (new_optimizer, errors.LayoutMismatch, "another optimizer", 0),
    (stepped_twice, (ValueError, errors.StepError), "step|processed", 1),
    (without_zero_grad, (ValueError, errors.StepError), "step|processed", 1),
    (deep_copy, errors.InvalidArgument, "copied", 0),
]


@pytest.mark.parametrize("misuse, kind, match, rows", MISUSES, ids=[row[0].__name__ for row in MISUSES])
def test_misuse_is_refused_before_a_row_is_used(tmp_path, misuse, kind, match, rows):
    t = EngineTraining(tmp_path / "run")
    with pytest.raises(kind, match=match):
        misuse(t)
    assert t.session.next_step == rows
    t.session.close()


# Opacus's criterion sets gradients to zero by itself, so that a second backward pass replaces the first.
GHOST = [
    loader_as_it_was,
    accumulated_batches,
    batch_too_large,
    records_added_by_hand,
    clip_norm_changed,
    stepped_twice,
]


@pytest.mark.parametrize("misuse", GHOST, ids=[misuse.__name__ for misuse in GHOST])
def test_misuse_is_refused_with_ghost_clipping(tmp_path, misuse):
    kind, match, rows = next(row[1:] for row in MISUSES if row[0] is misuse)
    t = EngineTraining(tmp_path / "run", grad_sample_mode="ghost", criterion=torch.nn.CrossEntropyLoss())
    with pytest.raises(kind, match=match):
        misuse(t)
    assert t.session.next_step == rows
    t.session.close()


@pytest.mark.parametrize("misuse", [bad_batch_left_by_continue, bad_part_left_by_continue, accumulated_batches])
def test_misuse_is_refused_where_processes_load_ahead(tmp_path, misuse):
    t = EngineTraining(tmp_path / "run", workers=2)
    kind, match, rows = next(row[1:] for row in MISUSES if row[0] is misuse)
    with pytest.raises(kind, match=match):
        misuse(t)
    assert t.session.next_step == rows
    t.session.close()


def as_planned(t):
    for x, y in t.loader:
        t.step(x, y)


def in_parts(t):
    with managed(t) as loader:
        for x, y in loader:
            t.step(x, y)


def a_part_of_a_batch(t):
    for x, y in t.loader:
        t.step(x[:7], y[:7])


def a_batch_left_out(t):
    for at, (x, y) in enumerate(t.loader):
        if at == 3:
            t.engine.attachment.skip()
            continue
        t.step(x, y)


def a_loop_left_early(t):
    for at, (x, y) in enumerate(t.loader):
        if at == 3:
            break
        t.step(x, y)
    as_planned(t)


RIGHT = [as_planned, in_parts, a_part_of_a_batch, a_batch_left_out, a_loop_left_early]


@pytest.mark.parametrize("ghost", [False, True])
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("use", RIGHT, ids=[use.__name__ for use in RIGHT])
def test_right_use_works_to_the_end(tmp_path, use, workers, ghost):
    choice = dict(grad_sample_mode="ghost", criterion=torch.nn.CrossEntropyLoss()) if ghost else {}
    t = EngineTraining(tmp_path / "run", workers=workers, **choice)
    use(t)
    assert t.session.next_step == STEPS and t.session.branch == 0
    t.session.close()


def test_batch_normalisation_is_refused(tmp_path):
    """By Opacus, before there is a session."""
    from opacus.validators.errors import UnsupportedModuleError

    net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.BatchNorm1d(4))
    engine, data = rustle.opacus.PrivacyEngine(), torch.utils.data.TensorDataset(torch.randn(60, 5))
    with pytest.raises(UnsupportedModuleError, match="BatchNorm"):
        engine.make_private(
            module=net,
            optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
            data_loader=torch.utils.data.DataLoader(data, batch_size=SIZE),
            plan=planned(tmp_path / "run", dimension=32) / "plan.toml",
            batches=batches(),
        )


def test_epochs_of_a_program_that_has_them(tmp_path):
    t = EngineTraining(tmp_path / "run", steps_per_epoch=PER_EPOCH)
    seen = []
    for epoch in range(3):
        assert len(t.loader) == PER_EPOCH
        for x, y in t.loader:
            t.step(x, y)
        seen.append(t.session.next_step)
    assert seen == [4, 8, 12] and list(t.loader) == []
    t.session.close()


@pytest.mark.parametrize("whole", [False, True])
def test_an_epoch_in_order_goes_on_where_it_stopped(tmp_path, whole):
    t = EngineTraining(tmp_path / "run", own_order=True)
    inputs = t.data.tensors[0]
    for stop in (PER_EPOCH if whole else 2, PER_EPOCH, PER_EPOCH, PER_EPOCH):
        for at, (x, y) in enumerate(t.loader):
            place = t.session.next_step % PER_EPOCH
            assert torch.equal(x, inputs[SIZE * place : SIZE * (place + 1)])
            t.step(x, y)
            if at + 1 == stop:
                break
    assert t.session.next_step == STEPS
    t.session.close()


def test_resuming_with_another_seed_is_refused(tmp_path):
    t = EngineTraining(tmp_path / "run")
    for _, (x, y) in zip(range(5), t.loader):
        t.step(x, y)
    t.engine.save_checkpoint(path=tmp_path / "saved.pt", module=t.net, optimizer=t.optimizer)
    t.session.close()
    again = EngineTraining(tmp_path / "run", seed=OTHER_SEED)
    with pytest.raises(errors.BatchesChanged, match="seed"):
        again.engine.load_checkpoint(path=tmp_path / "saved.pt", module=again.net, optimizer=again.optimizer)
    again.session.close()
    again = EngineTraining(tmp_path / "run")
    again.engine.load_checkpoint(path=tmp_path / "saved.pt", module=again.net, optimizer=again.optimizer)
    inputs = again.data.tensors[0]
    assert torch.equal(next(iter(again.loader))[0], inputs[batches()[5]])
    as_planned(again)
    assert again.session.next_step == STEPS and again.session.branch == 0
    again.session.close()


def test_the_loader_keeps_the_settings_of_the_given_one(tmp_path):
    from rustle.torch._loader import like

    t = EngineTraining(tmp_path / "run")
    settings = dict(num_workers=2, prefetch_factor=4, persistent_workers=True, timeout=7.0)
    given = torch.utils.data.DataLoader(t.data, multiprocessing_context="spawn", **settings)
    made = like(given, t.loader.batch_sampler.guard)
    assert {name: getattr(made, name) for name in settings} == settings
    assert made.multiprocessing_context.get_start_method() == "spawn"
    t.session.close()
