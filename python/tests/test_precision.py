"""Fewer bits than float32 in the sums of a plan on a grid: made in float32 where the package makes them, refused elsewhere."""

import contextlib
import warnings

import numpy as np
import pytest
from grids import opened

import rustle
from rustle import schemes
from rustle.errors import InvalidArgument, Unchecked

torch = pytest.importorskip("torch")

import rustle.torch
from rustle.torch import _precision

STEPS, RECORDS, BATCH = 3, 96, 32


def model():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Tanh(), torch.nn.Linear(30, 3))


def plan_of(parameters, **changes):
    setting = dict(iterations=STEPS, epsilon=8, delta=1e-5, min_sep=STEPS, max_participations=1, mechanism="identity")
    grid = {} if changes.get("float") else dict(batch_size=BATCH, norm_dtype="float64", rounding="nearest")
    return rustle.plan(**setting, **grid, parameters=[(name, list(shape)) for name, shape in parameters], **changes)


@pytest.fixture
def exact():
    """What tests change in PyTorch is put back."""
    yield
    torch.set_float32_matmul_precision("highest")
    torch.backends.fp32_precision = "none"


def autocast():
    return torch.autocast("cpu", torch.bfloat16)


def mkldnn():
    torch.backends.mkldnn.matmul.fp32_precision = "bf16"
    return contextlib.nullcontext()


def globally(precision):
    torch.set_float32_matmul_precision(precision)
    return contextlib.nullcontext()


SETTINGS = {
    "autocast": (autocast, r"torch.autocast\('cpu', torch.bfloat16\) is active.*outside of autocast"),
    "high": (lambda: globally("high"), r"mkldnn.matmul.fp32_precision is 'tf32'.*set_float32_matmul_precision"),
    "medium": (lambda: globally("medium"), r"mkldnn.matmul.fp32_precision is 'bf16'.*set_float32_matmul_precision"),
    "mkldnn": (mkldnn, r"mkldnn.matmul.fp32_precision is 'bf16'.*set_float32_matmul_precision"),
}


def clipped_by_product(rows, clip_norm):
    """A clipped sum as many loops make it: a product of a vector with a matrix."""
    scale = clip_norm / rows.norm(dim=1).clamp(min=clip_norm)
    return torch.einsum("i,ij->j", scale, rows).float()


def test_a_product_under_autocast_is_beyond_the_summing_error():
    """What is refused is wrong: as far from the sum as no κ of float32 is."""
    torch.manual_seed(5)
    rows = torch.randn(BATCH, 400)
    wide = rows.double()
    expected = (wide / wide.norm(dim=1, keepdim=True).clamp(min=1)).sum(0)
    kappa = rustle.grid.summing_error(BATCH, 400, norm_dtype="float32")
    errors = []
    for within in (contextlib.nullcontext(), autocast()):
        with within:
            errors.append((clipped_by_product(rows, 1.0).double() - expected).norm().item())
    assert errors[0] < kappa < errors[1] / 10


@pytest.mark.parametrize("name", SETTINGS)
def test_sums_of_ones_own_are_refused_before_their_row(tmp_path, name, exact):
    setting, words = SETTINGS[name]
    net = model()
    with opened(tmp_path / "run", plan_of(rustle.torch.layout(net))) as session:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        rustle.torch.attach(optimizer, session, net, records=BATCH)
        before = [p.detach().clone() for p in net.parameters()]
        for parameter in net.parameters():
            parameter.grad = torch.full_like(parameter, 0.01)
        with setting():
            with pytest.raises(InvalidArgument, match=words):
                optimizer.step()
        assert session.next_step == 0 and all(torch.equal(a, b) for a, b in zip(before, net.parameters()))
        assert all(bool((p.grad == 0.01).all()) for p in net.parameters())
        torch.set_float32_matmul_precision("highest")
        optimizer.step()
        assert session.next_step == 1


@pytest.mark.parametrize("name", SETTINGS)
def test_clipped_sums_and_float_plans_are_not_refused(tmp_path, name, exact):
    setting, _ = SETTINGS[name]
    x, y = torch.randn(BATCH, 20), torch.randint(0, 3, (BATCH,))
    loss = lambda call, x, y: torch.nn.functional.cross_entropy(call(x), y)
    for rows in (False, True):
        net = model()
        # One that no example uses: its sum is zero in any precision.
        net.unused = torch.nn.Parameter(torch.zeros(4))
        with opened(tmp_path / str(rows) / "run", plan_of(rustle.torch.layout(net), float=rows)) as session:
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            rustle.torch.attach(optimizer, session, net, records=BATCH)
            with setting():
                rustle.torch.clipped_sum(net, loss, x, y, clip_norm=session.plan.clip_norm)
                net.unused.grad = None
                optimizer.step()
                if rows:
                    for parameter in net.parameters():
                        parameter.grad = torch.full_like(parameter, 0.01)
                    optimizer.step()
            assert session.next_step == 1 + rows


def test_settings_of_a_gpu_are_found(exact):
    """As far as a host without one has them."""
    assert _precision._reduced(["cuda"]) is None
    torch.backends.cuda.matmul.allow_tf32 = True
    assert _precision._reduced(["cuda"])[0] == "torch.backends.cuda.matmul.fp32_precision is 'tf32'"
    assert _precision._reduced(["cpu"]) is None
    torch.set_float32_matmul_precision("highest")
    torch.backends.cuda.matmul.fp32_precision = "tf32"
    assert _precision._reduced(["cuda"]) is not None and _precision._reduced(["cpu"]) is None
    # The way out that the error names.
    torch.set_float32_matmul_precision("highest")
    assert _precision._reduced(["cuda"]) is None
    torch.set_autocast_enabled("cuda", True)
    try:
        assert _precision._reduced(["cuda"])[0].startswith("torch.autocast('cuda', torch.float16) is active")
    finally:
        torch.set_autocast_enabled("cuda", False)


def half(net, mesh):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    return fully_shard(net, mesh=mesh, mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))


def half_and_whole(net, mesh):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return fully_shard(net, mesh=mesh, mp_policy=policy)


def hooked(hook):
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    def wrapped(net, mesh):
        found = torch.nn.parallel.DistributedDataParallel(net)
        found.register_comm_hook(None, getattr(default_hooks, hook))
        return found

    return wrapped


@pytest.fixture
def alone(tmp_path):
    """A process group of this process alone."""
    torch.distributed.init_process_group("gloo", store=torch.distributed.FileStore(str(tmp_path / "store"), 1), rank=0, world_size=1)
    yield torch.distributed.init_device_mesh("cpu", (1,))
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize(
    "wrapped, words",
    [
        (half, "mixed precision whose sums over ranks are torch.bfloat16.*reduce_dtype=torch.float32"),
        (half_and_whole, None),
        (hooked("bf16_compress_hook"), "communication hook bf16_compress_hook.*Leave the hook out"),
        (hooked("allreduce_hook"), None),
    ],
    ids=["fsdp-half", "fsdp-reduced-whole", "hook-half", "hook-whole"],
)
def test_sums_over_ranks_in_fewer_bits_are_refused_before_their_row(tmp_path, alone, wrapped, words):
    net = wrapped(model(), alone)
    for rows in (False, True):
        with opened(tmp_path / str(rows) / "run", plan_of(rustle.torch.layout(net), float=rows)) as session:
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            attachment = rustle.torch.attach(optimizer, session, net, records=BATCH)
            net(torch.randn(1, 20)).sum().mul(0.01).backward()
            if words and not rows:
                with pytest.raises(InvalidArgument, match=words):
                    optimizer.step()
            else:
                optimizer.step()
            assert session.next_step == (0 if words and not rows else 1)
            optimizer.zero_grad()
            attachment.detach()


def private(folder, net, plan, records=RECORDS):
    import rustle.opacus

    torch.manual_seed(7)
    data = torch.utils.data.TensorDataset(torch.randn(records, 20), torch.randint(0, 3, (records,)))
    session = opened(folder, plan)
    engine = rustle.opacus.PrivacyEngine()
    made = engine.make_private(
        module=net,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(data, batch_size=BATCH),
        plan=plan,
        noise=session,
        batches=rustle.Batches(schemes.fixed_order(STEPS), records, STEPS, seed=bytes(32)),
    )
    return session, *made


WITHIN = {
    "the step": (contextlib.nullcontext, autocast),
    "all": (autocast, autocast),
    "the passes": (autocast, contextlib.nullcontext),
    "medium": (lambda: globally("medium"), contextlib.nullcontext),
}


def opacus_sum(folder, name, **changes):
    """The sum of one step under a setting, Opacus's own, that in float64 of the same gradients, and the plan."""
    passes, stepping = WITHIN[name]
    net = model()
    plan = plan_of(rustle.torch.layout(net), **changes)
    session, net, optimizer, loader = private(folder, net, plan)
    x, y = next(iter(loader))
    with passes():
        # As large as that every record is clipped.
        (100 * torch.nn.functional.cross_entropy(net(x), y)).backward()
    found = [p.grad_sample.double().reshape(len(x), -1) for p in net.parameters()]
    with stepping():
        theirs = opacus_own(optimizer)
        optimizer.step()
    norms = torch.cat(found, 1).norm(dim=1, keepdim=True)
    assert (norms > plan.clip_norm).all()
    exact = torch.cat([(value * plan.clip_norm / norms).sum(0) for value in found])
    made = torch.cat([p.summed_grad.reshape(-1) for p in net.parameters()])
    assert session.next_step == 1
    session.close()
    return made, theirs, exact, plan


def opacus_own(optimizer):
    """The sum that Opacus makes of the same gradients."""
    from opacus.optimizers import DPOptimizer

    DPOptimizer.clip_and_accumulate(optimizer)
    made = torch.cat([p.summed_grad.float().reshape(-1) for p in optimizer.params])
    for parameter in optimizer.params:
        parameter.summed_grad = None
        del parameter.grad_sample._processed
    return made


@pytest.mark.parametrize("name", WITHIN)
def test_opacus_sums_keep_their_bits_on_a_grid(tmp_path, name, exact):
    pytest.importorskip("opacus")
    made, theirs, expected, plan = opacus_sum(tmp_path / "run", name)
    allowed = plan.grid["summing_error"] * plan.clip_norm
    assert made.dtype == torch.float32 and (made.double() - expected).norm() <= allowed / 2
    if name != "medium":
        # So the test sees what it is about. A product with a vector has its bits on CPUs, whatever that setting is.
        assert (theirs.double() - expected).norm() > 5 * allowed


def test_opacus_steps_within_autocast_under_float_plans(tmp_path):
    """A sum in bfloat16 was refused as a gradient after its row was spent."""
    pytest.importorskip("opacus")
    made, _, expected, _ = opacus_sum(tmp_path / "run", "the step", float=True)
    assert torch.allclose(made.double(), expected, atol=1e-4)


def test_opacus_sums_of_empty_batches_and_parts(tmp_path, exact):
    """A sum is that of its parts, and a batch of no records has one."""
    pytest.importorskip("opacus")
    net = model()
    plan = plan_of(rustle.torch.layout(net))
    session, net, optimizer, loader = private(tmp_path / "run", net, plan)
    x, y = next(iter(loader))
    for part, skipped in ((slice(0, 20), True), (slice(20, 20), True), (slice(20, BATCH), False)):
        optimizer.zero_grad()
        optimizer.signal_skip_step(do_skip=skipped)
        # A mean over no records is not a number, and neither is it needed.
        (torch.nn.functional.cross_entropy(net(x[part]), y[part], reduction="sum") * 100 / BATCH).backward()
        optimizer.step()
    assert session.next_step == 1
    made = torch.cat([p.summed_grad.reshape(-1) for p in net.parameters()])
    session.close()
    assert torch.isfinite(made).all() and 0 < made.norm() <= BATCH * plan.clip_norm


def test_opacus_parameters_in_fewer_bits_are_refused_before_they_are_clipped(tmp_path):
    pytest.importorskip("opacus")
    net = model().to(torch.bfloat16)
    session, net, optimizer, loader = private(tmp_path / "run", net, plan_of(rustle.torch.layout(net)))
    x, y = next(iter(loader))
    torch.nn.functional.cross_entropy(net(x.to(torch.bfloat16)), y).backward()
    with pytest.raises(InvalidArgument, match="bfloat16; allowed under a plan on a grid: float32"):
        optimizer.step()
    assert session.next_step == 0 and all(p.summed_grad is None for p in net.parameters())
    session.close()


def test_sums_take_parts_of_long_gradients(monkeypatch):
    """The parts that a long gradient is widened in change neither norms nor sums beyond roundings."""
    from rustle.torch import _sums

    torch.manual_seed(1)
    gradients = {"a": torch.randn(9, 4, 5).to(torch.bfloat16), "b": torch.randn(9), "none": torch.randn(9, 0)}
    whole = _sums.summed(gradients, 0.5)
    monkeypatch.setattr(_sums, "_PART", 40)
    parted = _sums.summed(gradients, 0.5)
    assert {name: (value.shape, value.dtype) for name, value in parted.items()} == {
        "a": ((4, 5), torch.float32),
        "b": ((), torch.float32),
        "none": ((0,), torch.float32),
    }
    for name, value in whole.items():
        assert torch.allclose(value, parted[name], rtol=0, atol=9 * 9 * 0.5 * 2**-24)
    norms = (gradients["a"].double().square().sum((1, 2)) + gradients["b"].double() ** 2).sqrt()
    assert torch.allclose(whole["b"].double(), (gradients["b"] * 0.5 / norms.clamp(min=0.5)).sum(), atol=1e-6)


def test_sums_are_no_products_of_matrices(tmp_path):
    """Which a GPU takes in TF32: no operation of the engine's sum is one, and Opacus's own is."""
    pytest.importorskip("opacus")
    from torch.utils._python_dispatch import TorchDispatchMode

    class Products(TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            found.append(operation.overloadpacket.__name__)
            return operation(*args, **(kwargs or {}))

    def products():
        return {name for name in found if any(word in name for word in ("mm", "mv", "dot", "conv", "linear"))}

    session, net, optimizer, loader = private(tmp_path / "run", model(), plan_of(rustle.torch.layout(model())))
    x, y = next(iter(loader))
    torch.nn.functional.cross_entropy(net(x), y).backward()
    found = []
    with Products():
        opacus_own(optimizer)
    assert products()
    found.clear()
    with Products():
        optimizer.clip_and_accumulate()
    assert "mul" in found and not products()
    session.close()


def test_jax_refuses_a_default_of_fewer_bits(tmp_path, monkeypatch):
    jax = pytest.importorskip("jax")
    pytest.importorskip("optax")
    import jax.numpy as jnp

    import rustle.jax

    params = {"w": jnp.zeros(63)}
    for rows in (False, True):
        with opened(tmp_path / str(rows) / "run", plan_of(rustle.jax.layout(params), float=rows)) as session:
            privatizer = rustle.jax.privatizer(session, records=BATCH)
            state = privatizer.init(params)
            for update in (privatizer.update, jax.jit(privatizer.update)):
                with jax.default_matmul_precision("tensorfloat32"):
                    if rows:
                        update(params, state)[1].block_until_ready()
                        break
                    with pytest.raises(InvalidArgument, match="jax_default_matmul_precision is 'tensorfloat32'.*'highest'"):
                        update(params, state)
            assert session.next_step == rows
    with opened(tmp_path / "run", plan_of(rustle.jax.layout(params))) as session:
        privatizer = rustle.jax.privatizer(session, records=BATCH)
        state = privatizer.init(params)
        monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            with jax.default_matmul_precision("highest"):
                _, state = privatizer.update(params, state)
            assert not [w for w in seen if issubclass(w.category, Unchecked) and "fewer bits" in str(w.message)]
            for _ in range(2):
                _, state = privatizer.update(params, state)
        assert len([w for w in seen if issubclass(w.category, Unchecked) and "fewer bits on gpu" in str(w.message)]) == 1
        assert session.next_step == 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_federated_sums_in_fewer_bits_are_refused(tmp_path, dtype):
    from rustle.federated import AdaptiveServer, Server
    from rustle.federated._adaptive import BELOW_CLIP_NORM

    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    total = np.zeros((4, 2)).astype(dtype)
    with opened(tmp_path / "run", plan_of([("w", (4, 2))])) as session:
        server = Server(session, {"w": np.zeros((4, 2), np.float32)}, clients_per_round=10)
        with pytest.raises(InvalidArgument, match="the sum 'w' is b?float16; allowed under a plan on a grid"):
            server.apply({"w": total})
        assert session.next_step == 0
        # An update may be anything: it is clipped as it is.
        server.step([{"w": total}])
        assert session.next_step == 1
    with opened(tmp_path / "adaptive" / "run", plan_of([("w", (4, 2)), (BELOW_CLIP_NORM, ())])) as session:
        server = AdaptiveServer(session, {"w": np.zeros((4, 2), np.float32)}, clients_per_round=10, clip_norm=1.0, bit_noise=50)
        with pytest.raises(InvalidArgument, match="the sum 'w' is b?float16"):
            server.apply({"w": total}, below=0, clients=1)
        assert session.next_step == 0
    with opened(tmp_path / "float" / "run", plan_of([("w", (4, 2))], float=True)) as session:
        Server(session, {"w": np.zeros((4, 2), np.float32)}, clients_per_round=10).apply({"w": total})
        assert session.next_step == 1
