"""What a step's noise is bound to."""

from __future__ import annotations

import hashlib

from . import _arguments, errors

_DECLARED, _UNKEYED, _EXACT = b"\x01", b"\x02", b"\x03"


class Commitment:
    """33 bytes: a kind and a digest.

    A ``declared`` one names what the gradient will be made of. An ``exact`` one, from :meth:`rustle.Session.exact`, is a
    keyed digest of the clipped sum itself, so that a job that comes again to the very same sum may have the very same
    noise. Readers of the ledger see commitments.
    """

    __slots__ = ("data",)

    def __init__(self, data: bytes):
        data = _arguments.octets("data", data, "33 bytes, the first 1 (declared) or 3 (exact)")
        if len(data) != 33 or data[:1] not in (_DECLARED, _EXACT):
            found = f"of {len(data)} bytes"
            if len(data) == 33 and data[:1] == _UNKEYED:
                found = (
                    "of kind 2, a digest of the sum without a key, which readers of the ledger can test sums against"
                )
            text = f"a commitment {found}; allowed: 33 bytes, the first 1 (declared) or 3 (exact)"
            raise errors.make("invalid_argument", text)
        self.data = data

    @classmethod
    def declared(cls, text: str | bytes) -> "Commitment":
        """Of any text that names the step's data, and changes whenever the sum could.

        Its SHA-256 is what readers of the ledger see, so a text that can be guessed is no secret.
        """
        data = text.encode() if isinstance(text, str) else _arguments.octets("text", text, "a text, bytes")
        return cls(_DECLARED + hashlib.sha256(b"rustle commitment v1" + data).digest())

    @classmethod
    def of_digest(cls, digest: bytes) -> "Commitment":
        """The exact commitment with this keyed digest of a sum, of 32 bytes."""
        return cls(_EXACT + digest)

    @classmethod
    def together(cls, parts: list[bytes]) -> "Commitment":
        """Of the exact commitments of all ranks, in their order: one row is bound once."""
        return cls(_EXACT + hashlib.sha256(b"rustle exact ranks v1" + b"".join(parts)).digest())

    @property
    def is_exact(self) -> bool:
        """Whether it is one to a sum."""
        return self.data[:1] == _EXACT

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Commitment) and self.data == other.data

    def __hash__(self) -> int:
        return hash(self.data)

    def __repr__(self) -> str:
        kind = "exact" if self.is_exact else "declared"
        return f"Commitment({kind} {self.data[1:7].hex()}…)"
