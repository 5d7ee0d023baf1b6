"""Clipped sums of per-example gradients, for training loops of one's own."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch.func import functional_call, grad_and_value, vmap

from .. import _arguments, errors
from ._batch_norms import check_no_running_means
from ._gradients import Made
from ._sums import summed, wide

Loss = Callable[..., torch.Tensor]


def clipped_sum(
    model: torch.nn.Module,
    loss: Loss,
    *examples: torch.Tensor,
    clip_norm: float,
    divide_by: float = 1.0,
    microbatch: int | None = None,
) -> torch.Tensor:
    """Sets each ``.grad`` to the sum of the examples' gradients, each clipped to ``clip_norm``, over ``divide_by``.

    Gradients that were there are replaced. Examples of no records give a sum of zero. Norms are added up in float64 and
    the sum in float32, under ``torch.autocast`` and with TF32 too: what κ of :func:`rustle.grid.summing_error` assumes.

    Args:
        model: The module. Parameters that require no gradient are left alone; buffers stay as they are.
        loss: A function of the module and of examples with a first axis of length one, such as
            ``lambda model, x, y: cross_entropy(model(x), y)``.
        examples: Tensors with the examples along their first axis.
        clip_norm: ζ, the plan's: the largest norm of one example's gradient.
        divide_by: The number that the sum is divided by, the same as that of :func:`rustle.torch.attach`.
        microbatch: The most examples whose gradients are in memory at once, by default all. Halved, and tried again,
            where a GPU has no memory for them.

    Returns:
        The loss of each example, without gradient. As secret as the examples.

    Raises:
        rustle.errors.InvalidArgument: A layer mixes examples (BatchNorm in training mode), the loss does not call the module that
            it is given, no parameter requires a gradient, or a number is not allowed.
    """
    _arguments.instance("model", model, torch.nn.Module, "a torch.nn.Module")
    _arguments.function("loss", loss, "a function of the module and of one example")
    for at, one in enumerate(examples):
        if not isinstance(one, torch.Tensor) or one.ndim == 0:
            raise _arguments.refused(f"examples[{at}]", one, "a tensor with the examples along its first axis")
    check_no_running_means(model, mixes=True)
    clip_norm = _arguments.above_zero("clip_norm", clip_norm)
    divide_by = _arguments.above_zero("divide_by", divide_by)
    if microbatch is not None:
        microbatch = _arguments.whole("microbatch", microbatch, 1)
    count = len(examples[0]) if examples else 0
    if any(len(one) != count for one in examples) or not examples:
        lengths = [len(one) for one in examples]
        raise errors.make("invalid_argument", f"examples have lengths {lengths}; allowed: one length, of all")
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not trained:
        text = "no parameter of the model requires a gradient; allowed: a model with one at least"
        raise errors.make("invalid_argument", text)
    sums = {name: torch.zeros_like(p, dtype=wide(p.dtype)) for name, p in trained.items()}
    losses: list[torch.Tensor] = []
    at, most = 0, microbatch or max(count, 1)
    while at < count:
        part = [one[at : at + most] for one in examples]
        try:
            scaled, found = _part(model, loss, trained, part, clip_norm)
        except torch.OutOfMemoryError:
            if most == 1:
                raise
            most = (most + 1) // 2
            continue
        for name, value in scaled.items():
            assert value.dtype == sums[name].dtype, f"the sum of {name!r} was made in {value.dtype}"
            sums[name] += value
        losses.append(found)
        at += most
    made = Made(count, float(clip_norm), float(divide_by))
    for name, parameter in trained.items():
        parameter.grad = (sums[name] / divide_by).to(parameter.dtype)
        made.note(parameter.grad)
    return torch.cat(losses) if losses else torch.zeros(0)


def _part(
    model: torch.nn.Module,
    loss: Loss,
    trained: dict[str, torch.nn.Parameter],
    examples: list[torch.Tensor],
    clip_norm: float,
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Returns the clipped sum over some examples, and the loss of each."""
    # Those that a module sets anew are set back: they would be tensors of this call alone.
    buffers, calls = dict(model.named_buffers()), []

    def of_one(parameters: dict[str, torch.Tensor], *example: torch.Tensor) -> torch.Tensor:
        def call(*given: Any, **named: Any) -> Any:
            calls.append(None)
            return functional_call(model, {**buffers, **parameters}, given, named)

        return loss(call, *(one[None] for one in example)).sum()

    values = {name: p.detach() for name, p in trained.items()}
    each = vmap(grad_and_value(of_one), in_dims=(None, *(0 for _ in examples)), randomness="different")
    gradients, losses = each(values, *examples)
    if not calls:
        text = (
            "the loss did not call the module that it was given, so that no parameter has a gradient; allowed: a function of its "
            "first argument, such as lambda model, x, y: cross_entropy(model(x), y)"
        )
        raise errors.make("invalid_argument", text)
    # The model may run in fewer bits, and its gradients be what they are: clipping and summing may not.
    return summed({name: value.detach() for name, value in gradients.items()}, clip_norm), losses.detach()
