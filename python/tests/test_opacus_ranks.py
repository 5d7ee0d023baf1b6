"""Opacus on several ranks: one batch and one row among them, or a refusal."""

import subprocess
import sys

import numpy as np
import pytest
from conftest import prepared
from ranks import run

torch = pytest.importorskip("torch")
pytest.importorskip("opacus")

import rustle

STEPS = 4

# Eight records in batches of one or two: the second rank's share of some is empty.
SCRIPT = """
import sys, torch, torch.distributed as dist, rustle, rustle.opacus
from rustle import errors, schemes
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel as Wrapped

how, plan, noise, out = sys.argv[1:5]
alone = how == "alone"
if not alone:
    dist.init_process_group("gloo")
rank = 0 if alone else dist.get_rank()
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(20, 40), torch.nn.Tanh(), torch.nn.Linear(40, 2))
data = torch.utils.data.TensorDataset(torch.randn(6, 20), torch.tensor([0, 1, 1, 0, 1, 0]))


def given(module, batches):
    return dict(
        module=module,
        optimizer=torch.optim.SGD(net.parameters(), lr=0.5),
        data_loader=torch.utils.data.DataLoader(data, batch_size=2),
        plan=plan if alone else rustle.Plan.load(plan),
        noise=None if alone else noise,
        batches=batches,
    )


batches = lambda seed: rustle.Batches(schemes.fixed_order(4), 6, 4, bytes([seed]) * 32)
engine = rustle.opacus.PrivacyEngine()
if how == "refused":
    for module, drawn, said in [
        (net, batches(0), "wrapped before make_private"),
        (Wrapped(net), None, "pass batches="),
        (Wrapped(net), batches(rank), "differ among ranks"),
    ]:
        try:
            engine.make_private(**given(module, drawn))
        except errors.InvalidArgument as error:
            assert said in str(error), error
        else:
            raise SystemExit(f"not refused: {said}")
        assert engine.session is None
else:
    module, optimizer, loader = engine.make_private(**given(net if alone else Wrapped(net), batches(0)))
    grads, sums, sizes = [], [], []
    for inputs, labels in loader:
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(inputs), labels).backward()
        optimizer.step()
        whole = torch.cat([p.summed_grad.reshape(-1) for p in net.parameters()])
        if not alone:
            dist.all_reduce(whole)
        sums.append(whole)
        grads.append(torch.cat([p.grad.reshape(-1) for p in net.parameters()]))
        sizes.append(len(inputs))
    if rank == 1:
        assert 0 in sizes, sizes
    torch.save({"grads": grads, "sums": sums, "sizes": sizes}, f"{out}.{rank}")
if not alone:
    dist.barrier()
    dist.destroy_process_group()
"""


@pytest.fixture
def plan():
    found = rustle.plan(
        float=True,
        iterations=STEPS, epsilon=50, delta=1e-5, min_sep=4, max_participations=1, mechanism="identity"
    )
    return found.replace(dimension=20 * 40 + 40 + 40 * 2 + 2, clip_norm=0.7)


def test_ranks_share_a_batch_and_a_row(cluster, folder, tmp_path, plan):
    rows = np.empty((STEPS, plan.dimension), np.float32)
    with rustle.connect(f"inproc://{prepared(tmp_path / 'noise', plan)}") as session:
        for step in range(STEPS):
            session.fetch_into(step, rows[step])
    out = tmp_path / "found"
    run(SCRIPT, "wrapped", folder / "plan.toml", cluster.url(), out)
    first, second = (torch.load(f"{out}.{rank}") for rank in range(2))
    own = prepared(tmp_path / "alone", plan)
    command = [sys.executable, "-c", SCRIPT, "alone", own / "plan.toml", "", tmp_path / "alone-found"]
    subprocess.run(command, check=True)
    alone = torch.load(tmp_path / "alone-found.0")
    assert [a + b for a, b in zip(first["sizes"], second["sizes"])] == alone["sizes"]
    for at in range(STEPS):
        assert torch.equal(first["grads"][at], second["grads"][at])
        # Every coordinate has the whole row, over the expected size of the whole batch.
        expected = (first["sums"][at] + torch.from_numpy(rows[at])) / 1.5
        assert torch.allclose(first["grads"][at], expected, atol=1e-5)
        assert torch.allclose(first["grads"][at], alone["grads"][at], atol=1e-4)
        assert first["sums"][at].norm() <= 0.7 * alone["sizes"][at] * 1.0001


def test_ranks_that_would_break_the_account_are_refused(tmp_path, plan):
    run(SCRIPT, "refused", prepared(tmp_path / "run", plan) / "plan.toml", "unix:///nowhere", tmp_path / "none")
