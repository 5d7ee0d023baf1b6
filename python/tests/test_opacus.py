"""Opacus: the engine's noise is the plan's, once a logical batch."""

import json
import math

import numpy as np
import pytest
from conftest import prepared

torch = pytest.importorskip("torch")
pytest.importorskip("opacus")

from opacus.utils.batch_memory_manager import BatchMemoryManager

import rustle
import rustle.opacus
from rustle import errors, schemes

RECORDS, PER_EPOCH, STEPS = 60, 4, 12
SEED = bytes(32)


def setting(workers=0):
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    data = torch.utils.data.TensorDataset(torch.randn(RECORDS, 5), torch.randint(0, 2, (RECORDS,)))
    loader = torch.utils.data.DataLoader(data, batch_size=15, num_workers=workers)
    return net, torch.optim.SGD(net.parameters(), lr=1.0), loader


def batches(scheme=None):
    return rustle.Batches(scheme or schemes.fixed_order(PER_EPOCH), RECORDS, STEPS, SEED)


@pytest.fixture
def plan():
    found = rustle.plan(
        float=True,
        iterations=STEPS, epsilon=6, delta=1e-5, min_sep=4, max_participations=3, mechanism="band-mf", size=4
    )
    return found.replace(dimension=sum(p.numel() for p in setting()[0].parameters()), clip_norm=0.7)


def private(folder, workers=0, **arguments):
    net, optimizer, loader = setting(workers)
    engine = rustle.opacus.PrivacyEngine()
    made = engine.make_private(
        module=net,
        optimizer=optimizer,
        data_loader=loader,
        plan=folder / "plan.toml",
        **{"batches": batches(), **arguments},
    )
    return engine, *made


def test_adding_and_removing_needs_a_public_divisor(tmp_path, plan):
    scheme = schemes.balls_in_bins(PER_EPOCH)
    engine = private(prepared(tmp_path / "data", plan), batches=batches(scheme))[0]
    for ask in (engine.accountant.get_epsilon, engine.accountant.planned_epsilon):
        with pytest.raises(errors.AccountingError, match="divide_by"):
            ask(1e-5, neighbouring="add-remove")
    with pytest.raises(errors.AccountingError, match="divide_by"):
        engine.session.report(delta=1e-5, neighbouring="add-remove")
    engine.session.close()

    engine, net, optimizer, loader = private(
        prepared(tmp_path / "public", plan), batches=batches(scheme), divide_by=16
    )
    assert engine.accountant.planned_epsilon(1e-5, neighbouring="add-remove") == pytest.approx(6, rel=1e-6)
    assert optimizer.expected_batch_size == 16
    engine.session.close()

    # A fixed order, and a loader of one's own, depend on how many records there are.
    for number, given in enumerate(({"batches": batches()}, {"batches": None})):
        engine = private(prepared(tmp_path / f"order{number}", plan), divide_by=16, **given)[0]
        with pytest.raises(errors.AccountingError, match="how many records"):
            engine.accountant.planned_epsilon(1e-5, neighbouring="add-remove")
        engine.session.close()


def step(net, optimizer, data, labels):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(data), labels).backward()
    optimizer.step()


def weights(net):
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


def test_the_gradient_is_the_clipped_sum_plus_the_row(tmp_path, plan):
    with rustle.connect(f"inproc://{prepared(tmp_path / 'noise', plan)}") as session:
        rows = np.empty((2, session.dimension), np.float32)
        for at in range(2):
            session.fetch_into(at, rows[at])
    engine, net, optimizer, loader = private(prepared(tmp_path / "run", plan))
    for at, (data, labels) in zip(range(2), loader):
        step(net, optimizer, data, labels)
        sums = torch.cat([p.summed_grad.reshape(-1) for p in net.parameters()])
        grads = torch.cat([p.grad.reshape(-1) for p in net.parameters()])
        assert torch.equal(grads, (sums + torch.from_numpy(rows[at])) / 15)
        assert sums.norm() <= 0.7 * 15
    assert len(engine.accountant) == engine.session.next_step == 2
    engine.session.close()


def test_a_logical_batch_is_one_step(tmp_path, plan):
    ends = []
    for name, most in [("small", 4), ("whole", 100)]:
        engine, net, optimizer, loader = private(prepared(tmp_path / name, plan))
        with BatchMemoryManager(
            data_loader=loader, max_physical_batch_size=most, optimizer=optimizer
        ) as physical:
            count = 0
            for data, labels in physical:
                step(net, optimizer, data, labels)
                count += 1
        assert count == (4 * STEPS if most == 4 else STEPS) and engine.session.next_step == STEPS
        ends.append(weights(net))
        engine.session.close()
    assert torch.allclose(ends[0], ends[1], atol=1e-5)


def test_epsilon_is_the_plans(tmp_path, plan):
    engine, net, optimizer, loader = private(prepared(tmp_path / "run", plan))
    assert engine.get_epsilon(1e-5) == 0.0
    found = []
    for data, labels in loader:
        step(net, optimizer, data, labels)
        found.append(engine.get_epsilon(1e-5))
    assert found == sorted(found) and found[-1] == pytest.approx(6, rel=1e-6)
    assert engine.accountant.planned_epsilon(1e-5) == pytest.approx(6, rel=1e-6)
    engine.session.close()


def test_poisson_batches_have_their_own_account(tmp_path):
    plan = rustle.plan(
        float=True,
        iterations=STEPS, epsilon=20, delta=1e-5, min_sep=1, max_participations=STEPS, mechanism="identity"
    )
    plan = plan.replace(dimension=sum(p.numel() for p in setting()[0].parameters()))
    drawn = batches(schemes.poisson(0.02))
    engine, net, optimizer, loader = private(prepared(tmp_path / "run", plan), batches=drawn)
    sizes = []
    for data, labels in loader:
        sizes.append(len(data))
        step(net, optimizer, data, labels)
    assert sizes == [len(ids) for ids in drawn] and 0 in sizes
    assert optimizer.expected_batch_size == pytest.approx(0.02 * RECORDS)
    assert engine.get_epsilon(1e-5) < 0.5 * plan.privacy(1e-5)["epsilon"]
    engine.session.close()


def test_checkpoints_of_the_engine_resume_the_noise(tmp_path, plan):
    folder = prepared(tmp_path / "run", plan)
    engine, net, optimizer, loader = private(folder)
    steps = iter(loader)
    for _ in range(5):
        step(net, optimizer, *next(steps))
    engine.save_checkpoint(path=tmp_path / "saved.pt", module=net, optimizer=optimizer)
    before = engine.get_epsilon(1e-5)
    step(net, optimizer, *next(steps))
    engine.session.close()
    engine, net, optimizer, loader = private(folder)
    engine.load_checkpoint(path=tmp_path / "saved.pt", module=net, optimizer=optimizer)
    inputs = loader.dataset.tensors[0]
    assert torch.equal(next(iter(loader))[0], inputs[batches()[5]])
    assert (engine.session.next_step, engine.session.branch, len(engine.accountant)) == (5, 1, 5)
    report = json.loads(engine.session.report(format="json", delta=1e-5))
    assert report["guarantees"][0]["epsilon"] > 6 and engine.get_epsilon(1e-5) > before
    engine.session.close()


def test_a_loop_that_was_broken_off_goes_on_with_its_row(tmp_path, plan):
    engine, net, optimizer, loader = private(prepared(tmp_path / "run", plan))
    for at, (data, labels) in enumerate(loader):
        step(net, optimizer, data, labels)
        if at == 2:
            break
    inputs = loader.dataset.tensors[0]
    assert torch.equal(next(iter(loader))[0], inputs[batches()[3]]) and engine.session.next_step == 3
    # A batch that is left out takes its row with it.
    engine.attachment.skip()
    assert torch.equal(next(iter(loader))[0], inputs[batches()[4]])
    engine.session.close()


def test_a_logical_batch_that_was_broken_off_counts_once(tmp_path, plan):
    engine, net, optimizer, loader = private(prepared(tmp_path / "run", plan))
    managed = lambda: BatchMemoryManager(data_loader=loader, max_physical_batch_size=4, optimizer=optimizer)
    with managed() as physical:
        step(net, optimizer, *next(iter(physical)))
    with managed() as physical, pytest.raises(errors.StepError, match="within a logical batch"):
        next(iter(physical))
    engine.attachment.skip()
    assert engine.session.next_step == 1
    with managed() as physical:
        for data, labels in physical:
            step(net, optimizer, data, labels)
            if engine.session.next_step == 2:
                break
    sums = torch.cat([p.summed_grad.reshape(-1) for p in net.parameters()])
    assert sums.norm() <= 0.7 * 15
    engine.session.close()


@pytest.mark.parametrize("workers", [0, 2])
def test_two_batches_never_have_one_row(tmp_path, plan, workers):
    engine, net, optimizer, loader = private(prepared(tmp_path / "run", plan), workers)
    found = iter(loader)
    # In parts by hand: one step.
    data, labels = next(found)
    for part, put_off in ((slice(None, 7), True), (slice(7, None), False)):
        optimizer.signal_skip_step(put_off)
        step(net, optimizer, data[part], labels[part])
    assert engine.session.next_step == 1
    whole = next(found)
    optimizer.signal_skip_step(True)
    step(net, optimizer, *whole)
    with pytest.raises(errors.StepError, match="met no noise"):
        next(found)
    engine.attachment.skip()
    assert engine.session.next_step == 2
    assert torch.equal(next(iter(loader))[0], loader.dataset.tensors[0][batches()[2]])
    engine.session.close()


@pytest.mark.parametrize("bands", [8, 1])
def test_more_groups_than_bands_have_no_amplified_account(tmp_path, bands):
    rounds = 40
    plan = rustle.plan(
        float=True,
        iterations=rounds, epsilon=20, delta=1e-5, min_sep=1, max_participations=rounds, mechanism="identity"
    )
    plan = plan.replace(dimension=sum(p.numel() for p in setting()[0].parameters()))
    drawn = rustle.Batches(schemes.cyclic_poisson(bands, 0.02), RECORDS, rounds, SEED)
    engine, net, optimizer, loader = private(prepared(tmp_path / "run", plan), batches=drawn)
    for data, labels in loader:
        step(net, optimizer, data, labels)
    # What ran: each record in a group of its own, which is sampled in every eighth round at eight times the rate.
    ran = {"kind": "poisson-sampled-gaussian", "noise_multiplier": plan.noise_multiplier}
    ran |= {"sampling_probability": 0.02 * bands}
    true = rustle.epsilon({"kind": "self-composed", "count": math.ceil(rounds / bands), "event": ran}, delta=1e-5)
    found = engine.get_epsilon(1e-5)
    assert found >= true * (1 - 1e-6)
    if bands == 1:
        assert found == pytest.approx(true, rel=0.01)
    engine.session.close()


def test_what_has_no_noise_is_not_stepped(tmp_path, plan):
    net, optimizer, loader = setting()
    other = torch.nn.Parameter(torch.zeros(3))
    folder = prepared(tmp_path / "run", plan)
    engine = rustle.opacus.PrivacyEngine()
    net, optimizer, loader = engine.make_private(
        module=net, optimizer=optimizer, data_loader=loader, plan=folder / "plan.toml", batches=batches()
    )
    data, labels = next(iter(loader))
    torch.nn.functional.cross_entropy(net(data), labels).backward()
    optimizer.original_optimizer.add_param_group({"params": [other.requires_grad_(False)]})
    other.grad = torch.ones(3)
    before = weights(net)
    with pytest.raises(errors.LayoutMismatch, match="no noise"):
        optimizer.step()
    assert torch.equal(weights(net), before) and not other.any() and engine.session.next_step == 0
    other.grad = None
    optimizer.step()
    assert engine.session.next_step == 1
    engine.session.close()


@pytest.mark.parametrize(
    "arguments, kind",
    [
        (dict(noise_multiplier=1.0), errors.InvalidArgument),
        (dict(max_grad_norm=1.0), errors.InvalidArgument),
        (dict(poisson_sampling=True), errors.InvalidArgument),
        (dict(clipping="per_layer"), errors.InvalidArgument),
        (dict(batches=batches(schemes.fixed_order(3))), errors.InvalidArgument),
        (dict(batches=batches(schemes.poisson(0.1))), errors.InvalidArgument),
        (
            dict(batches=rustle.Batches(schemes.fixed_order(4), RECORDS, STEPS - 1, SEED)),
            errors.InvalidArgument,
        ),
        (
            dict(batches=rustle.Batches(schemes.fixed_order(4), RECORDS + 1, STEPS, SEED)),
            errors.InvalidArgument,
        ),
    ],
)
def test_what_would_break_the_account_is_refused(tmp_path, plan, arguments, kind):
    with pytest.raises(kind):
        private(prepared(tmp_path / "run", plan), **arguments)


class Records(torch.utils.data.Sampler):
    """Some order of the caller's."""

    def __init__(self, data):
        self.data = data

    def __iter__(self):
        return iter([0] * len(self.data))

    def __len__(self):
        return len(self.data)


def loader(kind, size=15):
    data, of = setting()[2].dataset, torch.utils.data
    sampler = {
        "in order": lambda: of.SequentialSampler(data),
        "shuffled": lambda: of.RandomSampler(data),
        "replaced": lambda: of.RandomSampler(data, replacement=True),
        "repeated": lambda: of.RandomSampler(data, num_samples=2 * RECORDS),
        "weighted": lambda: of.WeightedRandomSampler([1.0] * RECORDS, RECORDS),
        "subset": lambda: of.SubsetRandomSampler([*range(30), *range(30)]),
        "distributed": lambda: of.DistributedSampler(data, num_replicas=1, rank=0),
        "own": lambda: Records(data),
    }
    if kind == "own batches":
        return of.DataLoader(data, batch_sampler=[[0, 1], [0, 2], [0, 3], [0, 4]])
    if kind == "unbatched":
        return of.DataLoader(data, batch_size=None)
    return of.DataLoader(data, batch_size=size, sampler=sampler[kind]())


@pytest.mark.parametrize(
    "kind, size, participation, refused",
    [
        ("in order", 15, (4, 3), None),
        ("in order", 15, (4, 2), "max_participations"),
        ("in order", 15, (1, 2), "max_participations"),
        ("in order", 15, (5, 3), "min_sep"),
        ("in order", 5, (1, 1), None),
        ("in order", 15, (1, 1), "max_participations"),
        ("shuffled", 15, (4, 3), "shuffles"),
        ("shuffled", 15, (1, 3), None),
        ("shuffled", 15, (1, 2), "max_participations"),
        ("shuffled", 5, (12, 1), None),
        *((kind, 5, (12, 1), "twice") for kind in ("replaced", "repeated")),
        *((kind, 5, (1, 12), "twice") for kind in ("replaced", "repeated")),
        *(
            (kind, 5, participation, "order")
            for kind in ("weighted", "subset", "distributed", "own", "own batches", "unbatched")
            for participation in ((4, 3), (1, 12), (12, 1))
        ),
    ],
)
def test_a_loader_that_may_break_the_participation_is_refused(tmp_path, plan, kind, size, participation, refused):
    min_sep, most = participation
    found = rustle.plan(
        float=True,
        iterations=STEPS, epsilon=6, delta=1e-5, min_sep=min_sep, max_participations=most, mechanism="identity"
    )
    folder = prepared(tmp_path / "run", found.replace(dimension=plan.dimension))
    net, optimizer, _ = setting()
    engine = rustle.opacus.PrivacyEngine()
    given = dict(module=net, optimizer=optimizer, data_loader=loader(kind, size), plan=folder / "plan.toml")
    if refused is None:
        engine.make_private(**given)
        engine.session.close()
        return
    with pytest.raises(errors.InvalidArgument, match=f"{refused}.*pass batches="):
        engine.make_private(**given)
    assert engine.session is None


def other_order(net):
    return dict(batches=batches(schemes.poisson(0.1)))


def other_optimizer(net):
    return dict(optimizer=torch.optim.SGD(torch.nn.Linear(5, 2).parameters(), lr=1.0))


def other_reduction(net):
    return dict(loss_reduction="median")


def other_plan(net):
    return dict(steps_per_epoch=2, batches=None)


@pytest.mark.parametrize("url", [False, True])
@pytest.mark.parametrize("wrong", [other_order, other_optimizer, other_reduction, other_plan])
def test_a_call_that_was_refused_leaves_the_folder_free(tmp_path, plan, wrong, url):
    folder, engine = prepared(tmp_path / "run", plan), rustle.opacus.PrivacyEngine()

    def made(**changes):
        net, optimizer, loader = setting()
        given = dict(module=net, optimizer=optimizer, data_loader=loader, plan=folder / "plan.toml", batches=batches())
        if url:
            given["noise"] = f"inproc://{folder}"
        return engine.make_private(**{**given, **changes})

    # Opacus's own refusals are of its own types.
    with pytest.raises((errors.InvalidArgument, ValueError, AssertionError)):
        made(**wrong(None))
    assert engine.session is engine.attachment is engine.accountant.session is None
    net, optimizer, loader = made()
    step(net, optimizer, *next(iter(loader)))
    assert engine.session.next_step == 1
    # What works is not disturbed by a refused call.
    with pytest.raises(errors.Locked, match="this process has a session"):
        made()
    step(net, optimizer, *next(iter(loader)))
    assert engine.session.next_step == 2 == engine.accountant.session.next_step
    engine.session.close()


def test_a_session_that_was_given_stays_open_and_is_free(tmp_path, plan):
    net, optimizer, loader = setting()
    engine = rustle.opacus.PrivacyEngine()
    with rustle.connect(f"inproc://{prepared(tmp_path / 'run', plan)}") as session:
        given = dict(module=net, data_loader=loader, plan=plan, noise=session, batches=batches())
        with pytest.raises(ValueError, match="optimizer"):
            engine.make_private(**given, optimizer=torch.optim.SGD(torch.nn.Linear(5, 2).parameters(), lr=1.0))
        assert not session.closed and engine.session is None
        net, optimizer, loader = setting()
        net, optimizer, loader = engine.make_private(**{**given, "module": net}, optimizer=optimizer)
        step(net, optimizer, *next(iter(loader)))
        assert session.next_step == 1
