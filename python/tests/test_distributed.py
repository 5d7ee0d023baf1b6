"""Several ranks on one job of a real cluster: together they add one row, each its part."""

import json

import numpy as np
import pytest
from conftest import prepared
from ranks import run

torch = pytest.importorskip("torch")

import rustle
import rustle.torch

STEPS = 3

OVERFLOWS = """
import sys, torch, torch.distributed as dist, rustle, rustle.torch
url, width = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
net = torch.nn.Sequential(torch.nn.Linear(width, 3))
session = rustle.connect(url)
optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
attachment = rustle.torch.attach(optimizer, session, net, reduce=True)
for step in range(2):
    for p in net.parameters():
        p.grad = torch.full_like(p, float("nan") if step + dist.get_rank() == 1 else 1.0)
    try:
        optimizer.step()
        raise SystemExit("a step with a NaN was taken")
    except rustle.errors.InvalidArgument as error:
        assert "not finite" in str(error) and ("another rank" in str(error)) == (step == dist.get_rank()), error
    assert session.next_step == step
    attachment.skip()
for p in net.parameters():
    p.grad = torch.ones_like(p)
optimizer.step()
assert session.next_step == 3
dist.barrier()
dist.destroy_process_group()
"""

DIFFERS = """
import sys, torch, torch.distributed as dist, rustle, rustle.torch
from torch.nn.parallel import DistributedDataParallel
url, width = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
net = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(width, 3)))
session = rustle.connect(url)
optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
attachment = rustle.torch.attach(optimizer, session, net.module, reduce=False)
inputs = torch.full((1, width), float(rank + 1))
before = [p.detach().clone() for p in net.parameters()]
with net.no_sync():
    net(inputs).sum().backward()
try:
    optimizer.step()
    raise SystemExit("one row was added to two gradients")
except rustle.errors.InvalidArgument as error:
    assert "the gradients of ranks differ" in str(error) and "reduce=True" in str(error), error
assert session.next_step == 0
assert all(torch.equal(p, old) for p, old in zip(net.parameters(), before))
# What one rank alone refuses, none takes.
for p in net.parameters():
    p.grad = torch.full_like(p, float("nan") if rank else 1.0)
try:
    optimizer.step()
    raise SystemExit("a step with a NaN was taken by a rank")
except rustle.errors.InvalidArgument as error:
    assert ("another rank" in str(error)) != bool(rank), error
assert session.next_step == 0
optimizer.zero_grad()
net(inputs).sum().backward()
optimizer.step()
assert session.next_step == 1
for p in net.parameters():
    both = [torch.empty_like(p) for _ in range(2)]
    dist.all_gather(both, p.detach())
    assert torch.equal(*both)
dist.barrier()
dist.destroy_process_group()
"""

# Misuses come first: none of them uses a row.
SHARES = """
import sys, torch, torch.distributed as dist, rustle, rustle.torch
from rustle import errors, schemes
url, width = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
net = torch.nn.Sequential(torch.nn.Linear(width, 3))
session = rustle.connect(url)
optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
batches = lambda seed=0: rustle.Batches(schemes.fixed_order(2), 30, 6, bytes([seed]) * 32)
data = torch.utils.data.TensorDataset(torch.arange(30))
inputs = torch.utils.data.DataLoader(data, batch_size=15)
loaded = lambda **place: rustle.torch.DataLoader(data, rustle.Rounds(batches(), session, **place))
own = dict(rank=rank, ranks=ranks)

def refused(loader, said):
    for records in loader:
        attachment = rustle.torch.attach(optimizer, session, net, reduce=True)
        for p in net.parameters():
            p.grad = torch.zeros_like(p)
        try:
            optimizer.step()
        except errors.InvalidArgument as error:
            assert said in str(error), error
            attachment.detach()
            break
        raise SystemExit(f"a step was taken: {said}")
    assert session.next_step == 0

refused(loaded(), "rank=0 ranks=1, rank=0 ranks=1")
refused(loaded(rank=0, ranks=2), "rank=0 ranks=2, rank=0 ranks=2")
refused(loaded(rank=rank, ranks=3), "rank=0 ranks=3, rank=1 ranks=3")
# Of one rank alone, too.
refused(loaded(**own if rank else {}), "rank=0 ranks=1, rank=1 ranks=2")
session._rounds = None
refused(rustle.torch.in_order(inputs, session), "may select one record for several ranks")
session._rounds = None
refused(rustle.torch.DataLoader(data, rustle.Rounds(batches(rank), session, **own)), "differ among ranks")
session._rounds = None
attachment = rustle.torch.attach(optimizer, session, net, reduce=True)
seen = [None] * ranks
for step, (records,) in enumerate(loaded(**own)):
    dist.all_gather_object(seen, records.tolist())
    assert sorted(seen[0] + seen[1]) == sorted(batches()[step].tolist())
    for p in net.parameters():
        p.grad = torch.zeros_like(p)
    if step == 1:
        # Within the bound of the batch, and beyond that of this rank's own records.
        next(net.parameters()).grad[0, 0] = 10.0
        try:
            optimizer.step()
            raise SystemExit("a sum of more records than the rank has was taken")
        except errors.SumTooLarge as error:
            assert f"that of {len(records)} contributions" in str(error), error
        assert session.next_step == step
        next(net.parameters()).grad[0, 0] = 0.0
    if step == 2:
        # Later ones are no way around it; the other rank learns of it.
        before = session._rounds
        if rank:
            session._rounds = None
            next(iter(loaded()))
        try:
            optimizer.step()
            raise SystemExit("a step with other rounds was taken")
        except errors.InvalidArgument as error:
            assert ("were compared by" if rank else "another rank") in str(error), error
        session._rounds = before
    optimizer.step()
    assert session.next_step == step + 1
assert session.next_step == 6
dist.barrier()
dist.destroy_process_group()
"""

TRAINS = """
import sys, torch, torch.distributed as dist, rustle, rustle.torch
url, how, commitment, out, widths = sys.argv[1:6]
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
widths = [int(width) for width in widths.split(",")]
net = torch.nn.Sequential(*(torch.nn.Linear(*pair) for pair in zip(widths, widths[1:])))
if how == "fsdp":
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    mesh = init_device_mesh("cpu", (ranks,))
    for layer in net:
        fully_shard(layer, mesh=mesh)
    fully_shard(net, mesh=mesh)
session = rustle.connect(url)
optimizer = torch.optim.SGD(net.parameters(), lr=1.0)
attachment = rustle.torch.attach(optimizer, session, net, commitment=commitment, reduce=how == "reduce")
elements = []
for step in range(3):
    for p in net.parameters():
        p.grad = torch.full_like(p, float(rank + 1 if how == "reduce" else 3.0))
    elements.append(sum(end - start for start, end in attachment.noise.wanted))
    optimizer.step()
    assert session.next_step == step + 1
    if step == 0:
        state = optimizer.state_dict()["rustle"]
        states = [None] * ranks
        dist.all_gather_object(states, state)
        assert states[0] == states[1]
whole = [p.full_tensor() if how == "fsdp" else p for p in net.parameters()]
if rank == 0:
    torch.save({"end": [p.detach() for p in whole], "fetched": elements}, out)
dist.barrier()
if how == "reduce" and commitment == "declared":
    attachment.load_state_dict(state)
    places = [None] * ranks
    dist.all_gather_object(places, (session.branch, session.next_step, attachment.noise.step))
    assert places[0] == places[1] == (1, 1, 1), places
dist.destroy_process_group()
"""


def model(widths):
    torch.manual_seed(0)
    return torch.nn.Sequential(*(torch.nn.Linear(*pair) for pair in zip(widths, widths[1:])))


@pytest.fixture
def widths():
    return [40, 50, 3]


@pytest.fixture
def plan(widths):
    net = model(widths)
    found = rustle.plan(
        float=True,
        iterations=6, epsilon=8, delta=1e-5, mechanism="band-mf", size=2, min_sep=2, max_participations=3
    )
    return found.replace(parameters=[(name, list(shape)) for name, shape in rustle.torch.layout(net)])


def noise(tmp_path, plan, steps):
    with rustle.connect(f"inproc://{prepared(tmp_path / 'noise', plan)}") as session:
        rows = np.zeros((steps, session.dimension), np.float32)
        for step in range(steps):
            session.fetch_into(step, rows[step])
        return torch.from_numpy(rows)


def trained(cluster, tmp_path, plan, widths, how, commitment):
    """Elements that rank 0 fetched of each row; the model's end has been compared."""
    rows, out = noise(tmp_path, plan, STEPS), tmp_path / "out.pt"
    run(TRAINS, cluster.url(), how, commitment, out, ",".join(map(str, widths)))
    found = torch.load(out)
    start = torch.cat([p.detach().reshape(-1) for p in model(widths).parameters()])
    end = torch.cat([p.reshape(-1) for p in found["end"]])
    assert torch.allclose(end, start - sum(3.0 + row for row in rows), atol=1e-4)
    return found["fetched"]


@pytest.mark.parametrize("how, commitment", [("reduce", "declared"), ("reduce", "exact"), ("fsdp", "exact")])
def test_ranks_together_add_one_row(cluster, tmp_path, plan, widths, how, commitment):
    fetched = trained(cluster, tmp_path, plan, widths, how, commitment)
    dimension = sum(p.numel() for p in model(widths).parameters())
    # Rank 0 fetched its share of each row, not all of it.
    assert all(0 < elements < 0.7 * dimension for elements in fetched), json.dumps(fetched)


@pytest.mark.parametrize("widths", [[5, 3]])
def test_a_rank_may_have_no_share(cluster, tmp_path, plan, widths):
    assert trained(cluster, tmp_path, plan, widths, "reduce", "declared") == [0] * STEPS


@pytest.mark.parametrize("widths", [[40, 3]])
def test_what_is_not_finite_on_one_rank_is_refused_on_all(cluster, widths):
    run(OVERFLOWS, cluster.url(), widths[0])


@pytest.mark.parametrize("widths", [[40, 3]])
def test_ranks_without_a_share_of_one_batch_each_are_refused(cluster, widths):
    run(SHARES, cluster.url(), widths[0])


@pytest.mark.parametrize("widths", [[40, 3]])
def test_ranks_whose_gradients_differ_add_no_row(cluster, widths):
    run(DIFFERS, cluster.url(), widths[0])
