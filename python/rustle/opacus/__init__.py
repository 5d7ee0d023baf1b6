"""Opacus's privacy engine with the noise of a plan.

::

    engine = rustle.opacus.PrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, plan="run/plan.toml", batches=batches
    )

Opacus clips, splits batches and writes checkpoints. Noise is fetched where Opacus would draw it, once per logical batch,
so ``BatchMemoryManager`` works unchanged.
"""

from __future__ import annotations

import os
from typing import Any, Literal
from urllib.parse import quote

import opacus
import torch
from opacus.optimizers import DPOptimizer
from torch.utils.data import DataLoader

from .. import _assumptions, errors
from .._batches import Batches
from .._native import Plan
from .._session import Session
from .._connect import connect
from .._round_guard import RoundGuard
from .._rounds import Rounds
from ..torch import Attachment, Noise
from ..torch._loader import like
from ..torch._order import Passes
from ._accountant import Accountant
from ._checks import check_arguments, check_batches, rank_of, ranks_of
from ._optimizer import is_within_batch, noised_optimizer

__all__ = ["Accountant", "PrivacyEngine"]


class PrivacyEngine(opacus.PrivacyEngine):
    """An ``opacus.PrivacyEngine`` whose noise is that of a plan."""

    def __init__(self, *, secure_mode: bool = False):
        super().__init__(accountant="rdp", secure_mode=secure_mode)
        self.accountant = Accountant()
        self.session: Session | None = None
        self.attachment: Attachment | None = None
        self._setting: dict[str, Any] = {}

    def make_private(  # type: ignore[override]
        self,
        *,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        data_loader: DataLoader,
        plan: Plan | str | os.PathLike[str],
        noise: Session | str | None = None,
        batches: Batches | None = None,
        steps_per_epoch: int | None = None,
        commitment: Literal["declared", "exact"] = "declared",
        divide_by: float | None = None,
        poisson_sampling: bool = False,
        clipping: str = "flat",
        **kwargs: Any,
    ) -> Any:
        """Makes a model private as ``opacus.PrivacyEngine.make_private`` does, with σ and clip norm from the plan.

        Args:
            plan: A plan, or its file.
            noise: A session, or a URL of :func:`rustle.connect`. By default an engine in this process whose ledger lies
                beside the plan's file.
            batches: The records of each step. Without them the loader must pass through the data in a fixed order, at
                least ``min_sep`` batches long.
            steps_per_epoch: The steps after which iterating the loader pauses, for programs that train in epochs; with
                ``batches`` alone, whose loader is the whole run otherwise.
            commitment: As in :func:`rustle.torch.attach`.
            divide_by: A public constant that the sums of a batch, over all ranks, are divided by. By default it is the
                expected batch size, which depends on the data, so that ε for add-remove is refused.

        With several ranks, wrap the module first (``DifferentiallyPrivateDistributedDataParallel``) and pass ``batches``
        with one seed on all of them: each rank receives its share of every batch.

        Each step must be that of the batch that the returned loader handed out for it: batches of another loader,
        batches that are left out or accumulated, and records beyond those of the batch are refused, and so is another
        clip norm or noise multiplier than the plan's.

        Returns:
            The module, the optimizer and the data loader to train with, and before the loader the criterion of ghost
            clipping.
        """
        check_arguments(kwargs, poisson_sampling=poisson_sampling, clipping=clipping, divide_by=divide_by)
        rank, ranks = rank_of(module)
        if batches is not None:
            check_batches(batches, data_loader, ranks)
        elif ranks > 1:
            text = f"the loaders of {ranks} ranks may select one record for several ranks; pass batches="
            raise errors.make("batches", text)
        dimension = sum(p.numel() for p in module.parameters() if p.requires_grad)
        session = _session(noise, plan, dimension)
        plan = session.plan if not isinstance(plan, Plan) else plan
        if plan.digest != session.plan.digest:
            raise errors.make(
                "plan", f"the session's job has plan {session.plan.digest}, given was {plan.digest}"
            )
        guard: RoundGuard
        if batches is None:
            if steps_per_epoch is not None:
                raise errors.make("invalid_argument", "steps_per_epoch is given; allowed: beside batches alone")
            guard, assumed = Passes(data_loader, session), None
            session.refuse("add-remove", "the loader's batches depend on how many records there are")
        else:
            guard = Rounds(batches, session, rank=rank, ranks=ranks, steps_per_epoch=steps_per_epoch)
            assumed = guard.sampling
            _assumptions.declare(session, batches, assumed, public_divisor=divide_by is not None)
        self.session = session
        self.accountant.session, self.accountant.batches = session, assumed
        self._setting = {
            "session": session,
            "named": module,
            "commitment": commitment,
            "batches": batches,
            "loader": data_loader,
            "divide_by": divide_by,
        }
        made = super().make_private(
            module=module,
            optimizer=optimizer,
            data_loader=data_loader,
            noise_multiplier=plan.noise_multiplier,
            max_grad_norm=plan.clip_norm,
            poisson_sampling=False,
            clipping=clipping,
            **kwargs,
        )
        # Two backward passes for one step would add each record twice.
        made[0].forbid_grad_accumulation()
        checked = like(data_loader, guard)
        noised: Any = made[1]
        checked.batch_sampler.before_start = lambda: _check_complete(noised)
        noised._steps.watch(made[0], checked)
        return *made[:-1], checked

    def make_private_with_epsilon(self, **_: Any) -> Any:
        text = "a plan sets the noise; create one with rustle.plan(epsilon=…, delta=…) and call make_private(plan=…)"
        raise errors.make("invalid_argument", text)

    def _prepare_optimizer(
        self, *, optimizer: torch.optim.Optimizer, expected_batch_size: float, **kwargs: Any
    ) -> DPOptimizer:
        if isinstance(optimizer, DPOptimizer):
            optimizer = optimizer.original_optimizer
        # The module decides, as in Opacus, whether the optimizer sums gradients over ranks.
        distributed = bool(kwargs.get("distributed", False))
        _, ranks = ranks_of(distributed)
        names = ("clipping", "distributed", "grad_sample_mode")
        choice = {name: kwargs.pop(name) for name in names if name in kwargs}
        generator = kwargs.pop("noise_generator", None)
        batches, loader = self._setting["batches"], self._setting["loader"]
        if self._setting["divide_by"] is not None:
            expected_batch_size = self._setting["divide_by"] / ranks
        elif batches is not None:
            expected_batch_size = _assumptions.expected_size(batches, len(loader.dataset))
            expected_batch_size /= ranks
        noise = Noise(
            self._setting["session"],
            self._setting["named"],
            commitment=self._setting["commitment"],
            group=None,
            reduce=distributed,
        )
        arguments = {
            "optimizer": optimizer,
            "expected_batch_size": expected_batch_size,
            "generator": generator,
            "secure_mode": self.secure_mode,
            **kwargs,
        }
        made = noised_optimizer(noise, choice, arguments)
        self.attachment = made._attachment
        return made


def _check_complete(optimizer: Any) -> None:
    # The batch would restart at its first record: with the sums so far, records would count twice.
    if is_within_batch(optimizer):
        text = "the loader restarts within a logical batch; call engine.attachment.skip() first, to leave that one out"
        raise errors.make("step", text)


def _session(noise: Session | str | None, plan: Any, dimension: int) -> Session:
    if isinstance(noise, Session):
        return noise
    if noise is not None:
        return connect(noise)
    if isinstance(plan, Plan):
        text = "noise is missing; allowed: a session or URL, or the plan's file instead of a plan"
        raise errors.make("invalid_argument", text)
    folder, path = os.path.dirname(os.path.abspath(plan)), quote(os.path.abspath(plan))
    return connect(f"inproc://{folder}?plan={path}&dimension={dimension}")
