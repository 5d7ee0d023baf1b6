"""What a step's noise is bound to."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from . import _native, errors

_DECLARED, _EXACT = b"\x01", b"\x02"


class Commitment:
    """33 bytes: a kind and a SHA-256.

    A ``declared`` one names what the gradient will be made of; an ``exact`` one is a digest of the clipped sum itself,
    so that a job that comes again to the very same sum may have the very same noise.
    """

    __slots__ = ("data",)

    def __init__(self, data: bytes):
        if len(data) != 33 or data[:1] not in (_DECLARED, _EXACT):
            text = f"a commitment of {len(data)} bytes; allowed: 33, the first 1 (declared) or 2 (exact)"
            raise errors.make("invalid_argument", text)
        self.data = bytes(data)

    @classmethod
    def declared(cls, text: str | bytes) -> "Commitment":
        """Of any text that names the step's data, and changes whenever the sum could."""
        data = text.encode() if isinstance(text, str) else bytes(text)
        return cls(_DECLARED + hashlib.sha256(b"rustle commitment v1" + data).digest())

    @classmethod
    def exact(cls, *sums: Any, start: int = 0, divide_by: float = 1.0) -> "Commitment":
        """Of the bytes of the sums that the noise will be added to, in their order.

        ``start``: the first coordinate; ``divide_by``: what sums and noise are divided by.
        """
        digests = [_native.digest(_bytes(one), start, divide_by) for one in sums]
        whole = (
            digests[0]
            if len(digests) == 1
            else hashlib.sha256(b"rustle exact sums v1" + b"".join(digests)).digest()
        )
        return cls(_EXACT + whole)

    @classmethod
    def together(cls, parts: list[bytes]) -> "Commitment":
        """Of the exact commitments of all ranks, in their order: one row is bound once."""
        return cls(_EXACT + hashlib.sha256(b"rustle exact ranks v1" + b"".join(parts)).digest())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Commitment) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        kind = "declared" if self.data[:1] == _DECLARED else "exact"
        return f"Commitment({kind} {self.data[1:7].hex()}…)"


def _bytes(array: Any) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
