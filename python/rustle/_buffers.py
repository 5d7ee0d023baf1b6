"""Whatever holds float32 numbers on this host, as a flat numpy view of the same memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import errors

_ALLOWED = "allowed: float32, contiguous in C order, writable, on the CPU"


def flat(buffer: Any, *, writable: bool = True) -> np.ndarray:
    """A view of ``buffer`` with one axis; never a copy.

    ``buffer``: a numpy array, a torch tensor on the CPU, anything with DLPack or the buffer protocol.
    """
    array = _array(buffer)
    if array.dtype != np.float32 or not array.dtype.isnative:
        raise errors.make("buffer", f"the buffer holds {array.dtype}; {_ALLOWED}")
    if not array.flags.c_contiguous:
        raise errors.make("buffer", f"the buffer is not contiguous; {_ALLOWED}")
    if writable and not array.flags.writeable:
        raise errors.make("buffer", f"the buffer is read-only; {_ALLOWED}")
    return array.reshape(-1)


def _array(buffer: Any) -> np.ndarray:
    if isinstance(buffer, np.ndarray):
        return buffer
    if hasattr(buffer, "detach") and hasattr(buffer, "data_ptr"):
        return _of_tensor(buffer)
    try:
        if hasattr(buffer, "__dlpack__"):
            return np.from_dlpack(buffer)
        return np.asarray(memoryview(buffer))
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        raise errors.make(
            "buffer", f"{type(buffer).__name__} gives no memory to write to ({error}); {_ALLOWED}"
        ) from error


def _of_tensor(tensor: Any) -> np.ndarray:
    if tensor.device.type != "cpu":
        raise errors.make("buffer", f"the tensor is on {tensor.device}; {_ALLOWED}")
    if not tensor.is_contiguous():
        raise errors.make("buffer", f"the tensor is not contiguous; {_ALLOWED}")
    if str(tensor.dtype) != "torch.float32":
        raise errors.make("buffer", f"the tensor holds {tensor.dtype}; {_ALLOWED}")
    return tensor.detach().numpy()
