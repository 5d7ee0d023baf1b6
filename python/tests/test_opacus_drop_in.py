"""Opacus's own arguments: the engine makes plan and batches itself."""

import json
import os

import pytest

torch = pytest.importorskip("torch")
opacus = pytest.importorskip("opacus")

import rustle
import rustle.opacus
from rustle import errors

RECORDS, SIZE, EPOCHS = 60, 15, 3
PER_EPOCH = RECORDS // SIZE


def setting():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
    data = torch.utils.data.TensorDataset(torch.randn(RECORDS, 5), torch.randint(0, 3, (RECORDS,)))
    loader = torch.utils.data.DataLoader(data, batch_size=SIZE, shuffle=True)
    return dict(module=net, optimizer=torch.optim.SGD(net.parameters(), lr=0.1), data_loader=loader)


def train(net, optimizer, loader, epochs=EPOCHS):
    seen = []
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            optimizer.step()
            seen.append(len(x))
    return seen


ASKED = dict(target_epsilon=4.0, target_delta=1e-5, epochs=EPOCHS, max_grad_norm=0.8)


@pytest.mark.parametrize("poisson", [False, True])
def test_make_private_with_epsilon_spends_what_was_asked_for(tmp_path, poisson):
    engine = rustle.opacus.PrivacyEngine()
    made = engine.make_private_with_epsilon(**setting(), **ASKED, folder=tmp_path / "run", poisson_sampling=poisson)
    net, optimizer, loader = made
    assert len(loader) == PER_EPOCH and optimizer.max_grad_norm == 0.8
    seen = train(net, optimizer, loader)
    assert engine.session.next_step == len(seen) == EPOCHS * PER_EPOCH == engine.session.iterations
    assert (set(seen) == {SIZE}) is not poisson
    epsilon = engine.get_epsilon(1e-5)
    assert 3.99 < epsilon <= 4.0 * (1 + 1e-9)
    assert engine.session.plan.mechanism == "identity" or not poisson
    engine.session.close()


def test_poisson_noise_is_that_of_opacus(tmp_path):
    """Opacus's own account, Rényi divergences alone, asks for no less noise; within some per cent it is the same."""
    rounds, q = EPOCHS * PER_EPOCH, 1 / PER_EPOCH
    engine = rustle.opacus.PrivacyEngine()
    made = engine.make_private_with_epsilon(**setting(), **ASKED, folder=tmp_path / "run", poisson_sampling=True)
    ours = made[1].noise_multiplier
    engine.session.close()
    from opacus.accountants.utils import get_noise_multiplier

    theirs = [
        get_noise_multiplier(target_epsilon=4.0, target_delta=1e-5, sample_rate=q, steps=rounds, accountant=kind)
        for kind in ("rdp", "prv")
    ]
    assert ours <= theirs[0] and ours == pytest.approx(theirs[1], rel=0.02)


@pytest.mark.parametrize("mechanism, size", [(None, None), ("identity", None), ("band-mf", 4), ("blt", None)])
def test_noise_multiplier_costs_what_independent_noise_does(tmp_path, mechanism, size):
    arguments = dict(noise_multiplier=1.3, max_grad_norm=0.8, epochs=EPOCHS, mechanism=mechanism, size=size)
    engine = rustle.opacus.PrivacyEngine()
    net, optimizer, loader = engine.make_private(**setting(), **arguments, folder=tmp_path / "run")
    plan = engine.session.plan
    # Independent noise, each record in three sums: ρ = k/(2σ²), and on a grid never more.
    most = EPOCHS / (2 * 1.3**2)
    assert plan.grid is not None and (1 - 1e-6) * most < plan.privacy(1e-5)["rho"] <= most * (1 + 1e-14)
    if mechanism == "identity":
        # What κ of 15 records adds to the clip norm, and no more.
        assert 1.3 < optimizer.noise_multiplier < 1.3 * (1 + 4e-5)
    else:
        identity = rustle.plan(
            float=True,
            iterations=12, epsilon=1, delta=1e-5, min_sep=4, epochs=3, mechanism="identity", dimension=1
        ).replace(noise_multiplier=1.3)
        assert plan.errors()["rms"] < identity.errors()["rms"]
    train(net, optimizer, loader)
    engine.session.close()


def test_poisson_with_a_noise_multiplier_is_dp_sgd(tmp_path):
    engine = rustle.opacus.PrivacyEngine()
    arguments = dict(noise_multiplier=1.3, max_grad_norm=1.0, epochs=EPOCHS, poisson_sampling=True)
    net, optimizer, loader = engine.make_private(**setting(), **arguments, folder=tmp_path / "run")
    train(net, optimizer, loader)
    event = {"kind": "poisson-sampled-gaussian", "noise_multiplier": 1.3, "sampling_probability": 1 / PER_EPOCH}
    true = rustle.epsilon({"kind": "self-composed", "count": 12, "event": event}, delta=1e-5)
    assert true * (1 - 1e-6) < engine.get_epsilon(1e-5) <= true * (1 + 1e-9)
    # κ of at most 50 records.
    assert 1.3 < optimizer.noise_multiplier < 1.3 * (1 + 4e-4)
    engine.session.close()


def test_the_run_goes_on_in_its_folder(tmp_path):
    folder, saved = tmp_path / "run", tmp_path / "saved.pt"
    engine = rustle.opacus.PrivacyEngine()
    net, optimizer, loader = engine.make_private_with_epsilon(**setting(), **ASKED, folder=folder)
    train(net, optimizer, loader, epochs=1)
    engine.save_checkpoint(path=saved, module=net, optimizer=optimizer)
    engine.session.close()
    assert (folder / "batches.key").stat().st_mode & 0o077 == 0

    engine = rustle.opacus.PrivacyEngine()
    net, optimizer, loader = engine.make_private_with_epsilon(**setting(), **ASKED, folder=folder)
    engine.load_checkpoint(path=saved, module=net, optimizer=optimizer)
    train(net, optimizer, loader, epochs=2)
    report = json.loads(engine.session.report(format="json", delta=1e-5))
    assert engine.session.branch == 0 and report["guarantees"][0]["epsilon"] == pytest.approx(4.0)
    engine.session.close()


@pytest.mark.parametrize("poisson", [False, True])
@pytest.mark.parametrize("mechanism", [None, "identity"])
def test_rows_of_floating_point_numbers_are_asked_for(tmp_path, poisson, mechanism):
    arguments = dict(noise_multiplier=1.3, max_grad_norm=0.8, epochs=EPOCHS, mechanism=mechanism, poisson_sampling=poisson)
    engine = rustle.opacus.PrivacyEngine()
    with pytest.warns(UserWarning, match="rows of this run are floating-point numbers"):
        net, optimizer, loader = engine.make_private(**setting(), **arguments, folder=tmp_path / "run", float=True)
    plan = engine.session.plan
    assert plan.grid is None and (plan.mechanism != "identity" or optimizer.noise_multiplier == 1.3)
    train(net, optimizer, loader, epochs=1)
    cursor = engine.session.cursor()
    engine.session.close()
    with pytest.raises(errors.PlanError, match="allowed: float=True, which continues it"):
        rustle.opacus.PrivacyEngine().make_private(**setting(), **arguments, folder=tmp_path / "run")
    with pytest.warns(UserWarning, match="floating-point"):
        engine.make_private(**setting(), **arguments, folder=tmp_path / "run", float=True)
    assert not engine.session.resume(cursor)
    engine.session.close()


@pytest.mark.filterwarnings("ignore:rows of this run")
@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize("poisson", [False, True])
def test_what_is_released_is_on_the_grid(tmp_path, poisson, floats):
    """Whole steps of the grid in every coordinate; floating-point rows have finer digits."""
    engine = rustle.opacus.PrivacyEngine()
    asked = {**setting(), **ASKED, "poisson_sampling": poisson, "float": floats, "loss_reduction": "sum"}
    net, optimizer, loader = engine.make_private_with_epsilon(**asked, folder=tmp_path / "run")
    # That of the same request, where rows are not on it.
    step = 2.0 ** (engine.session.plan.on_grid(1e-4) if floats else engine.session.plan).grid["step"]
    found = []
    for x, y in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y, reduction="sum").backward()
        optimizer.step()
        found += [p.grad.double().reshape(-1) / step for p in net.parameters()]
    found = torch.cat(found)
    assert bool((found == found.round()).all()) is not floats
    assert ("Noise and sums are integers times 2^" in engine.session.report(delta=1e-5)) is not floats
    engine.session.close()


def test_what_no_grid_covers_is_refused_before_anything_is_written(tmp_path):
    arguments = dict(**ASKED, folder=tmp_path / "run")
    criterion = torch.nn.CrossEntropyLoss()
    given = setting()
    given["module"][0].double()
    wide, many = setting(), setting()
    wide["module"] = torch.nn.Linear(2**12, 2**12)
    data = torch.utils.data.TensorDataset(torch.zeros(6000, 5), torch.zeros(6000))
    many["data_loader"] = torch.utils.data.DataLoader(data, batch_size=3000)
    ghost = {**setting(), "grad_sample_mode": "ghost", "criterion": criterion}
    for asked, match in (
        (ghost, "grad_sample_mode is 'ghost'"),
        (given, "'0.weight' is torch.float64"),
        (wide, "gradients 16781312 coordinates"),
        (many, "up to 3000 records"),
    ):
        with pytest.raises(errors.InvalidArgument, match=f"{match}.*float=True"):
            rustle.opacus.PrivacyEngine().make_private_with_epsilon(**asked, **arguments)
        assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "name, value", [("target_epsilon", 8.0), ("epochs", 2), ("max_grad_norm", 1.0), ("poisson_sampling", True)]
)
def test_other_arguments_need_another_folder(tmp_path, name, value):
    folder = tmp_path / "run"
    engine = rustle.opacus.PrivacyEngine()
    engine.make_private_with_epsilon(**setting(), **ASKED, folder=folder)
    engine.session.close()
    with pytest.raises(errors.PlanError, match="other arguments.*another folder"):
        rustle.opacus.PrivacyEngine().make_private_with_epsilon(**setting(), **{**ASKED, name: value}, folder=folder)


@pytest.mark.parametrize(
    "changes, match",
    [
        (dict(epochs=None), "epochs is None"),
        (dict(epochs=0), "epochs is 0"),
        (dict(noise_multiplier=None), "plan is missing"),
        (dict(noise_multiplier=0.0), "noise_multiplier is 0.0"),
        (dict(max_grad_norm=None), "max_grad_norm is None"),
        (dict(max_grad_norm=[1.0, 1.0]), "one number"),
        (dict(mechanism="blt", poisson_sampling=True), "identity"),
        (dict(clipping="per_layer"), "flat"),
        (dict(steps_per_epoch=2), "steps_per_epoch"),
        (dict(noise_generator=torch.Generator()), "noise_generator"),
    ],
)
def test_what_no_plan_can_be_made_of_is_refused(tmp_path, changes, match):
    arguments = dict(noise_multiplier=1.3, max_grad_norm=1.0, epochs=EPOCHS, folder=tmp_path / "run")
    engine = rustle.opacus.PrivacyEngine()
    with pytest.raises(errors.InvalidArgument, match=match):
        engine.make_private(**setting(), **{**arguments, **changes})
    assert engine.session is None


@pytest.mark.parametrize("name", ["noise_multiplier", "max_grad_norm", "epochs", "mechanism", "float"])
def test_a_plan_sets_what_opacus_arguments_would(tmp_path, name):
    rustle.plan(
        float=True,
        iterations=12, epsilon=4, delta=1e-5, min_sep=4, epochs=3, mechanism="identity", dimension=39
    ).save(tmp_path / "plan.toml")
    with pytest.raises(errors.InvalidArgument, match=f"{name} is given"):
        rustle.opacus.PrivacyEngine().make_private(**setting(), plan=tmp_path / "plan.toml", **{name: 1})


def test_seed_files(tmp_path):
    path = tmp_path / "new" / "batches.key"
    seed = rustle.Batches.seed_file(path)
    assert len(seed) == 32 and rustle.Batches.seed_file(path) == seed and os.listdir(path.parent) == ["batches.key"]
    assert rustle.Batches.seed_file(tmp_path / "other.key") != seed
    (tmp_path / "short.key").write_bytes(b"short")
    with pytest.raises(errors.InvalidArgument, match="5 bytes"):
        rustle.Batches.seed_file(tmp_path / "short.key")
