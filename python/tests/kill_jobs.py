"""Small trainings that keep checkpoints, one for each adapter, for :mod:`kills` to kill.

A job's first call imports what it needs; what it returns trains in a folder from its checkpoint, or from nothing, to
the end, and gives its parameters. The first checkpoint is written before the first step: rows that were released
before any checkpoint can't be come back to.
"""

from __future__ import annotations

import json
import os
import pickle
import tempfile
from pathlib import Path
from typing import Any, Callable, Iterable

import numpy as np

import rustle

STEPS, EVERY = 12, 3
DIMENSIONS = {"session": 3000, "torch": 723, "opacus": 66, "jax": 391, "federated": 211}

Train = Callable[[Path, str], Iterable[np.ndarray]]


class Checkpoint:
    """One file, replaced whole, and a log of what was found when training continued."""

    def __init__(self, folder: Path, session: rustle.Session):
        self.path, self.log, self.session = folder / "checkpoint", folder / "resumed.jsonl", session
        self.found, self.branch = session.next_step, session.branch

    def goes_on(self) -> bool:
        return self.path.exists()

    def resumed(self) -> None:
        """To be called once the state is loaded."""
        resumed = {"found": self.found, "saved": self.session.next_step}
        resumed |= {"before": self.branch, "after": self.session.branch}
        with open(self.log, "a") as file:
            file.write(json.dumps(resumed) + "\n")

    def due(self) -> bool:
        return self.session.next_step % EVERY == 0

    def write(self, save: Callable[[str], None]) -> None:
        save(f"{self.path}.new")
        os.replace(f"{self.path}.new", self.path)

    def write_folder(self, save: Callable[[Path], Any]) -> None:
        """For frameworks that write several files: a folder of their own, which the one file names once it is whole."""
        made = Path(tempfile.mkdtemp(dir=self.path.parent, prefix="saved-"))
        save(made)
        self.write(lambda path: Path(path).write_text(str(made)))

    def folder(self) -> Path:
        return Path(self.path.read_text())

    def pickle(self, state: Any) -> None:
        self.write(lambda path: Path(path).write_bytes(pickle.dumps(state)))

    def unpickle(self) -> Any:
        return pickle.loads(self.path.read_bytes())

    def begin_or_resume(self, model: np.ndarray, commitment: str) -> np.ndarray:
        """The model of the checkpoint, or this first one, once it is kept: for programs whose state is a model alone."""
        if not self.goes_on():
            self.pickle((model, self.session.cursor()))
            return model
        kept, cursor = self.unpickle()
        self.session.resume(cursor, replay=commitment == "exact")
        self.resumed()
        return kept


def in_process(folder: Path) -> str:
    return f"inproc://{folder}?threads=1"


def of_session(url: Callable[[Path], str] = in_process) -> Train:
    def train(folder: Path, commitment: str) -> Iterable[np.ndarray]:
        session = rustle.connect(url(folder))
        checkpoint = Checkpoint(folder, session)
        model = checkpoint.begin_or_resume(np.zeros(session.dimension, np.float32), commitment)
        for step in range(session.next_step, session.iterations):
            gradient = np.cos(model) + np.float32(step)
            model = model - np.float32(0.1) * session.privatize_(gradient, step, commitment=commitment)
            if checkpoint.due():
                checkpoint.pickle((model, session.cursor()))
        return [model]

    return train


def of_torch() -> Train:
    import torch
    import torch._dynamo  # Adam's first step would, for seconds.

    import rustle.torch

    def train(folder: Path, commitment: str) -> Iterable[np.ndarray]:
        torch.manual_seed(0)
        torch.use_deterministic_algorithms(True)
        torch.set_num_threads(1)
        net = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Tanh(), torch.nn.Linear(30, 3))
        data, labels = torch.randn(64, 20), torch.randint(0, 3, (64,))
        session = rustle.connect(f"inproc://{folder}?threads=1")
        checkpoint = Checkpoint(folder, session)
        optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
        rustle.torch.attach(optimizer, session, net, divide_by=64.0, commitment=commitment)
        state = lambda: {"net": net.state_dict(), "optimizer": optimizer.state_dict()}
        if checkpoint.goes_on():
            loaded = torch.load(checkpoint.path, weights_only=True)
            net.load_state_dict(loaded["net"])
            optimizer.load_state_dict(loaded["optimizer"])
            checkpoint.resumed()
        else:
            checkpoint.write(lambda path: torch.save(state(), path))
        for _ in range(session.next_step, session.iterations):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(data), labels).backward()
            optimizer.step()
            if checkpoint.due():
                checkpoint.write(lambda path: torch.save(state(), path))
        return [p.detach().numpy() for p in net.parameters()]

    return train


def of_opacus() -> Train:
    import torch
    import torch._dynamo

    import rustle.opacus

    def train(folder: Path, commitment: str) -> Iterable[np.ndarray]:
        torch.manual_seed(0)
        torch.use_deterministic_algorithms(True)
        torch.set_num_threads(1)
        net = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
        data = torch.utils.data.TensorDataset(torch.randn(60, 5), torch.randint(0, 2, (60,)))
        engine = rustle.opacus.PrivacyEngine()
        net, optimizer, loader = engine.make_private(
            module=net,
            optimizer=torch.optim.Adam(net.parameters(), lr=0.1),
            data_loader=torch.utils.data.DataLoader(data, batch_size=15),
            plan=folder / "plan.toml",
            batches=rustle.Batches(rustle.schemes.fixed_order(4), 60, STEPS, bytes(32)),
            commitment=commitment,
        )
        session = engine.session
        checkpoint = Checkpoint(folder, session)
        save = lambda path: engine.save_checkpoint(path=path, module=net, optimizer=optimizer)
        if checkpoint.goes_on():
            engine.load_checkpoint(path=checkpoint.path, module=net, optimizer=optimizer)
            checkpoint.resumed()
        else:
            checkpoint.write(save)
        for inputs, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(net(inputs), labels).backward()
            optimizer.step()
            if checkpoint.due():
                checkpoint.write(save)
        return [p.detach().numpy() for p in net.parameters()]

    return train


def compiled_once() -> None:
    """Has jax compile once for all that are forked. The folder goes with the process that forks."""
    global compiled
    compiled = tempfile.TemporaryDirectory(prefix="jax-")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = compiled.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    os.environ["JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES"] = "-1"


def of_jax() -> Train:
    compiled_once()
    import jax
    import jax.numpy as jnp
    import optax

    import rustle.jax

    def train(folder: Path, commitment: str) -> Iterable[np.ndarray]:
        params = {"b": jnp.zeros(7), "w": jnp.ones((16, 24)) / 8}
        data = jax.random.normal(jax.random.key(0), (32, 16))
        session = rustle.connect(f"inproc://{folder}?threads=1")
        checkpoint = Checkpoint(folder, session)
        privatizer, optimizer = rustle.jax.privatizer(session, commitment=commitment), optax.adam(0.05)
        loss = lambda p: jnp.mean(jnp.tanh(data @ p["w"])[:, :7] * p["b"]) + jnp.sum(p["w"] ** 2)
        gradient = jax.jit(jax.grad(loss))
        opt, noise = optimizer.init(params), privatizer.init(params)
        host = lambda: (jax.tree.map(np.asarray, (params, opt, noise)), session.cursor())
        if checkpoint.goes_on():
            (params, opt, noise), cursor = checkpoint.unpickle()
            session.resume(cursor, replay=commitment == "exact")
            checkpoint.resumed()
        else:
            checkpoint.pickle(host())
        while session.next_step < session.iterations:
            noisy, noise = privatizer.update(gradient(params), noise)
            updates, opt = optimizer.update(noisy, opt)
            params = optax.apply_updates(params, updates)
            if checkpoint.due():
                checkpoint.pickle(host())
        return [np.asarray(leaf) for leaf in jax.tree.leaves(params)]

    return train


def of_federated() -> Train:
    from rustle.federated import AdaptiveServer

    def train(folder: Path, commitment: str) -> Iterable[np.ndarray]:
        session = rustle.connect(f"inproc://{folder}?threads=1")
        checkpoint = Checkpoint(folder, session)
        size = session.dimension - 1
        setting = dict(clients_per_round=10, clip_norm=0.8, bit_noise=2.0, commitment=commitment)
        server = AdaptiveServer(session, np.zeros(size), **setting)
        if checkpoint.goes_on():
            server.load_state_dict(checkpoint.unpickle())
            checkpoint.resumed()
        else:
            checkpoint.pickle(server.state_dict())
        while server.round < server.rounds:
            server.step(np.random.default_rng(server.round).normal(size=(10, size)) / 10)
            if checkpoint.due():
                checkpoint.pickle(server.state_dict())
        return [server.parameters, np.array([server.clip_norm, server.tracked_norm])]

    return train


JOBS = {name: globals()[f"of_{name}"] for name in DIMENSIONS}
