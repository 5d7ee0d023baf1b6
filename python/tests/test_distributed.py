"""Several ranks on one job of a real cluster: together they add one row, each its part."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
from conftest import prepared

torch = pytest.importorskip("torch")

import rustle
import rustle.torch

RANKS, STEPS = 2, 3

TRAINS = """
import sys, torch, torch.distributed as dist, rustle, rustle.torch
url, how, commitment, out = sys.argv[1:5]
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(40, 50), torch.nn.Tanh(), torch.nn.Linear(50, 3))
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


@pytest.fixture
def plan():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(40, 50), torch.nn.Tanh(), torch.nn.Linear(50, 3))
    found = rustle.plan(
        iterations=6, epsilon=8, delta=1e-5, mechanism="band-mf", size=2, min_sep=2, max_participations=3
    )
    return found.replace(parameters=[(name, list(shape)) for name, shape in rustle.torch.layout(net)])


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return str(listener.getsockname()[1])


@pytest.mark.parametrize("how, commitment", [("reduce", "declared"), ("reduce", "exact"), ("fsdp", "exact")])
def test_ranks_together_add_one_row(cluster, tmp_path, plan, how, commitment):
    with rustle.connect(f"inproc://{prepared(tmp_path / 'noise', plan)}") as session:
        noise = np.zeros((STEPS, session.dimension), np.float32)
        for step in range(STEPS):
            session.fetch_into(step, noise[step])
        dimension = session.dimension
    out, port = tmp_path / "out.pt", free_port()
    ranks = []
    for rank in range(RANKS):
        environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
        environment |= {"RANK": str(rank), "WORLD_SIZE": str(RANKS)}
        command = [sys.executable, "-c", TRAINS, cluster.url(), how, commitment, str(out)]
        ranks.append(subprocess.Popen(command, env=environment))
    assert [rank.wait(240) for rank in ranks] == [0] * RANKS
    found = torch.load(out)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(40, 50), torch.nn.Tanh(), torch.nn.Linear(50, 3))
    start = torch.cat([p.detach().reshape(-1) for p in net.parameters()])
    end = torch.cat([p.reshape(-1) for p in found["end"]])
    expected = start - sum(3.0 + torch.from_numpy(row) for row in noise)
    assert torch.allclose(end, expected, atol=1e-4)
    # Rank 0 fetched its share of each row, not all of it.
    assert all(0 < fetched < 0.7 * dimension for fetched in found["fetched"]), json.dumps(found["fetched"])
