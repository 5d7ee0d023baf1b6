"""Opacus's privacy engine with the noise of a plan.

::

    engine = rustle.opacus.PrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, plan="run/plan.toml", batches=batches
    )

Programs that pass Opacus's own arguments, ``noise_multiplier`` or those of ``make_private_with_epsilon``, need no plan:
the engine makes it, with its batches, in a folder. Its noise is on a grid, as of :func:`rustle.begin` (docs/grid.md).

Opacus clips, splits batches and writes checkpoints; on a grid the engine clips and sums itself, norms in float64 and sums in
float32, whatever autocast and TF32 do. Noise is fetched where Opacus would draw it, once per logical batch,
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

from .. import _arguments, _assumptions, errors
from .._batches import Batches
from .._connect import connect
from .._native import Plan
from .._round_guard import RoundGuard
from .._rounds import Rounds
from .._run_request import RunRequest
from .._session import Session
from ..torch import Attachment, Noise, layout
from ..torch._loader import like
from ..torch._order import Passes
from ._accountant import Accountant
from ._checks import check_arguments, check_batches, check_clip_schedule, check_ghost, check_module, rank_of, ranks_of
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
        plan: Plan | str | os.PathLike[str] | None = None,
        noise: Session | str | None = None,
        batches: Batches | None = None,
        steps_per_epoch: int | None = None,
        commitment: Literal["declared", "exact"] = "declared",
        divide_by: float | None = None,
        poisson_sampling: bool = False,
        clipping: str = "flat",
        noise_multiplier: float | None = None,
        max_grad_norm: float | None = None,
        epochs: int | None = None,
        folder: str | os.PathLike[str] = "run",
        mechanism: str | None = None,
        size: int | None = None,
        float: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Makes a model private as ``opacus.PrivacyEngine.make_private`` does, with σ and clip norm from a plan.

        With ``plan`` the noise is that plan's. With ``noise_multiplier`` and ``max_grad_norm``, Opacus's own arguments,
        and ``epochs`` the engine makes a plan that costs as much privacy as independent noise of that multiplier on
        the same batches, and has the least error; see :meth:`make_private_with_epsilon` for folder and batches.

        Args:
            plan: A plan, or its file.
            noise: A session, or a URL of :func:`rustle.connect`. By default an engine in this process whose ledger lies
                beside the plan's file.
            batches: The records of each step. Without them the loader must pass through the data in a fixed order, at
                least ``min_sep`` batches long.
            steps_per_epoch: The steps after which iterating the loader pauses, for programs that train in epochs; with
                ``batches`` alone, whose loader is the whole run otherwise.
            commitment: As in :func:`rustle.torch.attach`.
            noise_multiplier, max_grad_norm, epochs, folder, mechanism, size, poisson_sampling, float: In the place of a plan.
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
        if plan is None:
            request = _request(
                module,
                data_loader,
                epochs=epochs,
                clip_norm=max_grad_norm,
                noise_multiplier=_given(noise_multiplier),
                poisson=poisson_sampling,
                mechanism=mechanism,
                size=size,
                floats=float,
            )
            given = {"noise": noise, "batches": batches, "steps_per_epoch": steps_per_epoch}
            settings = {"commitment": commitment, "divide_by": divide_by, "clipping": clipping, **kwargs}
            return self._make(request, folder, module, optimizer, data_loader, {**given, **settings})
        planned = {"noise_multiplier": noise_multiplier, "max_grad_norm": max_grad_norm, "epochs": epochs}
        planned |= {"mechanism": mechanism, "size": size, "float": float or None}
        kwargs |= {name: value for name, value in planned.items() if value is not None}
        check_arguments(kwargs, poisson_sampling=poisson_sampling, clipping=clipping, divide_by=divide_by)
        rank, ranks = rank_of(module)
        if batches is not None:
            check_batches(batches, data_loader, ranks)
        elif ranks > 1:
            text = f"the loaders of {ranks} ranks may select one record for several ranks; pass batches="
            raise errors.make("batches", text)
        dimension = sum(p.numel() for p in module.parameters() if p.requires_grad)
        before = self._state()
        session = _session(noise, plan, dimension)
        try:
            ranked = (rank, ranks, steps_per_epoch)
            settings = {"commitment": commitment, "divide_by": divide_by, "clipping": clipping, **kwargs}
            return self._with(session, plan, module, optimizer, data_loader, batches, ranked, settings)
        except BaseException:
            # Nothing of the call is left: a folder whose session this engine opened is free again.
            if self.attachment is not None and self.attachment is not before[1]:
                self.attachment.detach()
            self.session, self.attachment, self._setting, self.accountant.session, self.accountant.batches = before
            if session is not noise:
                session.close()
            raise

    def _state(self) -> tuple[Any, ...]:
        return self.session, self.attachment, self._setting, self.accountant.session, self.accountant.batches

    def _with(
        self,
        session: Session,
        plan: Any,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        data_loader: DataLoader,
        batches: Batches | None,
        ranked: tuple[int, int, int | None],
        settings: dict[str, Any],
    ) -> Any:
        """Returns what :meth:`make_private` does, with a session's noise."""
        rank, ranks, steps_per_epoch = ranked
        commitment, divide_by = settings.pop("commitment"), settings.pop("divide_by")
        if session.is_on_grid:
            check_ghost(settings)
        check_clip_schedule(session, settings)
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
            **settings,
        )
        # Two backward passes for one step would add each record twice.
        made[0].forbid_grad_accumulation()
        checked = like(data_loader, guard)
        noised: Any = made[1]
        checked.batch_sampler.before_start = lambda: _check_complete(noised)
        noised._steps.watch(made[0], checked)
        return *made[:-1], checked

    def make_private_with_epsilon(  # type: ignore[override]
        self,
        *,
        module: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        data_loader: DataLoader,
        target_epsilon: float,
        target_delta: float,
        epochs: int,
        max_grad_norm: float,
        poisson_sampling: bool = False,
        folder: str | os.PathLike[str] = "run",
        mechanism: str | None = None,
        size: int | None = None,
        float: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Makes a model private at (ε, δ) over ``epochs`` passes: makes the plan and the batches, and begins the run.

        The folder keeps plan, batch seed, key and ledger; called again with the same arguments, it continues with them.
        Batches have as many records as the loader's, in another order, and the returned loader pauses after each epoch.

        Args:
            target_epsilon, target_delta: (ε, δ) of the whole run, by Rustle's account for zeroing out a record.
            epochs: The passes of the whole training; steps beyond them are refused.
            max_grad_norm: ζ, the clip norm.
            poisson_sampling: False: each record is in one batch of every epoch, and the plan is the one with the least
                error for that. True: batches are sampled as Opacus samples them, and noise is independent.
            folder: The folder of the run. Never copy it to train twice.
            mechanism, size: As of :func:`rustle.plan`; by default the mechanism with the least error.
            float: As of :func:`rustle.begin`. Otherwise noise is on a grid, for float32 parameters and without ghost clipping, with
                the κ of norms in float32: no less than the engine's sums need, whose norms are added up in float64.
            kwargs: Those of :meth:`make_private` beside a plan.

        Raises:
            rustle.errors.PlanError: The folder has the plan of other arguments.
            rustle.errors.InvalidArgument: No grid covers the batches or the model; nothing was written.
        """
        request = _request(
            module,
            data_loader,
            epochs=epochs,
            clip_norm=max_grad_norm,
            promise=(target_epsilon, target_delta),
            poisson=poisson_sampling,
            mechanism=mechanism,
            size=size,
            floats=float,
        )
        return self._make(request, folder, module, optimizer, data_loader, kwargs)

    def _make(
        self, request: RunRequest, folder: Any, module: Any, optimizer: Any, loader: DataLoader, settings: dict[str, Any]
    ) -> Any:
        for name in ("plan", "batches", "steps_per_epoch", "noise"):
            if settings.pop(name, None) is not None:
                text = f"{name} is given without a plan of yours; allowed: none, as the engine makes plan and batches"
                raise errors.make("invalid_argument", text)
        if rank_of(module)[1] > 1:
            text = "several ranks without a plan; allowed: plan=, batches= and noise= of a cluster's job"
            raise errors.make("invalid_argument", text)
        if not request.floats:
            check_module(module, settings)
        path, batches = request.run(folder)
        made = self.make_private(
            module=module,
            optimizer=optimizer,
            data_loader=loader,
            plan=path,
            batches=batches,
            steps_per_epoch=request.steps_per_epoch,
            **settings,
        )
        assert self.session is not None
        self.session.rounds.largest = request.largest
        return made

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


def _request(module: torch.nn.Module, loader: DataLoader, *, clip_norm: Any, **arguments: Any) -> RunRequest:
    # Opacus takes one norm for each parameter too, for clipping other than flat.
    if not isinstance(clip_norm, (int, float)) or not clip_norm > 0:
        raise errors.make("invalid_argument", f"max_grad_norm is {clip_norm}; allowed: one number above zero")
    if not hasattr(loader.dataset, "__len__") or not len(loader):
        text = "the loader has no batches that can be counted; allowed: a data set with a length"
        raise errors.make("batches", text)
    records: int = len(loader.dataset)  # type: ignore[arg-type]
    return RunRequest(layout(module), records, steps_per_epoch=len(loader), clip_norm=clip_norm, **arguments)


def _given(noise_multiplier: float | None) -> float:
    if noise_multiplier is None:
        text = (
            "plan is missing; allowed: a plan or its file, or noise_multiplier, max_grad_norm and epochs, or "
            "make_private_with_epsilon"
        )
        raise errors.make("invalid_argument", text)
    return noise_multiplier


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
    plan = _arguments.path("plan", plan)
    folder, path = os.path.dirname(os.path.abspath(plan)), quote(os.path.abspath(plan))
    return connect(f"inproc://{folder}?plan={path}&dimension={dimension}")
