"""Opacus: its engine with a plan's noise.

::

    engine = rustle.opacus.PrivacyEngine()
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, plan="run/plan.toml", batches=batches
    )

Clipping, virtual batches and checkpoints are Opacus's. Noise is fetched where Opacus would draw it, once a logical
batch, so that ``BatchMemoryManager`` needs nothing special.
"""

from __future__ import annotations

import json
import math
import os
from typing import Any, Iterator, Literal
from urllib.parse import quote

import opacus
import torch
from opacus.accountants.accountant import IAccountant
from opacus.data_loader import dtype_safe, shape_safe, wrap_collate_with_empty
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from opacus.optimizers import DPOptimizer, get_optimizer_class
from opacus.optimizers.optimizer import _check_processed_flag, _mark_as_processed
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler as PlainBatchSampler
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler
from torch.utils.data.dataloader import default_collate

from . import _assumptions, errors
from ._batches import Batches
from ._native import Plan, statement
from ._planning import _assumed
from ._session import Session, connect
from .torch import Attachment, BatchSampler, Noise, _is_distributed


class Accountant(IAccountant):
    """ε of what the job has released, by Rustle's account of the plan."""

    def __init__(self, session: Session | None = None, batches: tuple[Any, ...] | None = None):
        self.history: list[tuple[float, float, int]] = []
        self.session, self.batches = session, batches

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        if self.history and self.history[-1][:2] == (noise_multiplier, sample_rate):
            steps = self.history.pop()[2] + 1
        else:
            steps = 1
        self.history.append((noise_multiplier, sample_rate, steps))

    def get_epsilon(self, delta: float, *, neighbouring: str = "zero-out", **_: Any) -> float:
        """ε of the rows released so far, those of abandoned branches among them."""
        figures = self._statement(delta, neighbouring)["released"]
        return figures["guarantees"][0]["epsilon"] if figures["rows"] else 0.0

    def planned_epsilon(self, delta: float, *, neighbouring: str = "zero-out") -> float:
        """ε of the whole run, and of what was abandoned on the way."""
        return self._statement(delta, neighbouring)["guarantees"][0]["epsilon"]

    def _statement(self, delta: float, neighbouring: str) -> dict[str, Any]:
        if self.session is None:
            raise errors.make("not_resumed", "no model was made private yet; call make_private first")
        report = self.session._native.report()
        return json.loads(statement(None, report, [delta], neighbouring, _assumed(self.batches), "json"))

    def __len__(self) -> int:
        return sum(steps for _, _, steps in self.history)

    @classmethod
    def mechanism(cls) -> str:
        return "rustle"


class _Noised:
    """Put before one of Opacus's optimizers: what it would draw comes from a session."""

    _noise: Noise
    _names: dict[int, str]

    def pre_step(self: Any, closure: Any = None) -> Any:
        noised = [p for p in self.params if id(p) in self._names]
        self._noise.check(self.original_optimizer, noised)
        return super().pre_step(closure)  # type: ignore[misc]

    @torch.no_grad()
    def add_noise(self: Any) -> None:
        for p in self.params:
            _check_processed_flag(p.summed_grad)
        sums = {self._names[id(p)]: p.summed_grad for p in self.params}
        noisy = {name: value.clone() for name, value in sums.items()}
        if not self._noise.add_all(noisy, 1.0):
            self._noise.add(self._noise.row(sums, 1.0), noisy, 1.0)
        for p in self.params:
            p.grad = noisy[self._names[id(p)]].view_as(p)
            _mark_as_processed(p.summed_grad)

    def forget(self: Any) -> None:
        """Drops what was summed of a logical batch."""
        self._step_skip_queue.clear()
        self._is_last_step_skipped = False
        self.zero_grad()


class _Attachment(Attachment):
    optimizer: Any = None

    def skip(self) -> None:
        super().skip()
        self.optimizer.forget()


class _Rounds(BatchSampler):
    optimizer: Any = None

    def __iter__(self) -> Iterator[list[int]]:
        # The batch comes again from its first record on: with what was summed of it, records would count twice.
        if self.optimizer is not None and (
            self.optimizer._is_last_step_skipped or self.optimizer._step_skip_queue
        ):
            text = "the loader begins anew within a logical batch; engine.attachment.skip() first leaves that one out"
            raise errors.make("step", text)
        for batch in super().__iter__():
            yield batch
            self._check_stepped()

    def _check_stepped(self) -> None:
        """Refuses a batch behind one that its step was put off for: two batches would have one row."""
        if self.optimizer is None:
            return
        # Parts of a batch may have been drawn ahead; the last one's word is the batch's.
        queue = self.optimizer._step_skip_queue
        if queue[-1] if queue else self.optimizer._is_last_step_skipped:
            text = (
                "signal_skip_step(True) put off the step of the whole last batch; allowed: one step for each batch of "
                "batches=, which may be taken in parts (BatchMemoryManager), or engine.attachment.skip()"
            )
            raise errors.make("step", text)


class PrivacyEngine(opacus.PrivacyEngine):
    """``opacus.PrivacyEngine`` whose noise is a plan's."""

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
        commitment: Literal["declared", "exact"] = "declared",
        poisson_sampling: bool = False,
        clipping: str = "flat",
        **kwargs: Any,
    ) -> Any:
        """As Opacus's, with σ and clip norm from the plan.

        ``plan``: a plan, or its file. ``noise``: a session or a URL of :func:`rustle.connect`; for a plan's file an
        engine in this process, whose ledger lies beside the file, where left away. ``batches``: who takes part in each
        step; without them the loader must go through the data in a fixed order, at least ``min_sep`` batches long, and
        each time to its end.

        With several ranks wrap the module first (``DifferentiallyPrivateDistributedDataParallel``) and give ``batches``
        with one seed on all of them: each rank gets its share of every batch.
        """
        _check_arguments(kwargs, poisson_sampling=poisson_sampling, clipping=clipping)
        rank, ranks = _rank(module)
        if batches is not None:
            _check_batches(batches, data_loader, ranks)
        elif ranks > 1:
            text = f"the loaders of {ranks} ranks may give one record to several; give batches="
            raise errors.make("batches", text)
        dimension = sum(p.numel() for p in module.parameters() if p.requires_grad)
        session = _session(noise, plan, dimension)
        plan = session.plan if not isinstance(plan, Plan) else plan
        if plan.digest != session.plan.digest:
            raise errors.make(
                "plan", f"the session's job has plan {session.plan.digest}, given was {plan.digest}"
            )
        assumed = None
        if batches is None:
            _check_order(data_loader, plan)
        else:
            assumed = _assumptions.of(plan, batches)
            data_loader = _loader(data_loader, _Rounds(batches, rank=rank, ranks=ranks))
        self.session = session
        self.accountant.session, self.accountant.batches = session, assumed
        self._setting = {
            "session": session,
            "named": module,
            "commitment": commitment,
            "batches": batches,
            "loader": data_loader,
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
        if batches is not None:
            # Only now: Opacus divides by the loader's length, and a job that released all its rows has none left. The
            # session's place whenever the loader begins: each batch has a row of its own.
            data_loader.batch_sampler.start = lambda: session.next_step
            data_loader.batch_sampler.optimizer = made[1]
        return made

    def make_private_with_epsilon(self, **_: Any) -> Any:
        text = "a plan says the noise; make one with rustle.plan(epsilon=…, delta=…) and call make_private(plan=…)"
        raise errors.make("invalid_argument", text)

    def _prepare_optimizer(
        self, *, optimizer: torch.optim.Optimizer, expected_batch_size: float, **kwargs: Any
    ) -> DPOptimizer:
        if isinstance(optimizer, DPOptimizer):
            optimizer = optimizer.original_optimizer
        # By the module, as Opacus decides whether its optimizer sums gradients over ranks.
        distributed = bool(kwargs.get("distributed", False))
        _, ranks = _ranks_of(distributed)
        names = ("clipping", "distributed", "grad_sample_mode")
        base = get_optimizer_class(**{name: kwargs.pop(name) for name in names if name in kwargs})
        generator = kwargs.pop("noise_generator", None)
        batches, loader = self._setting["batches"], self._setting["loader"]
        if batches is not None:
            expected_batch_size = _assumptions.expected_size(batches, len(loader.dataset))
            expected_batch_size /= ranks
        made = type(f"Noised{base.__name__}", (_Noised, base), {})(
            optimizer=optimizer,
            expected_batch_size=expected_batch_size,
            generator=generator,
            secure_mode=self.secure_mode,
            **kwargs,
        )
        made._noise = Noise(
            self._setting["session"],
            self._setting["named"],
            commitment=self._setting["commitment"],
            group=None,
            reduce=distributed,
        )
        made._names = {id(p): name for name, p in made._noise.parameters.items()}
        # The optimizer's state carries the cursor, and so do the engine's checkpoints.
        self.attachment = _Attachment(optimizer, made._noise, 1.0, step_hook=False)
        self.attachment.optimizer = made
        return made


def _session(noise: Session | str | None, plan: Any, dimension: int) -> Session:
    if isinstance(noise, Session):
        return noise
    if noise is not None:
        return connect(noise)
    if isinstance(plan, Plan):
        text = "noise is missing; allowed: a session or URL, or a plan's file instead of a plan"
        raise errors.make("invalid_argument", text)
    folder, path = os.path.dirname(os.path.abspath(plan)), quote(os.path.abspath(plan))
    return connect(f"inproc://{folder}?plan={path}&dimension={dimension}")


def _rank(module: torch.nn.Module) -> tuple[int, int]:
    """This rank, and how many sum their gradients."""
    if isinstance(module, FSDPModule):
        text = "the module is sharded by FSDP; allowed: DifferentiallyPrivateDistributedDataParallel(module)"
        raise errors.make("invalid_argument", text)
    wrappers = (DifferentiallyPrivateDistributedDataParallel, DistributedDataParallel)
    return _ranks_of(isinstance(module, wrappers))


def _ranks_of(distributed: bool) -> tuple[int, int]:
    ranks = torch.distributed.get_world_size() if _is_distributed() else 1
    if ranks > 1 and not distributed:
        text = (
            f"the process group has {ranks} ranks, whose gradients nothing sums; allowed: "
            "DifferentiallyPrivateDistributedDataParallel(module), wrapped before make_private"
        )
        raise errors.make("invalid_argument", text)
    return (torch.distributed.get_rank() if ranks > 1 else 0), ranks


def _check_arguments(others: dict[str, Any], *, poisson_sampling: bool, clipping: str) -> None:
    """Arguments of Opacus's own that a plan leaves no room for, or that no account covers."""
    for name in ("noise_multiplier", "max_grad_norm", "noise_generator"):
        if name in others:
            raise errors.make(
                "invalid_argument", f"{name} is given; allowed: none beside a plan, which says it"
            )
    if poisson_sampling:
        text = "poisson_sampling=True; allowed: batches=Batches(schemes.poisson(…), …), which the account knows"
        raise errors.make("batches", text)
    if clipping != "flat" or others.get("grad_sample_mode", "hooks") == "ghost_fsdp":
        raise errors.make(
            "invalid_argument", f"clipping is {clipping!r}; allowed: flat, on models that are not sharded"
        )


def _check_batches(batches: Batches, loader: DataLoader, ranks: int) -> None:
    records = batches.population if isinstance(batches.population, int) else sum(batches.population)
    if len(loader.dataset) != records:
        text = f"the dataset has {len(loader.dataset)} records; allowed: {records}, the population of batches"
        raise errors.make("batches", text)
    if ranks > 1:
        # By another seed two ranks could have the same record in one step.
        digests: list[Any] = [None] * ranks
        torch.distributed.all_gather_object(digests, batches.digest)
        if len(set(digests)) > 1:
            text = (
                "batches differ among ranks; allowed: one scheme, population, length and seed on all of them"
            )
            raise errors.make("batches", text)


def _loader(loader: DataLoader, batches: BatchSampler) -> DataLoader:
    """The same data in batches of the accountant's; empty ones are let through."""
    collate = wrap_collate_with_empty(
        collate_fn=loader.collate_fn or default_collate,
        sample_empty_shapes=[(0, *shape_safe(x)) for x in loader.dataset[0]],
        dtypes=[dtype_safe(x) for x in loader.dataset[0]],
    )
    return DataLoader(
        loader.dataset,
        batch_sampler=batches,
        collate_fn=collate,
        num_workers=loader.num_workers,
        pin_memory=loader.pin_memory,
    )


def _check_order(loader: DataLoader, plan: Plan) -> None:
    """Whether a loader of the caller's own keeps the plan's participation, as far as its kind says."""
    kinds = type(loader.batch_sampler), type(loader.sampler)
    sampler: Any = loader.sampler
    shuffles = kinds == (PlainBatchSampler, RandomSampler)
    if shuffles and (sampler.replacement or sampler.num_samples > len(sampler.data_source)):
        _refuse("the loader may draw a record twice in an epoch")
    if not shuffles and kinds != (PlainBatchSampler, SequentialSampler):
        names = " over ".join(kind.__name__ for kind in kinds)
        _refuse(
            f"the loader's order is that of {names}; allowed: SequentialSampler, which comes again the same"
        )
    if not len(loader):
        _refuse("the loader has no batches; allowed: 1 or more")
    often = math.ceil(plan.iterations / len(loader))
    if often > plan.max_participations:
        _refuse(
            f"{plan.iterations} steps are {often} epochs of {len(loader)} batches; allowed by the plan: "
            f"{plan.max_participations} (max_participations)"
        )
    if often == 1:
        return
    if shuffles and plan.min_sep > 1:
        _refuse(f"the loader shuffles anew every epoch, so min_sep {plan.min_sep} does not hold")
    if len(loader) < plan.min_sep:
        _refuse(f"the loader has {len(loader)} batches an epoch; allowed: {plan.min_sep} (min_sep) or more")


def _refuse(text: str) -> None:
    raise errors.make("batches", f"{text}. Or give batches=")
