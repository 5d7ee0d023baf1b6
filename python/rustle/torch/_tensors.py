"""Tensors as the adapter needs them: names without wrappers, local parts, memory that noise is added to in place."""

from __future__ import annotations

import math
from typing import Any, Iterable

import numpy as np
import torch
import torch.distributed as dist

from .. import _arguments, errors
from .._layout import Layout, Piece

#: Beyond it, in steps of a grid, sums would not stay exact.
LARGEST = 2.0**47

_WRAPPERS = ("module.", "_module.", "_orig_mod.", "_fsdp_wrapped_module.")


def plain_name(name: str) -> str:
    """Returns the name without the prefixes of wrappers such as DistributedDataParallel."""
    while True:
        for wrapper in _WRAPPERS:
            if name.startswith(wrapper):
                name = name[len(wrapper) :]
                break
        else:
            return name.replace("._orig_mod.", ".")


def is_distributed() -> bool:
    return dist.is_available() and dist.is_initialized()


def is_sharded(parameter: torch.Tensor) -> bool:
    return hasattr(parameter, "to_local") and hasattr(parameter, "placements")


def local_part(value: Any) -> torch.Tensor:
    return value.to_local() if is_sharded(value) else value


def piece_of(layout: Layout, name: str, parameter: Any) -> Piece:
    _arguments.real(f"parameter {name!r}", parameter.dtype, parameter.is_floating_point())
    if not is_sharded(parameter):
        return Piece.of(layout.parameters[name])
    from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

    shape, offset = compute_local_shape_and_global_offset(
        parameter.shape, parameter.device_mesh, parameter.placements
    )
    return Piece.of(layout.parameters[name], tuple(slice(o, o + n) for o, n in zip(offset, shape)))


def add_noise(value: torch.Tensor, noise: torch.Tensor, divide_by: float) -> None:
    _arguments.real("a sum", value.dtype, value.is_floating_point())
    noise = noise.to(value.device) if divide_by == 1.0 else noise.to(value.device) / divide_by
    if value.dtype == torch.float32:
        value.add_(noise)
    else:
        value.copy_(value.float().add_(noise))


def check_float32(sums: dict[str, torch.Tensor]) -> None:
    """Refuses sums of fewer bits than float32, which no plan on a grid can account for."""
    for name, value in sums.items():
        if value.dtype != torch.float32:
            text = (
                f"the sum of {name!r} is {value.dtype}; allowed under a plan on a grid: float32. Accumulate gradients in "
                "float32; parameters may be rounded to fewer bits after the step"
            )
            raise errors.make("invalid_argument", text)


def add_on_grid(value: torch.Tensor, noise: torch.Tensor, divide_by: float, step: float) -> None:
    """Rounds a float32 sum to the nearest step of a grid and adds integer noise, as ``session.privatize_`` does.

    On a CPU the bits are the same; on a GPU the last division, of what is released, may differ in its last bit.
    """
    by = float(np.float32(divide_by))
    rounded = torch.round(value.double() * by / step)
    value.copy_((rounded + noise.to(value.device)) * step / by)


def check_range(sums: dict[str, torch.Tensor], divide_by: float, step: float) -> None:
    """Refuses finite sums that are beyond 2⁴⁷ steps of a grid, to which they would not be rounded exactly."""
    most = LARGEST * step / divide_by
    for name, value in sums.items():
        largest = float(value.detach().abs().max()) if value.numel() else 0.0
        if math.isfinite(largest) and largest > most:
            text = (
                f"a value of the sum of {name!r} is {largest:g}; allowed under the plan's grid: absolute values up to {most:g}. "
                "Are gradients clipped, and does divide_by state what they were divided by?"
            )
            raise errors.make("invalid_argument", text)


def reduce_on_grid(
    sums: dict[str, torch.Tensor],
    noise: dict[str, list[tuple[int, torch.Tensor]]],
    divide_by: float,
    step: float,
    group: Any,
    ranks: int,
) -> None:
    """Rounds this rank's sums to the nearest step, adds the rank's part of the noise and all ranks' integers, exactly.

    A contribution is in one rank's sum, and so is rounded once. No sum changes before all of them are there.
    """
    by = float(np.float32(divide_by))
    made = {}
    for name, value in sums.items():
        integers = torch.round(value.detach().double() * by / step).to(torch.int64).reshape(-1)
        for first, part in noise[name]:
            integers[first : first + len(part)] += part.to(integers.device, torch.int64)
        if ranks > 1:
            dist.all_reduce(integers, group=group)
        made[name] = integers
    for name, value in sums.items():
        value.copy_((made[name].double() * step / by).view_as(value))


def norm_of(values: Iterable[torch.Tensor]) -> float:
    """Returns the Euclidean norm of all values together; not finite where one of them is not."""
    together: dict[torch.device, list[torch.Tensor]] = {}
    for value in values:
        if value.numel():
            together.setdefault(value.device, []).append(value.detach())
    squares = 0.0
    for found in together.values():
        norms = torch.stack([norm.double() for norm in torch._foreach_norm(found)])
        squares += float(norms.square().sum())
    if not math.isfinite(squares):
        # Squares of float32 overflow above 1e19, those of float16 above 256.
        every = [value.double().square().sum().item() for found in together.values() for value in found]
        squares = sum(every)
    return math.sqrt(squares)


def shards(parameter: Any) -> int:
    """Returns how many ranks a parameter is cut up for: 1 where each has all of it."""
    if not is_sharded(parameter):
        return 1
    sizes = parameter.device_mesh.shape
    return math.prod(size for size, placed in zip(sizes, parameter.placements, strict=True) if placed.is_shard())


def whole_norm(sums: dict[str, torch.Tensor], parameters: dict[str, Any], group: Any, ranks: int) -> float:
    """Returns the norm of sums whose parameters are cut up among ranks. Collective."""
    squares = 0.0
    for count in sorted({shards(parameter) for parameter in parameters.values()}):
        norm = norm_of(value for name, value in sums.items() if shards(parameters[name]) == count)
        # Each part is on so many ranks, which all add it.
        squares += norm * norm * count / ranks
    found = torch.tensor(squares, dtype=torch.float64, device=next(iter(sums.values())).device)
    dist.all_reduce(found, group=group)
    return math.sqrt(found.item()) if math.isfinite(found.item()) else math.inf


def in_place(sums: dict[str, torch.Tensor]) -> dict[str, np.ndarray] | None:
    """Returns flat views of the sums, if all are float32 in C order on the CPU and none share memory."""
    fits = all(
        value.layout == torch.strided
        and value.dtype == torch.float32
        and value.device.type == "cpu"
        and value.is_contiguous()
        for value in sums.values()
    )
    if not fits:
        return None
    apart = len({value.data_ptr() for value in sums.values()}) == len(sums)
    return {name: value.detach().reshape(-1).numpy() for name, value in sums.items()} if apart else None


def host_copies(sums: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Returns the sums in C order in this process's memory: copies, also of those that are there."""
    return {name: value.detach().cpu().clone(memory_format=torch.contiguous_format) for name, value in sums.items()}


def raw_bytes(value: torch.Tensor) -> np.ndarray:
    return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
