"""What the tests of misuse share: a small private training by each adapter, whole or with something done wrong."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import prepared

import rustle
from rustle import schemes

RECORDS, PER_EPOCH, STEPS, SIZE = 60, 4, 12, 15
SEED, OTHER_SEED = bytes(range(32)), bytes(range(1, 33))


def planned(folder, mechanism="band-mf", min_sep=4, **changes):
    """A folder with a plan of three epochs of four batches."""
    setting = dict(min_sep=min_sep, max_participations=3, mechanism=mechanism)
    if mechanism == "band-mf":
        setting["size"] = 4
    found = rustle.plan(float=True, iterations=STEPS, epsilon=6, delta=1e-5, **setting)
    return prepared(folder, found.replace(**changes))


def batches(seed=SEED, records=RECORDS):
    return rustle.Batches(schemes.fixed_order(PER_EPOCH), records, STEPS, seed)


class Training:
    """A linear model under `rustle.torch.attach`, with clipped sums over the expected batch size."""

    def __init__(self, folder, *, rounds=True, seed=SEED, session=None, **arguments):
        import torch

        import rustle.torch

        torch.manual_seed(0)
        self.torch = torch
        self.x, self.y = torch.randn(RECORDS, 5), torch.randint(0, 3, (RECORDS,))
        self.data = torch.utils.data.TensorDataset(self.x, self.y)
        self.net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
        if not folder.exists():
            planned(folder, dimension=sum(p.numel() for p in self.net.parameters()))
        self.session = session or rustle.connect(f"inproc://{folder}")
        self.rounds = rustle.Rounds(batches(seed), self.session) if rounds else None
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        arguments = {"divide_by": SIZE, "records": None if rounds else SIZE, **arguments}
        self.attachment = rustle.torch.attach(self.optimizer, self.session, self.net, **arguments)

    def loss(self, call, x, y):
        return self.torch.nn.functional.cross_entropy(call(x), y)

    def gradients(self, ids, **arguments):
        import rustle.torch

        clip_norm = self.session.plan.clip_norm
        arguments = {"clip_norm": clip_norm, "divide_by": SIZE, **arguments}
        return rustle.torch.clipped_sum(self.net, self.loss, self.x[ids], self.y[ids], **arguments)

    def step(self, ids, **arguments):
        self.optimizer.zero_grad()
        self.gradients(ids, **arguments)
        self.optimizer.step()

    def loader(self, **arguments):
        return self.torch.utils.data.DataLoader(self.data, batch_size=SIZE, **arguments)


class EngineTraining:
    """The same under the Opacus engine."""

    def __init__(self, folder, *, seed=SEED, workers=0, own_order=False, **arguments):
        import torch

        import rustle.opacus

        torch.manual_seed(0)
        self.torch = torch
        self.data = torch.utils.data.TensorDataset(torch.randn(RECORDS, 5), torch.randint(0, 3, (RECORDS,)))
        net = torch.nn.Sequential(torch.nn.Linear(5, 4), torch.nn.Tanh(), torch.nn.Linear(4, 3))
        if not folder.exists():
            planned(folder, dimension=sum(p.numel() for p in net.parameters()))
        self.given = torch.utils.data.DataLoader(self.data, batch_size=SIZE, num_workers=workers)
        self.engine = rustle.opacus.PrivacyEngine()
        made = self.engine.make_private(
            module=net,
            optimizer=torch.optim.SGD(net.parameters(), lr=0.1),
            data_loader=self.given,
            plan=folder / "plan.toml",
            batches=None if own_order else batches(seed),
            **arguments,
        )
        self.net, self.optimizer, *self.criterion, self.loader = made
        self.session = self.engine.session

    def backward(self, x, y):
        criterion = self.criterion[0] if self.criterion else self.torch.nn.functional.cross_entropy
        criterion(self.net(x), y).backward()

    def step(self, x, y):
        self.optimizer.zero_grad()
        self.backward(x, y)
        self.optimizer.step()


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "run"


def weights(net):
    return np.concatenate([p.detach().numpy().reshape(-1).copy() for p in net.parameters()])
