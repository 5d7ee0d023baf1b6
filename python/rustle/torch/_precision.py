"""Settings under which products of float32 have fewer bits than κ of a plan on a grid assumes."""

from __future__ import annotations

from typing import Iterable

import torch

from .. import errors

# Of a device: where PyTorch says what products of float32 are computed in, as of 2.9.
_BACKENDS = {"cuda": "cuda", "cpu": "mkldnn"}
_EXACT = ("ieee", "none")


def check_products(sums: dict[str, torch.Tensor]) -> None:
    """Refuses sums that the job made by itself, under a setting that gives products of float32 fewer bits.

    Whether a sum was such a product, or was made under the same settings, is not seen: the job's word remains.

    Raises:
        rustle.errors.InvalidArgument: Autocast is active, or matrix products may be in TF32 or bfloat16.
    """
    found = _reduced({value.device.type for value in sums.values()})
    if found is not None:
        setting, way = found
        text = (
            f"{setting} where the sum of {next(iter(sums))!r} has its noise; allowed under a plan on a grid: products of float32 "
            "in float32. Others keep 8 to 11 bits, and the plan's summing_error covers no clipped sum that is such a product "
            f"(einsum, @). {way}, or make the sum by rustle.torch.clipped_sum, which has none, or take a plan with float=True"
        )
        raise errors.make("invalid_argument", text)


def _reduced(devices: Iterable[str]) -> tuple[str, str] | None:
    """Returns the first such setting of the devices, in words, and the way out of it."""
    for device in sorted(devices):
        if torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
            if dtype not in (torch.float32, torch.float64):
                return f"torch.autocast({device!r}, {dtype}) is active", "Sum and step outside of autocast"
        setting = _matmul(device)
        if setting is not None:
            return setting, 'Call torch.set_float32_matmul_precision("highest") before sums are made'
    return None


def _matmul(device: str) -> str | None:
    backend = _BACKENDS.get(device, "")
    products = getattr(getattr(torch.backends, backend, None), "matmul", None)
    precision = getattr(products, "fp32_precision", None)
    if precision is not None:
        return None if precision in _EXACT else f"torch.backends.{backend}.matmul.fp32_precision is {precision!r}"
    try:
        precision = torch.get_float32_matmul_precision()
    except RuntimeError:
        # Settings of single backends differ, none of which is this device's.
        return None
    return None if precision == "highest" else f"torch.get_float32_matmul_precision() is {precision!r}"
