"""Trainings of gradient canaries over each adapter, honest and with mistakes."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import tempfile
import warnings
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np

from .. import _planning, errors, schemes
from .._batches import Batches
from .._connect import connect
from .._native import Plan
from .._rounds import Rounds
from .._session import Session

#: Steps of an epoch, of which canaries have the first, and epochs.
BATCHES, EPOCHS = 3, 2

#: The length of a canary's gradient, in clip norms: clipping has something to do.
LENGTH = 3.0

#: Mistakes that can be planted, and what each does.
MISTAKES = {
    "divisor": "the noise is divided by twice the number that the sum is",
    "double": "each record is twice in a sum that has one row of noise",
    "reused": "one row of noise is in two sums",
    "unclipped": "gradients are as long as they are",
    "cap": "records take part in every step",
    "no-noise": "no noise is added",
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a training of canaries is: ``released = training(setting, included)``."""

    plan: Plan
    canaries: int
    mistake: str | None = None

    def makes(self, mistake: str) -> bool:
        return self.mistake == mistake

    def records(self, included: np.ndarray, ids: np.ndarray, canaries: np.ndarray) -> np.ndarray:
        """The gradients of records, unclipped: a canary's is along its own coordinate, all others are zero."""
        of_all = np.zeros((BATCHES * self.canaries, self.canaries), np.float32)
        of_all[canaries, np.arange(self.canaries)] = LENGTH * self.plan.clip_norm * included
        return of_all[ids]

    def taken(self, step: int) -> bool:
        """Whether canaries take part in a step."""
        return step % BATCHES == 0 or self.makes("cap")

    def clipped_sum(self, included: np.ndarray, step: int) -> np.ndarray:
        """The sum of a step's clipped gradients, as a program without mistakes or with some makes it."""
        length = LENGTH if self.makes("unclipped") else 1.0
        times = 2.0 if self.makes("double") else 1.0
        return (times * length * self.plan.clip_norm * included * self.taken(step)).astype(np.float32)


@functools.cache
def setting(epsilon: float, delta: float, canaries: int, mistake: str | None = None) -> Setting:
    """A plan of correlated noise in which a record takes part once an epoch."""
    plan = _planning.plan(
        iterations=BATCHES * EPOCHS,
        epsilon=epsilon,
        delta=delta,
        min_sep=BATCHES,
        max_participations=EPOCHS,
        mechanism="band-mf",
        size=BATCHES,
        float=True,
    )
    return Setting(plan.replace(dimension=canaries), canaries, mistake)


@contextlib.contextmanager
def session_of(plan: Plan) -> Iterator[Session]:
    """A session with an engine in this process, whose folder goes with it."""
    with tempfile.TemporaryDirectory(prefix="rustle-audit-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", errors.Unchecked)
        plan.save(Path(folder) / "plan.toml")
        with connect(f"inproc://{folder}") as session:
            yield session


def by_session(setting: Setting, included: np.ndarray) -> np.ndarray:
    """A loop of one's own over ``privatize_``."""
    released = []
    with session_of(setting.plan) as session:
        row = np.zeros(setting.canaries, np.float32)
        for step in range(session.iterations):
            total = setting.clipped_sum(included, step)
            if setting.makes("no-noise"):
                released.append(total)
            elif setting.makes("reused"):
                session.fetch_into(step, row if step % 2 == 0 else np.empty_like(row))
                released.append(total + row)
            elif setting.makes("divisor"):
                released.append(session.privatize_(total, step, divide_by=2.0))
            else:
                released.append(session.privatize_(total, step))
    return np.array(released)


def batches_of(setting: Setting) -> tuple[Batches, np.ndarray]:
    """Batches in a fixed order, and the records of the first, which are the canaries."""
    plan = setting.plan
    batches = Batches(
        schemes.fixed_order(BATCHES), BATCHES * setting.canaries, plan.iterations, os.urandom(32)
    )
    return batches, batches[0]


def by_torch(setting: Setting, included: np.ndarray) -> np.ndarray:
    """PyTorch: ``clipped_sum`` and ``attach``; with a mistake, gradients of the program's own making."""
    import torch

    from .. import torch as adapter

    plan = setting.plan
    model = torch.nn.Linear(setting.canaries, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    batches, canaries = batches_of(setting)
    divisor = float(setting.canaries)
    before, released = _weights(model), []
    with session_of(plan) as session:
        # Rounds refuse both.
        is_refused = setting.makes("cap") or setting.makes("no-noise")
        rounds = None if is_refused else iter(Rounds(batches, session))
        factor = 2.0 if setting.makes("divisor") else 1.0
        attachment = adapter.attach(
            optimizer, session, model, divide_by=factor * divisor, records=LENGTH * setting.canaries
        )
        if setting.makes("no-noise"):
            attachment.detach()
        for step in range(plan.iterations):
            ids = canaries if rounds is None else next(rounds)
            if setting.mistake is None:
                inputs = torch.from_numpy(setting.records(included, ids, canaries))
                adapter.clipped_sum(model, _output, inputs, clip_norm=plan.clip_norm, divide_by=divisor)
            else:
                # clipped_sum and attach refuse most of these: a program that clips by itself.
                total = setting.clipped_sum(included, step) / divisor
                model.weight.grad = torch.from_numpy(total.astype(np.float32))[None, :]
            optimizer.step()
            after = _weights(model)
            released.append((before - after) * divisor)
            before = after
    return np.array(released)


def by_opacus(setting: Setting, included: np.ndarray) -> np.ndarray:
    """Opacus: ``PrivacyEngine.make_private``."""
    import torch

    from .. import opacus as adapter

    model: Any = torch.nn.Linear(setting.canaries, 1, bias=False)
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=1.0)
    batches, canaries = batches_of(setting)
    inputs = setting.records(included, np.arange(BATCHES * setting.canaries), canaries)
    data = torch.utils.data.TensorDataset(torch.from_numpy(inputs))
    divisor = float(setting.canaries)
    released = []
    with session_of(setting.plan) as session:
        model, optimizer, loader = adapter.PrivacyEngine().make_private(
            module=model,
            optimizer=optimizer,
            data_loader=torch.utils.data.DataLoader(data, batch_size=1),
            plan=session.plan,
            noise=session,
            batches=batches,
            divide_by=divisor,
            loss_reduction="sum",
        )
        before = _weights(model)
        for (inputs,) in loader:
            optimizer.zero_grad()
            model(inputs).sum().backward()
            optimizer.step()
            after = _weights(model)
            released.append((before - after) * divisor)
            before = after
    return np.array(released)


def by_jax(setting: Setting, included: np.ndarray) -> np.ndarray:
    """JAX: the privatizer."""
    import jax.numpy as jnp

    from .. import jax as adapter

    batches, canaries = batches_of(setting)
    released = []
    with session_of(setting.plan) as session:
        rounds = Rounds(batches, session)
        privatizer = adapter.privatizer(session)
        state = privatizer.init(jnp.zeros(setting.canaries))
        for ids in rounds:
            gradients = jnp.asarray(setting.records(included, ids, canaries))
            norms = jnp.linalg.norm(gradients, axis=1, keepdims=True)
            total = (gradients / jnp.maximum(norms / setting.plan.clip_norm, 1.0)).sum(axis=0)
            noisy, state = privatizer.update(total, state)
            released.append(np.asarray(noisy))
    return np.array(released)


def by_federated(setting: Setting, included: np.ndarray) -> np.ndarray:
    """Federated averaging: the server clips clients' updates."""
    from .. import federated

    batches, canaries = batches_of(setting)
    released, cohort = [], float(setting.canaries)
    with session_of(setting.plan) as session:
        server = federated.Server(
            session,
            np.zeros(setting.canaries),
            clients_per_round=cohort,
            optimizer=federated.Sgd(1.0, momentum=0.0),
        )
        before = server.parameters
        for ids in batches:
            # A client with a zero update changes nothing and takes time.
            updates = setting.records(included, ids, canaries)
            server.step(update for update in updates[np.any(updates, axis=1)])
            released.append((server.parameters - before) * cohort)
            before = server.parameters
    return np.array(released)


def _output(model: Any, inputs: Any) -> Any:
    return model(inputs).sum()


def _weights(model: Any) -> np.ndarray:
    (weights,) = model.parameters()
    return weights.detach().numpy().reshape(-1).astype(np.float64)


#: Trainings by name, with the module that each needs.
TRAININGS: dict[str, tuple[str, Callable[[Setting, np.ndarray], np.ndarray]]] = {
    "session": ("numpy", by_session),
    "federated": ("numpy", by_federated),
    "torch": ("torch", by_torch),
    "opacus": ("opacus", by_opacus),
    "jax": ("jax", by_jax),
}

#: Mistakes that a training's own calls allow.
PLANTED = {
    "session": list(MISTAKES),
    "torch": [name for name in MISTAKES if name != "reused"],
}
