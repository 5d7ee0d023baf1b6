"""A training step with noise over one without, by mechanism, beside independent noise drawn in PyTorch as Opacus draws it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import figures
import sessions
import steps
import torch

#: Mechanisms by the names of the results, with their size.
MECHANISMS = {"identity": ("identity", None), "BLT-4": ("blt", 4), "band-16": ("band-toeplitz", 16)}
DRAWN = "torch.normal"


class DrawnHere(steps.Training):
    """Noise by `torch.normal` for each parameter, as Opacus's optimizer does it: no plan, no ledger, nothing correlated."""

    def step(self) -> None:
        self.gradients()
        with torch.no_grad():
            for parameter in self.net.parameters():
                noise = torch.normal(mean=0.0, std=1.0, size=parameter.shape)
                parameter.grad = parameter.grad + noise / self.batch
        self.optimizer.step()


def measure(folder: Path, rounds: int, quick: bool) -> list[dict[str, Any]]:
    model = steps.MODELS[0 if quick else 1]
    with contextlib.ExitStack() as open_ones:
        runs = {"no noise": steps.Run(steps.Training(model)), DRAWN: steps.Run(DrawnHere(model))}
        for name, (mechanism, size) in MECHANISMS.items():
            made = sessions.plan(model.dimension, max(200, model.steps * (rounds + 1)), mechanism, size)
            session = open_ones.enter_context(sessions.session("inproc", folder / mechanism, made))
            runs[name] = steps.Run(steps.Training(model))
            runs[name].attach(session, 1)
        for round in range(rounds + 1):
            for run in runs.values():
                # The first turn warms up.
                run.turn(model.steps, measured=round > 0)
    spreads = {name: figures.spread(run.steps) for name, run in runs.items()}
    without, drawn = spreads["no noise"]["median"], spreads[DRAWN]["median"]
    return [
        {
            "model": model.name,
            "parameters": model.dimension,
            "noise": name,
            "step_seconds": spread,
            "step_of_bare": spread["median"] / without,
            "step_of_drawn": spread["median"] / drawn,
        }
        for name, spread in spreads.items()
    ]


def table(found: list[dict[str, Any]]) -> str:
    header = ["model", "noise", "step, ms", "× without", f"× {DRAWN}"]
    rows = [
        [one["model"], one["noise"], figures.shown(one["step_seconds"], 1e-3), f"{one['step_of_bare']:.2f}", f"{one['step_of_drawn']:.2f}"]
        for one in found
    ]
    title = "A training step with noise, one row reserved: median (least to greatest)"
    return figures.table(title, header, rows)
