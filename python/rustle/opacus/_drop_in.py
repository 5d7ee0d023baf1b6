"""Plans and batches made from the arguments that Opacus's own engine takes."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import DataLoader

from .. import _planning, errors, schemes
from .._batches import Batches
from .._native import Plan
from ..sampling import CyclicPoisson
from ..torch import layout

# How near the least noise multiplier a search ends.
_SAME = 1e-6
# Searches of two versions may end at other last digits; other arguments change figures by more.
_FOLDER = 1e-4
# Noise multipliers that a search under Poisson sampling tries.
_LEAST, _MOST = 1e-2, 1e4


class Wish:
    """What a program that was written for Opacus asks of its noise, and the run that gives it.

    Args:
        epochs: The passes through the loader.
        clip_norm: ζ: Opacus's ``max_grad_norm``.
        noise_multiplier: σ of independent noise, or None for ``promise``.
        promise: (ε, δ) of the whole run, or None for ``noise_multiplier``.
        poisson: Whether batches are sampled by Poisson sampling, as Opacus's are by default.
        mechanism, size: As of :func:`rustle.plan`.
    """

    def __init__(
        self,
        module: torch.nn.Module,
        loader: DataLoader,
        *,
        epochs: Any,
        clip_norm: Any,
        noise_multiplier: float | None = None,
        promise: tuple[float, float] | None = None,
        poisson: bool = False,
        mechanism: str | None = None,
        size: int | None = None,
    ):
        self._check(loader, epochs, clip_norm, noise_multiplier)
        if poisson and mechanism not in (None, "identity"):
            text = f"mechanism is {mechanism} and poisson_sampling is True; allowed: identity, whose account is amplified"
            raise errors.make("invalid_argument", text)
        self.layout = [(name, list(shape)) for name, shape in layout(module)]
        self.epochs, self.clip_norm = int(epochs), float(clip_norm)
        self.steps_per_epoch, self.records = len(loader), len(loader.dataset)  # type: ignore[arg-type]
        self.noise_multiplier, self.promise, self.poisson = noise_multiplier, promise, poisson
        self.mechanism, self.size = ("identity" if poisson else mechanism), size

    @staticmethod
    def _check(loader: DataLoader, epochs: Any, clip_norm: Any, noise_multiplier: float | None) -> None:
        if not isinstance(epochs, int) or epochs < 1:
            text = f"epochs is {epochs}; allowed: 1 or more, the passes of the whole training, which its noise depends on"
            raise errors.make("invalid_argument", text)
        # Opacus takes one norm for each parameter too, for clipping other than flat.
        if not isinstance(clip_norm, (int, float)) or not clip_norm > 0:
            raise errors.make("invalid_argument", f"max_grad_norm is {clip_norm}; allowed: one number above zero")
        if noise_multiplier is not None and not (noise_multiplier > 0 and math.isfinite(noise_multiplier)):
            text = f"noise_multiplier is {noise_multiplier}; allowed: finite and above zero"
            raise errors.make("invalid_argument", text)
        if not hasattr(loader.dataset, "__len__") or not len(loader):
            raise errors.make("batches", "the loader has no batches that can be counted; allowed: a data set with a length")

    def run(self, folder: str | os.PathLike[str]) -> tuple[Path, Batches]:
        """Returns the plan's file in the folder and the batches. Both are made where the folder has none.

        Raises:
            rustle.errors.PlanError: The folder has the plan of other arguments.
        """
        path = Path(folder) / "plan.toml"
        if path.exists():
            self._check_same(Plan.load(path), path)
        else:
            self._plan().save(path)
        seed = Batches.seed_file(Path(folder) / "batches.key")
        return path, Batches(self._scheme(), self.records, self._iterations, seed)

    @property
    def _iterations(self) -> int:
        return self.epochs * self.steps_per_epoch

    def _scheme(self) -> schemes.Scheme:
        if self.poisson:
            return schemes.poisson(1 / self.steps_per_epoch)
        return schemes.fixed_order(self.steps_per_epoch)

    def _participation(self) -> tuple[int, int]:
        return (1, self._iterations) if self.poisson else (self.steps_per_epoch, self.epochs)

    def _plan(self) -> Plan:
        apart, often = self._participation()
        # The best mechanism does not depend on ε, which only scales its noise.
        epsilon, delta = self.promise or (4.0, 1e-6)
        plan = _planning.plan(
            iterations=self._iterations,
            epsilon=epsilon,
            delta=delta,
            parameters=self.layout,
            min_sep=apart,
            max_participations=often,
            clip_norm=self.clip_norm,
            mechanism=self.mechanism,
            size=self.size,
        )
        if self.noise_multiplier is not None:
            return plan.replace(noise_multiplier=self.noise_multiplier * self._cost(plan))
        return self._under_sampling(plan) if self.poisson else plan

    def _cost(self, plan: Plan) -> float:
        """Returns how much more noise a plan's row needs than independent noise, for the same privacy."""
        if plan.mechanism == "identity":
            return 1.0
        # Independent noise has sensitivity √k over the k participations of a record.
        return plan.privacy(1e-6)["sensitivity"] / math.sqrt(self._participation()[1])

    def _epsilon(self, plan: Plan, delta: float) -> float:
        sampling = CyclicPoisson(1 / self.steps_per_epoch, "independent") if self.poisson else None
        found = _planning.report(plan, delta=delta, batches=sampling, format="json")
        return json.loads(found)["guarantees"][0]["epsilon"]

    def _under_sampling(self, plan: Plan) -> Plan:
        """Returns the plan with the least noise that keeps (ε, δ) under Poisson sampling, which the planner leaves out."""
        assert self.promise is not None
        epsilon, delta = self.promise
        low, high = _LEAST, plan.noise_multiplier
        while self._epsilon(plan.replace(noise_multiplier=high), delta) > epsilon:
            low, high = high, 2 * high
            if high > _MOST:
                raise errors.make("out_of_reach", f"no noise multiplier up to {_MOST:g} keeps ε {epsilon} at δ {delta}")
        while high > low * (1 + _SAME):
            middle = math.sqrt(low * high)
            keeps = self._epsilon(plan.replace(noise_multiplier=middle), delta) <= epsilon
            low, high = (low, middle) if keeps else (middle, high)
        return plan.replace(noise_multiplier=high)

    def _check_same(self, plan: Plan, path: Path) -> None:
        apart, often = self._participation()
        compared: list[tuple[str, Any, Any]] = [
            ("iterations", plan.iterations, self._iterations),
            ("min_sep", plan.min_sep, apart),
            ("max_participations", plan.max_participations, often),
            ("clip_norm", plan.clip_norm, self.clip_norm),
            ("parameters", [(name, list(shape)) for name, shape in plan.parameters], self.layout),
        ]
        if self.mechanism is not None:
            compared.append(("mechanism", plan.mechanism, self.mechanism))
        for name, has, asked in compared:
            _check_equal(path, name, has, asked)
        if self.promise is not None:
            _check_equal(path, "epsilon", self._epsilon(plan, self.promise[1]), self.promise[0])
        else:
            _check_equal(path, "noise_multiplier", plan.noise_multiplier / self._cost(plan), self.noise_multiplier)


def _check_equal(path: Path, name: str, has: Any, asked: Any) -> None:
    is_same = math.isclose(has, asked, rel_tol=_FOLDER) if isinstance(has, float) else has == asked
    if not is_same:
        text = (
            f"{path} is the plan of other arguments: its {name} is {has}, asked for was {asked}; allowed: the arguments "
            "that the run began with, or another folder"
        )
        raise errors.make("plan", text)
