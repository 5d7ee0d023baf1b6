"""How much of a training step in PyTorch is waiting for noise."""

from __future__ import annotations

import contextlib
import itertools
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import figures
import sessions
import torch

import rustle
import rustle.torch

#: Waiting for noise: of a step at the median, and of all steps together.
LIMIT = 0.02


@dataclass(frozen=True)
class Model:
    name: str
    #: Widths of layers, of which all but the last end in tanh.
    widths: tuple[int, ...]
    batch: int
    #: Steps of one turn.
    steps: int
    #: How many steps are reserved, beside none and one: some tens of milliseconds' worth.
    reserved: int

    @property
    def dimension(self) -> int:
        return sum(wide * (narrow + 1) for narrow, wide in itertools.pairwise(self.widths))


#: The MLP of the digits examples at their batch, and one of 10 million parameters.
MODELS = (
    Model("digits MLP", (64, 32, 10), 100, 100, 64),
    Model("10M MLP", (784, 2560, 2560, 512, 10), 64, 6, 4),
)


class Training:
    """An MLP trained by clipped gradients of single records, as plain PyTorch makes them for linear layers."""

    def __init__(self, model: Model, seed: int = 0):
        torch.manual_seed(seed)
        linear = [torch.nn.Linear(*pair) for pair in itertools.pairwise(model.widths)]
        between = itertools.chain.from_iterable((layer, torch.nn.Tanh()) for layer in linear)
        self.layers, self.net = linear, torch.nn.Sequential(*list(between)[:-1])
        self.batch = model.batch
        self.inputs = torch.randn(model.batch, model.widths[0])
        self.labels = torch.randint(0, model.widths[-1], (model.batch,))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01, momentum=0.9)

    def gradients(self) -> None:
        """Into ``.grad``: Σ of gradients of norm at most one, over the batch's size.

        A record's gradient has the squared norm (‖x‖² + 1)·‖δ‖² in a layer.
        """
        seen, value = [], self.inputs
        for layer in self.net:
            out = layer(value)
            if isinstance(layer, torch.nn.Linear):
                seen.append((layer, value, out))
            value = out
        loss = torch.nn.functional.cross_entropy(value, self.labels, reduction="sum")
        errors = torch.autograd.grad(loss, [out for _, _, out in seen])
        with torch.no_grad():
            pairs = zip(seen, errors, strict=True)
            squares = sum((x.square().sum(1) + 1) * e.square().sum(1) for (_, x, _), e in pairs)
            scale = (1 / squares.sqrt().clamp(min=1.0) / self.batch)[:, None]
            for (layer, x, _), error in zip(seen, errors, strict=True):
                clipped = error * scale
                layer.weight.grad, layer.bias.grad = clipped.T @ x, clipped.sum(0)

    def step(self) -> None:
        self.gradients()
        self.optimizer.step()


@dataclass
class Run:
    """One way to train. Seconds of each step; in them of waiting until its row was here, and in all of the call that
    waits and adds the row to the gradients."""

    training: Training
    session: rustle.Session | None = None
    attachment: rustle.torch.Attachment | None = None
    #: Steps reserved before a step's gradients are computed.
    reserved: int = 0
    steps: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    calls: list[float] = field(default_factory=list)
    _called: float = 0.0

    def attach(self, session: rustle.Session, reserved: int) -> None:
        trained = (self.training.optimizer, session, self.training.net)
        self.attachment = rustle.torch.attach(*trained, divide_by=float(self.training.batch))
        self.session, self.reserved = session, reserved
        add_to = session.add_to

        def timed(*arguments: Any) -> None:
            started = time.perf_counter()
            add_to(*arguments)
            self._called += time.perf_counter() - started

        session.add_to = timed

    def turn(self, count: int, measured: bool) -> None:
        for _ in range(count):
            waited = self.session.waited if self.session else 0.0
            self._called, started = 0.0, time.perf_counter()
            if self.reserved:
                self.attachment.reserve(self.reserved)
            self.training.step()
            took = time.perf_counter() - started
            if measured:
                self.steps.append(took)
                self.waits.append(self.session.waited - waited if self.session else 0.0)
                self.calls.append(self._called)


def measure(folder: Path, rounds: int, quick: bool) -> list[dict[str, Any]]:
    models = MODELS[:1] if quick else MODELS
    return [found for model in models for found in _of(model, folder / model.name.replace(" ", "-"), rounds)]


def _of(model: Model, folder: Path, rounds: int) -> list[dict[str, Any]]:
    made = sessions.plan(model.dimension, max(200, model.steps * (rounds + 1)))
    with contextlib.ExitStack() as open_ones:
        runs = {"no noise": Run(Training(model))}
        for way, reserved in itertools.product(sessions.WAYS, (0, 1, model.reserved)):
            name = f"{way}, {reserved} reserved" if reserved else way
            session = open_ones.enter_context(sessions.session(way, folder / f"{way}-{reserved}", made))
            runs[name] = Run(Training(model))
            runs[name].attach(session, reserved)
        for round in range(rounds + 1):
            for run in runs.values():
                # The first turn warms up.
                run.turn(model.steps, measured=round > 0)
    return [_found(model, way, run, runs["no noise"]) for way, run in runs.items()]


def _found(model: Model, way: str, run: Run, bare: Run) -> dict[str, Any]:
    found = {
        "model": model.name,
        "parameters": model.dimension,
        "batch": model.batch,
        "way": way,
        "step_seconds": figures.spread(run.steps),
        "step_of_bare": figures.spread(run.steps)["median"] / figures.spread(bare.steps)["median"],
    }
    if run is not bare:
        found["wait_seconds"] = figures.spread(run.waits)
        found["call_seconds"] = figures.spread(run.calls)
        found["wait_of_step"] = figures.spread([w / s for w, s in zip(run.waits, run.steps, strict=True)])
        # A few long waits count here as they do not in a median.
        found["wait_of_all"] = sum(run.waits) / sum(run.steps)
        found["limit"] = LIMIT
        found["met"] = max(found["wait_of_step"]["median"], found["wait_of_all"]) <= LIMIT
    return found


def table(found: list[dict[str, Any]]) -> str:
    rows = []
    for one in found:
        waits = ("", "", "", "", "") if "limit" not in one else (
            figures.shown(one["call_seconds"], 1e-3),
            figures.shown(one["wait_seconds"], 1e-3),
            figures.percent(one["wait_of_step"]),
            f"{one['wait_of_all']:.1%}",
            "yes" if one["met"] else "no",
        )
        step = figures.shown(one["step_seconds"], 1e-3)
        rows.append([one["model"], one["way"], step, f"{one['step_of_bare']:.2f}", *waits])
    header = ["model", "noise", "step, ms", "× without", "waiting and adding, ms", "waiting, ms", "of the step", "of all steps", f"≤ {LIMIT:.0%}"]
    return figures.table("A training step in PyTorch: median (least to greatest)", header, rows)
