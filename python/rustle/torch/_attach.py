"""Attaching a session's noise to an optimizer."""

from __future__ import annotations

from typing import Any, Literal

import torch

from .. import _arguments
from .._session import Session, check_session
from ._attachment import Attachment
from ._noise import Named, Noise
from ._plain import check_named, check_plain


def attach(
    optimizer: torch.optim.Optimizer,
    session: Session,
    model: Named,
    *,
    divide_by: float = 1.0,
    records: float | None = None,
    commitment: Literal["declared", "exact"] = "declared",
    process_group: Any = None,
    reduce: bool = False,
) -> Attachment:
    """Adds the session's noise to the gradients before each ``optimizer.step()``.

    Args:
        optimizer: Any PyTorch optimizer. Its ``state_dict`` carries the job's cursor from now on.
        session: The job's session, which no other trainer may use meanwhile.
        model: A module, or names with parameters. All that require gradients have noise.
        divide_by: The number that the clipped sum is divided by before the step, such as the expected batch size.
        records: The most contributions that a step's sum holds, by default as many as the batch of the session's
            :class:`rustle.Rounds`. Sums beyond ``records`` times the plan's clip norm are refused.
        commitment: ``"exact"`` lets a job that crashed repeat the same sums with the same noise, which needs
            deterministic training.
        process_group: The ranks that share the job; by default all.
        reduce: With several ranks, each has its own session on the same job. True: gradients are each rank's own sums;
            each adds its part of the noise, then all are summed over ``process_group`` here (do not wrap the model in
            DistributedDataParallel). False: gradients are summed already. FSDP2's DTensors receive the noise of their
            own shard.

    A failed step raises before anything is changed, and so do one that would change a parameter without noise, one
    with gradients that had their step already, and a step of another optimizer on these parameters. The optimizer can't
    be copied or pickled. A closure is run first, then noise is added. An interrupted step (Ctrl-C) may have added its
    noise, which the next step then reports. Leave out a batch that no step follows with :meth:`Attachment.skip`.

    Under a plan on a grid gradients are float32, and those that :func:`clipped_sum` did not make are refused where
    ``torch.autocast`` is active at the step, where matrix products of float32 may be taken in TF32 or bfloat16, and where FSDP
    or a communication hook adds up gradients in fewer bits (docs/grid.md).

    Where the session has :class:`rustle.Rounds`, a step with any batch but that of its round is refused too; without
    them a warning, :class:`rustle.errors.Unchecked`, says that nothing checks participation.

    Raises:
        rustle.errors.InvalidArgument: A framework's wrapper around an optimizer, or a number that is not allowed.
        rustle.errors.LayoutMismatch: The parameters are not those of the plan, or not those of the optimizer.
        rustle.errors.SessionBusy: Another trainer uses the session.

    Example::

        attachment = rustle.torch.attach(optimizer, session, model, divide_by=256)
        for x, y in rustle.torch.DataLoader(data, rustle.Rounds(batches, session)):
            rustle.torch.clipped_sum(model, loss, x, y, clip_norm=session.plan.clip_norm, divide_by=256)
            optimizer.step()             # noise is added here
    """
    check_plain(optimizer)
    check_session(session)
    check_named(model)
    _arguments.one_of("commitment", commitment, ("declared", "exact"))
    _arguments.flag("reduce", reduce)
    Attachment.check_arguments(divide_by, records)
    noise = Noise(session, model, commitment=commitment, group=process_group, reduce=reduce)
    return Attachment(optimizer, noise, divide_by, records=records)
