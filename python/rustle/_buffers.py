"""Whatever holds numbers of one type on this host, as a flat numpy view of the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import errors


def flat(buffer: Any, *, dtype: str = "float32", writable: bool = True) -> np.ndarray:
    """A view of ``buffer`` with one axis; never a copy.

    ``buffer``: a numpy array, a torch tensor on the CPU, anything with DLPack or the buffer protocol. ``dtype``: the type of
    its numbers; others are refused.
    """
    allowed = f"allowed: {dtype}, contiguous in C order, writable, on the CPU"
    array = _array(buffer, allowed)
    if array.dtype != np.dtype(dtype) or not array.dtype.isnative:
        raise errors.make("buffer", f"the buffer holds {array.dtype}; {allowed}")
    if not array.flags.c_contiguous:
        raise errors.make("buffer", f"the buffer is not contiguous; {allowed}")
    if writable and not array.flags.writeable:
        raise errors.make("buffer", f"the buffer is read-only; {allowed}")
    return array.reshape(-1)


def _array(buffer: Any, allowed: str) -> np.ndarray:
    if isinstance(buffer, np.ndarray):
        return buffer
    if hasattr(buffer, "detach") and hasattr(buffer, "data_ptr"):
        return _of_tensor(buffer, allowed)
    try:
        if hasattr(buffer, "__dlpack__"):
            return np.from_dlpack(buffer)
        return np.asarray(memoryview(buffer))
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        what = "None" if buffer is None else f"the buffer is a {type(buffer).__name__}, which"
        raise errors.make("buffer", f"{what} gives no memory of numbers; {allowed}") from error


def _of_tensor(tensor: Any, allowed: str) -> np.ndarray:
    if tensor.device.type != "cpu":
        raise errors.make("buffer", f"the tensor is on {tensor.device}; {allowed}")
    if not tensor.is_contiguous():
        raise errors.make("buffer", f"the tensor is not contiguous; {allowed}")
    if str(tensor.dtype) in ("torch.bfloat16", "torch.float16"):
        raise errors.make("buffer", f"the tensor holds {tensor.dtype}; {allowed}")
    return tensor.detach().numpy()
