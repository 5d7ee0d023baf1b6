"""Checks of arguments, ranks, batches and loaders."""

from __future__ import annotations

import math
from typing import Any

import torch
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler as PlainBatchSampler
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

from .. import errors
from .._batches import Batches
from .._native import Plan
from ..torch._tensors import is_distributed


def rank_of(module: torch.nn.Module) -> tuple[int, int]:
    """Returns this rank and the number of ranks that sum their gradients."""
    if isinstance(module, FSDPModule):
        text = "the module is sharded by FSDP; allowed: DifferentiallyPrivateDistributedDataParallel(module)"
        raise errors.make("invalid_argument", text)
    wrappers = (DifferentiallyPrivateDistributedDataParallel, DistributedDataParallel)
    return ranks_of(isinstance(module, wrappers))


def ranks_of(distributed: bool) -> tuple[int, int]:
    ranks = torch.distributed.get_world_size() if is_distributed() else 1
    if ranks > 1 and not distributed:
        text = (
            f"the process group has {ranks} ranks, whose gradients nothing sums; allowed: "
            "DifferentiallyPrivateDistributedDataParallel(module), wrapped before make_private"
        )
        raise errors.make("invalid_argument", text)
    return (torch.distributed.get_rank() if ranks > 1 else 0), ranks


def check_arguments(others: dict[str, Any], *, poisson_sampling: bool, clipping: str) -> None:
    """Refuses arguments of Opacus that a plan already sets, or that no account covers."""
    for name in ("noise_multiplier", "max_grad_norm", "noise_generator"):
        if name in others:
            raise errors.make(
                "invalid_argument", f"{name} is given; allowed: none beside a plan, which sets it"
            )
    if poisson_sampling:
        text = "poisson_sampling=True; allowed: batches=Batches(schemes.poisson(…), …), which the account knows"
        raise errors.make("batches", text)
    if clipping != "flat" or others.get("grad_sample_mode", "hooks") == "ghost_fsdp":
        raise errors.make(
            "invalid_argument", f"clipping is {clipping!r}; allowed: flat, on models that are not sharded"
        )


def check_batches(batches: Batches, loader: DataLoader, ranks: int) -> None:
    records = batches.population if isinstance(batches.population, int) else sum(batches.population)
    if len(loader.dataset) != records:
        text = f"the dataset has {len(loader.dataset)} records; allowed: {records}, the population of batches"
        raise errors.make("batches", text)
    if ranks > 1:
        # Under another seed two ranks could have the same record in one step.
        digests: list[Any] = [None] * ranks
        torch.distributed.all_gather_object(digests, batches.digest)
        if len(set(digests)) > 1:
            text = (
                "batches differ among ranks; allowed: one scheme, population, length and seed on all of them"
            )
            raise errors.make("batches", text)


def check_order(loader: DataLoader, plan: Plan) -> None:
    """Refuses a loader of the caller's own that breaks the plan's participation, as far as its classes tell."""
    kinds = type(loader.batch_sampler), type(loader.sampler)
    sampler: Any = loader.sampler
    shuffles = kinds == (PlainBatchSampler, RandomSampler)
    if shuffles and (sampler.replacement or sampler.num_samples > len(sampler.data_source)):
        _refuse("the loader may draw a record twice in an epoch")
    if not shuffles and kinds != (PlainBatchSampler, SequentialSampler):
        names = " over ".join(kind.__name__ for kind in kinds)
        _refuse(
            f"the loader's order is that of {names}; allowed: SequentialSampler, which repeats its order"
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
    raise errors.make("batches", f"{text}. Or pass batches=")
