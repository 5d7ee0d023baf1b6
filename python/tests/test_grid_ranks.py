"""Several ranks or devices under a plan on a grid: each rank's sum is rounded, and integers are added up, once."""

import os
import subprocess
import sys

import numpy as np
import pytest
from conftest import prepared
from grids import released
from ranks import RANKS, run

torch = pytest.importorskip("torch")

import rustle

STEPS, WIDTH = 3, 40
BY = 7.0

TRAINS = """
import sys, torch, torch.distributed as dist, rustle, rustle.torch
url, commitment, out, width = sys.argv[1:5]
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(int(width), 50), torch.nn.Linear(50, 3))
session = rustle.connect(url)
optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
attachment = rustle.torch.attach(optimizer, session, net, commitment=commitment, reduce=True, divide_by=7.0)
before = [p.detach().clone() for p in net.parameters()]
sums, noised = [], []
for step in range(3):
    generator = torch.Generator().manual_seed(10 * step + rank)
    for p in net.parameters():
        found = torch.randn(p.shape, generator=generator)
        p.grad = found.t().contiguous().t() if step and found.dim() == 2 else found
    if step == 0:
        # Beyond the grid on one rank: refused on all, and nothing has moved.
        first = next(net.parameters())
        kept, first.grad = first.grad, torch.full_like(first, 1e30) if rank else first.grad
        try:
            optimizer.step()
            raise SystemExit("a sum beyond the grid was taken")
        except rustle.errors.InvalidArgument as error:
            assert ("allowed under the plan's grid" if rank else "another rank") in str(error), error
        assert session.next_step == 0 and all(torch.equal(p, q) for p, q in zip(before, net.parameters()))
        first.grad = kept
    sums.append(torch.cat([p.grad.reshape(-1) for p in net.parameters()]))
    optimizer.step()
    noised.append(torch.cat([p.grad.reshape(-1) for p in net.parameters()]))
    assert session.next_step == step + 1
torch.save({"sums": sums, "noised": noised}, f"{out}.{rank}")
dist.barrier()
dist.destroy_process_group()
"""

OPACUS = """
import sys, torch, torch.distributed as dist, rustle, rustle.opacus
from rustle import schemes
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel as Wrapped
url, plan, out, width = sys.argv[1:5]
dist.init_process_group("gloo")
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(int(width), 50), torch.nn.Linear(50, 3))
data = torch.utils.data.TensorDataset(torch.randn(24, int(width)), torch.arange(24) % 3)
module, optimizer, loader = rustle.opacus.PrivacyEngine().make_private(
    module=Wrapped(net),
    optimizer=torch.optim.SGD(net.parameters(), lr=0.5),
    data_loader=torch.utils.data.DataLoader(data, batch_size=8),
    plan=rustle.Plan.load(plan),
    noise=url,
    batches=rustle.Batches(schemes.fixed_order(3), 24, 3, bytes(32)),
)
sums, noised = [], []
for inputs, labels in loader:
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(module(inputs), labels).backward()
    optimizer.step()
    sums.append(torch.cat([p.summed_grad.reshape(-1) for p in net.parameters()]))
    noised.append(torch.cat([p.grad.reshape(-1) for p in net.parameters()]))
torch.save({"sums": sums, "noised": noised}, f"{out}.{dist.get_rank()}")
dist.barrier()
dist.destroy_process_group()
"""


@pytest.fixture
def plan():
    shapes = [("0.weight", [50, WIDTH]), ("0.bias", [50]), ("1.weight", [3, 50]), ("1.bias", [3])]
    return rustle.plan(
        iterations=STEPS,
        epsilon=8,
        delta=1e-5,
        epochs=1,
        min_sep=STEPS,
        mechanism="band-mf",
        size=2,
        parameters=shapes,
        summing_error=1e-3,
        clip_norm=0.7,
    )


def rows(tmp_path, plan):
    """The job's rows, of another folder with the same noise."""
    with rustle.connect(f"inproc://{prepared(tmp_path / 'noise', plan)}") as session:
        found = np.zeros((STEPS, session.dimension), np.int32)
        for step in range(STEPS):
            session.fetch_into(step, found[step])
        return found


def found(out):
    ranks = [torch.load(f"{out}.{rank}") for rank in range(RANKS)]
    sums = [[step.numpy() for step in rank["sums"]] for rank in ranks]
    noised = [[step.numpy() for step in rank["noised"]] for rank in ranks]
    for step in range(STEPS):
        assert (noised[0][step] == noised[1][step]).all(), "ranks have other bits"
    return sums, noised[0]


def together(sums, row, plan, divide_by):
    """Each rank's sum rounded by itself, the integers and the row added, by the plainest arithmetic."""
    step = 2.0 ** plan.grid["step"]
    whole = sum(np.rint(one.astype(np.float64) * divide_by / step) for one in sums)
    return ((whole + row) * step / divide_by).astype(np.float32)


@pytest.mark.parametrize("commitment", ["declared", "exact"])
def test_ranks_round_their_sums_and_add_integers(cluster, tmp_path, plan, commitment):
    expected = rows(tmp_path, plan)
    run(TRAINS, cluster.url(), commitment, tmp_path / "out", WIDTH)
    sums, noised = found(tmp_path / "out")
    for step in range(STEPS):
        here = [rank[step] for rank in sums]
        assert (noised[step] == together(here, expected[step], plan, BY)).all()


def test_ranks_of_opacus_round_their_sums_and_add_integers(cluster, folder, tmp_path, plan):
    pytest.importorskip("opacus")
    expected = rows(tmp_path, plan)
    run(OPACUS, cluster.url(), folder / "plan.toml", tmp_path / "out", WIDTH)
    sums, noised = found(tmp_path / "out")
    for step in range(STEPS):
        whole = together([rank[step] for rank in sums], expected[step], plan, 1.0)
        # Opacus divides by the batch's size after the noise, and the first sum by its share of it.
        assert np.allclose(noised[step], whole / 8, rtol=1e-6, atol=0)


DEVICES = """
import sys, jax, jax.numpy as jnp, numpy as np, rustle, rustle.jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
folder, out = sys.argv[1:3]
assert len(jax.devices()) == 4
mesh = Mesh(np.array(jax.devices()), ("ranks",))
params = {"b": jnp.zeros(7), "w": jnp.zeros((16, 24))}
place = {"b": NamedSharding(mesh, PartitionSpec()), "w": NamedSharding(mesh, PartitionSpec("ranks"))}
draws = np.random.default_rng(4).normal(size=(3, 7 + 16 * 24)).astype(np.float32)
noised = []
with rustle.connect(f"inproc://{folder}") as session:
    privatizer = rustle.jax.privatizer(session, divide_by=3.0)
    state = privatizer.init(params)
    for step in range(3):
        sums = {"b": jnp.asarray(draws[step][:7]), "w": jnp.asarray(draws[step][7:]).reshape(16, 24)}
        sums = {name: jax.device_put(value, place[name]) for name, value in sums.items()}
        update = jax.jit(privatizer.update) if step == 2 else privatizer.update
        found, state = update(sums, state)
        if step != 2:
            assert all(found[name].sharding.is_equivalent_to(place[name], found[name].ndim) for name in found)
            copies = [np.asarray(shard.data) for shard in found["b"].addressable_shards]
            assert len(copies) == 4 and all((copy == copies[0]).all() for copy in copies)
        noised.append(np.concatenate([np.asarray(found["b"]), np.asarray(found["w"]).reshape(-1)]))
    assert session.next_step == 3
np.savez(out, draws=draws, noised=np.array(noised))
"""


def test_devices_of_jax_round_one_sum(tmp_path):
    pytest.importorskip("jax")
    plan = rustle.plan(
        iterations=STEPS,
        epsilon=8,
        delta=1e-5,
        epochs=1,
        min_sep=STEPS,
        mechanism="band-mf",
        size=2,
        parameters=[("['b']", [7]), ("['w']", [16, 24])],
        summing_error=1e-3,
    )
    expected = rows(tmp_path, plan)
    own, out = prepared(tmp_path / "run", plan), tmp_path / "out.npz"
    environment = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", DEVICES, own, out]
    subprocess.run(command, check=True, env={**os.environ, **environment})
    found = np.load(out)
    for step in range(STEPS):
        assert (found["noised"][step] == released(found["draws"][step], expected[step], plan, 3.0)).all()
