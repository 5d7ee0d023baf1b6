"""Checks of arguments, ranks, batches and loaders."""

from __future__ import annotations

from typing import Any

import torch
from opacus.distributed import DifferentiallyPrivateDistributedDataParallel
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from .. import _arguments, errors
from .._batch_bound import FLOATS
from .._batches import Batches
from .._session import Session
from ..torch._loader import length_of
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


def check_arguments(
    others: dict[str, Any], *, poisson_sampling: bool, clipping: str, divide_by: float | None
) -> None:
    """Refuses arguments of Opacus that a plan already sets, or that no account covers."""
    for name in ("noise_multiplier", "max_grad_norm", "noise_generator", "epochs", "mechanism", "size", "float"):
        if name in others:
            raise errors.make(
                "invalid_argument", f"{name} is given; allowed: none beside a plan, which sets it"
            )
    if divide_by is not None:
        _arguments.above_zero("divide_by", divide_by)
    if poisson_sampling:
        text = "poisson_sampling=True; allowed: batches=Batches(schemes.poisson(…), …), which the account knows"
        raise errors.make("batches", text)
    if clipping != "flat" or others.get("grad_sample_mode", "hooks") == "ghost_fsdp":
        raise errors.make(
            "invalid_argument", f"clipping is {clipping!r}; allowed: flat, on models that are not sharded"
        )


def check_ghost(others: dict[str, Any], way_out: str = "") -> None:
    """Refuses ghost clipping under a plan on a grid, which has no bound of κ."""
    mode = others.get("grad_sample_mode", "hooks")
    if str(mode).startswith("ghost"):
        text = (
            f"grad_sample_mode is {mode!r} under a plan on a grid; allowed: gradients of each record ('hooks', 'functorch', "
            f"'ew'){way_out}. Norms by ghost clipping are differences and products of sums in float32, whose error no κ bounds"
        )
        raise errors.make("invalid_argument", text)


def check_module(module: torch.nn.Module, others: dict[str, Any]) -> None:
    """Refuses what no plan on a grid covers, before a run begins."""
    check_ghost(others, f", or {FLOATS}")
    for name, p in module.named_parameters():
        if p.requires_grad and p.dtype != torch.float32:
            text = f"parameter {name!r} is {p.dtype}; allowed on a grid: torch.float32, or {FLOATS}"
            raise errors.make("invalid_argument", text)


def check_clip_schedule(session: Session, others: dict[str, Any]) -> None:
    """Refuses ghost clipping under a schedule of clip norms, which clips in the backward pass."""
    if str(others.get("grad_sample_mode", "hooks")).startswith("ghost"):
        session.refuse_clip_schedule("ghost clipping")


def check_batches(batches: Batches, loader: DataLoader, ranks: int) -> None:
    _arguments.instance("batches", batches, Batches, "rustle.Batches")
    batches.check_length(length_of(loader.dataset))
    if ranks > 1:
        # Under another seed two ranks could have the same record in one step.
        digests: list[Any] = [None] * ranks
        torch.distributed.all_gather_object(digests, batches.digest)
        if len(set(digests)) > 1:
            text = (
                "batches differ among ranks; allowed: one scheme, population, length and seed on all of them"
            )
            raise errors.make("batches", text)
