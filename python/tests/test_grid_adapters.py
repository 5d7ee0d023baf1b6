"""Adapters under a plan on a grid: the bits of a rounded sum with integers, or a refusal."""

import numpy as np
import pytest
from grids import coarse, opened, released, rows_of

import rustle
from rustle.errors import InvalidArgument

torch = pytest.importorskip("torch")

import rustle.torch

STEPS = 6
KAPPA = 1e-4


def model():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Tanh(), torch.nn.Linear(30, 3))


def plan_of(parameters, rounding="nearest"):
    return rustle.plan(
        iterations=STEPS,
        epsilon=8,
        delta=1e-5,
        min_sep=3,
        max_participations=2,
        mechanism="band-mf",
        size=3,
        parameters=[(name, list(shape)) for name, shape in parameters],
        summing_error=KAPPA,
        rounding=rounding,
    )


def flat(tensors):
    return np.concatenate([tensor.detach().numpy().reshape(-1) for tensor in tensors])


def gradients(net, step, is_transposed):
    torch.manual_seed(step)
    for parameter in net.parameters():
        found = torch.randn_like(parameter)
        # Not contiguous: the adapter holds the row itself, as on a GPU.
        parameter.grad = found.t().contiguous().t() if is_transposed and found.dim() == 2 else found


@pytest.mark.parametrize("is_transposed", [False, True])
def test_torch_rounds_sums_and_adds_integers(tmp_path, is_transposed):
    net = model()
    plan = plan_of(rustle.torch.layout(net))
    sums, noised = [], []
    with opened(tmp_path / "run", plan) as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        rustle.torch.attach(optimizer, session, net, divide_by=7.0)
        for step in range(STEPS):
            gradients(net, step, is_transposed)
            sums.append(flat(p.grad for p in net.parameters()))
            optimizer.step()
            noised.append(flat(p.grad for p in net.parameters()))
        rows = rows_of(session, tmp_path / "run", STEPS)
    for step in range(STEPS):
        assert (noised[step] == released(sums[step], rows[step], plan, 7.0)).all()


@pytest.mark.parametrize("is_transposed", [False, True])
def test_torch_dithers_sums_wherever_they_are(tmp_path, is_transposed):
    """Sums that are not contiguous, as those on a GPU, in a copy of this process's memory."""
    net = model()
    plan = coarse(plan_of(rustle.torch.layout(net), "dithered"))
    step_size = 2.0 ** plan.grid["step"]
    sums, noised = [], []
    with opened(tmp_path / "run", plan) as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        rustle.torch.attach(optimizer, session, net)
        for step in range(STEPS):
            gradients(net, step, is_transposed)
            sums.append(flat(p.grad for p in net.parameters()))
            optimizer.step()
            noised.append(flat(p.grad for p in net.parameters()))
        rows = rows_of(session, tmp_path / "run", STEPS)
    for step in range(STEPS):
        found = noised[step].astype(np.float64) / step_size - rows[step]
        exact = sums[step].astype(np.float64) / step_size
        assert ((found == np.floor(exact)) | (found == np.ceil(exact))).all()
        # A quarter of them on average.
        assert np.mean(found != np.rint(exact)) > 0.1


def test_torch_refuses_what_no_grid_accounts_for(tmp_path):
    net = model().to(torch.bfloat16)
    layout = rustle.torch.layout(net)
    with opened(tmp_path / "half", plan_of(layout)) as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        rustle.torch.attach(optimizer, session, net)
        gradients(net, 0, False)
        before = flat(p.float() for p in net.parameters())
        with pytest.raises(InvalidArgument, match="float32"):
            optimizer.step()
        assert session.next_step == 0 and (flat(p.float() for p in net.parameters()) == before).all()
    net = model()
    with opened(tmp_path / "dithered", plan_of(layout, "dithered")) as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        rustle.torch.attach(optimizer, session, net)
        gradients(net, 0, True)
        # The session dithers a copy, and leaves the sums as they are where it refuses one.
        next(net.parameters()).grad[0, 0] = 1e30
        before = flat(p.grad for p in net.parameters())
        with pytest.raises(InvalidArgument, match="allowed under the plan's grid"):
            optimizer.step()
        assert session.next_step == 0 and (flat(p.grad for p in net.parameters()) == before).all()
    with opened(tmp_path / "range", plan_of(layout)) as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        rustle.torch.attach(optimizer, session, net)
        before = flat(net.parameters())
        for is_transposed in [True, False]:
            gradients(net, 0, is_transposed)
            next(net.parameters()).grad[0, 0] = 1e30
            with pytest.raises(InvalidArgument, match="allowed under the plan's grid|absolute value up to"):
                optimizer.step()
        assert session.next_step == 0 and (flat(net.parameters()) == before).all()


def test_opacus_rounds_sums_and_adds_integers(tmp_path):
    pytest.importorskip("opacus")
    import rustle.opacus

    torch.manual_seed(5)
    data = torch.utils.data.TensorDataset(torch.randn(24, 20), torch.randint(0, 3, (24,)))
    net = model()
    plan = plan_of(rustle.torch.layout(net))
    plan.save(tmp_path / "plan.toml")
    batches = rustle.Batches(rustle.schemes.fixed_order(3), 24, STEPS, seed=bytes(range(32)))
    engine = rustle.opacus.PrivacyEngine()
    with opened(tmp_path / "run", plan) as session:
        net, optimizer, loader = engine.make_private(
            module=net,
            optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
            data_loader=torch.utils.data.DataLoader(data, batch_size=8),
            plan=plan,
            noise=session,
            batches=batches,
        )
        seen = []
        for step, (x, y) in enumerate(loader):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(x), y).backward()
            optimizer.pre_step()
            seen.append((flat(p.summed_grad for p in net.parameters()), flat(p.grad for p in net.parameters())))
            optimizer.original_optimizer.step()
            break
        rows = rows_of(session, tmp_path / "run", 1)
    sums, grads = seen[0]
    # Opacus divides by the batch's size after the noise.
    assert np.allclose(grads * 8, released(sums, rows[0], plan), rtol=1e-5)


def test_jax_rounds_sums_and_adds_integers(tmp_path):
    jax = pytest.importorskip("jax")
    import jax.numpy as jnp

    import rustle.jax

    params = {"b": jnp.zeros(7), "w": jnp.zeros((16, 24))}
    plan = plan_of(rustle.jax.layout(params))
    draws = np.random.default_rng(4).normal(size=(STEPS, 7 + 16 * 24)).astype(np.float32)
    tree = lambda values: {"b": jnp.asarray(values[:7]), "w": jnp.asarray(values[7:]).reshape(16, 24)}
    flatten = lambda found: np.concatenate([np.asarray(found["b"]), np.asarray(found["w"]).reshape(-1)])
    noised = []
    with opened(tmp_path / "run", plan) as session:
        privatizer = rustle.jax.privatizer(session, divide_by=3.0)
        state = privatizer.init(params)
        jitted = jax.jit(privatizer.update)
        for step in range(STEPS):
            update = jitted if step % 2 else privatizer.update
            found, state = update(tree(draws[step]), state)
            noised.append(flatten(found))
        assert session.next_step == STEPS
        rows = rows_of(session, tmp_path / "run", STEPS)
    for step in range(STEPS):
        assert (noised[step] == released(draws[step], rows[step], plan, 3.0)).all()
    with opened(tmp_path / "half", plan) as session:
        privatizer = rustle.jax.privatizer(session)
        state = privatizer.init(params)
        half = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), params)
        with pytest.raises(InvalidArgument, match="float32"):
            privatizer.update(half, state)
        assert session.next_step == 0


def test_federated_servers_round_sums(tmp_path):
    from rustle.federated import Server

    plan = plan_of([("w", (40, 8))])
    total = np.random.default_rng(6).normal(size=(40, 8)).astype(np.float32)
    with opened(tmp_path / "run", plan) as session:
        server = Server(session, {"w": np.zeros((40, 8), np.float32)}, clients_per_round=10)
        server.apply({"w": total})
        moved = np.asarray(server.parameters["w"]).reshape(-1)
        rows = rows_of(session, tmp_path / "run", 1)
    assert np.allclose(moved * 10, released(total.reshape(-1), rows[0], plan), rtol=1e-5)


@pytest.mark.parametrize("mode", ["ghost", "hooks"])
def test_ghost_clipping_on_a_grid_is_refused(tmp_path, mode):
    pytest.importorskip("opacus")
    import rustle.opacus

    net = model()
    plan = plan_of(rustle.torch.layout(net))
    data = torch.utils.data.TensorDataset(torch.randn(24, 20), torch.randint(0, 3, (24,)))
    with opened(tmp_path / "run", plan) as session:
        given = dict(
            module=net,
            optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
            data_loader=torch.utils.data.DataLoader(data, batch_size=8),
            plan=plan,
            noise=session,
            batches=rustle.Batches(rustle.schemes.fixed_order(3), 24, STEPS, seed=bytes(range(32))),
            grad_sample_mode=mode,
        )
        engine = rustle.opacus.PrivacyEngine()
        if mode == "hooks":
            engine.make_private(**given)
            return
        with pytest.raises(InvalidArgument, match="grad_sample_mode is 'ghost' under a plan on a grid"):
            engine.make_private(**given, criterion=torch.nn.CrossEntropyLoss())
        assert engine.session is None


@pytest.mark.parametrize("rounding", ["nearest", None])
@pytest.mark.parametrize("most", [0.0, None, 1.0])
def test_trainers_that_clip_sums_on_a_grid_are_refused(tmp_path, rounding, most):
    from rustle.torch._trainers import check_sum_is_kept

    plan = plan_of(rustle.torch.layout(model()))
    if rounding is None:
        plan = rustle.plan(
            float=True,
            iterations=STEPS, epsilon=8, delta=1e-5, min_sep=3, max_participations=2, mechanism="identity", dimension=9
        )
    with opened(tmp_path / "run", plan) as session:
        if rounding and most:
            with pytest.raises(InvalidArgument, match="gradient_clip_val is 1.0 under a plan on a grid"):
                check_sum_is_kept(session, "gradient_clip_val", most)
        else:
            check_sum_is_kept(session, "gradient_clip_val", most)
