"""Updates as integers modulo M, whose sum secure aggregation computes: Xu et al. (2023), Algorithm 2.

The arithmetic before and after the protocol, which is left to any service that sums vectors modulo M.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Iterable

import numpy as np

from .. import _arguments, errors
from .._native import Plan, inflated_clip_norm
from ._clients import clip

#: Moduli up to here can be added in int64.
_MOST = 1 << 62

#: Grid steps up to here are exact in float64, with room for the bound that rounding is repeated for.
_STEPS = 1 << 40


@dataclass(frozen=True)
class Encoding:
    """How a round's updates are encoded; the same for server and clients.

    ``dimension``: of an update. ``clip_norm``: C. ``scale``: s, grid steps of one unit; the larger, the less rounding
    costs. ``clients``: m, the most that one sum has. ``modulus``: M, for protocols that want a certain one; the
    smallest that never wraps around, 2·C_∞·m + 1, where left away.
    """

    dimension: int
    clip_norm: float
    scale: float
    clients: int
    modulus: int = 0

    def __post_init__(self) -> None:
        for name in ("dimension", "clients"):
            if not 1 <= _arguments.whole(name, getattr(self, name)) <= 1 << 40:
                _refuse(name, getattr(self, name), "1 to 2^40")
        for name in ("clip_norm", "scale"):
            _arguments.above_zero(name, getattr(self, name))
        if self.scale * self.clip_norm >= _STEPS:
            _refuse("scale", self.scale, f"below {_STEPS / self.clip_norm:.3g}, which is 2^40 clip norms")
        least = 2 * self.bound * self.clients + 1
        if not self.modulus:
            object.__setattr__(self, "modulus", least)
        if not least <= self.modulus <= _MOST:
            _refuse("modulus", self.modulus, f"{least} to 2^62, for {self.clients} clients at this scale")

    @classmethod
    def within(cls, bits: int, dimension: int, clip_norm: float, clients: int) -> "Encoding":
        """With the largest scale at which M is at most 2^bits, and M that very number."""
        if not 2 <= _arguments.whole("bits", bits) <= 62:
            _refuse("bits", bits, "2 to 62")
        bound = ((1 << bits) - 1) // (2 * clients)
        if not (bound and 0 < clip_norm < math.inf):
            _refuse(
                "bits",
                bits,
                f"above {math.log2(2 * clients + 1):.1f}, for {clients} clients; a clip norm above 0",
            )
        # A little less, so that roundings of the product do not take C_∞'s ceiling beyond the bound.
        scale = bound / (clip_norm * _spread(_padded(dimension))) * (1 - 1e-14)
        return cls(dimension, clip_norm, min(scale, _STEPS / clip_norm / 2), clients, 1 << bits)

    @property
    def padded_dimension(self) -> int:
        """The dimension of encoded vectors: a power of two."""
        return _padded(self.dimension)

    @property
    def bound(self) -> int:
        """C_∞ = ⌈2sC·ln(d)/√d⌉, at most ⌈sC⌉: no coordinate of a rotated update is larger, or it is scaled down."""
        return max(1, math.ceil(self.scale * self.clip_norm * _spread(self.padded_dimension)))

    @property
    def inflated_clip_norm(self) -> float:
        """The most that an encoded update's norm is, in the update's own units: the clip norm that a plan must have."""
        return inflated_clip_norm(self.clip_norm, self.scale, self.padded_dimension)

    @property
    def scaled_down_probability(self) -> float:
        """No more than this: that an update is scaled down to C_∞, which were a wrap-around without it.

        Rotated coordinates are sub-Gaussian of variance s²C²/d (Kairouz et al. 2021, Lemma 28), and there are d of them.
        """
        d, reach = self.padded_dimension, self.bound / (self.scale * self.clip_norm)
        return 0.0 if reach >= 1 else min(1.0, 2 * d * math.exp(-(reach**2) * d / 2))

    def check(self, plan: Plan) -> None:
        """Refuses a plan whose clip norm rounding may exceed."""
        if plan.clip_norm < self.inflated_clip_norm:
            text = (
                f"the plan's clip norm is {plan.clip_norm}; allowed: {self.inflated_clip_norm} or more, which updates "
                f"clipped to {self.clip_norm} may have once they are rounded (plan.replace(clip_norm=…))"
            )
            raise errors.make("plan", text)

    def signs(self, seed: bytes) -> np.ndarray:
        """ξ: ±1, int8, one for each padded coordinate; the same wherever the seed is. Public, anew in every round."""
        seed = _arguments.octets("seed", seed, "16 random bytes or more")
        if len(seed) < 16:
            raise errors.make(
                "invalid_argument", f"seed is of {len(seed)} bytes; allowed: 16 or more, random"
            )
        data = hashlib.shake_256(b"rustle secure aggregation v1" + seed).digest(
            -(-self.padded_dimension // 8)
        )
        bits = np.unpackbits(np.frombuffer(data, np.uint8))[: self.padded_dimension]
        return 1 - 2 * bits.astype(np.int8)

    def encode(
        self, update: np.ndarray, signs: np.ndarray, random: np.random.Generator | None = None
    ) -> np.ndarray:
        """The client: clips, scales, rotates, rounds. int64 of the padded dimension, from 0 to M − 1."""
        _arguments.real("update", np.asarray(update).dtype, not np.iscomplexobj(update))
        update = np.asarray(update, np.float64)
        if update.shape != (self.dimension,):
            _refuse("the update's shape", update.shape, (self.dimension,))
        random = np.random.default_rng() if random is None else random
        rotated = self._rotated(clip(update, self.clip_norm) * self.scale, self._signs(signs))
        largest = np.abs(rotated).max()
        if largest > self.bound:
            rotated *= self.bound / largest
        return (self._rounded(rotated, random) + self.bound) % self.modulus

    def add(self, encoded: Iterable[np.ndarray]) -> np.ndarray:
        """The sum modulo M, as the protocol gives it to the server."""
        total = np.zeros(self.padded_dimension, np.int64)
        for one in encoded:
            total = (total + self._integers(one)) % self.modulus
        return total

    def decode(self, total: np.ndarray, clients: int, signs: np.ndarray) -> np.ndarray:
        """The server: the sum of ``clients`` updates, float64 of the dimension. Noise comes after this.

        The paper's Algorithm 2 takes C_∞ off once; each client has added it, so it is taken off ``clients`` times.
        """
        if not 1 <= clients <= self.clients:
            _refuse("clients", clients, f"1 to {self.clients}, for which no sum wraps around")
        total = self._integers(total)
        # Sums lie from 0 to 2·C_∞·clients: what is above was never sent.
        if (total > 2 * self.bound * clients).any():
            text = f"a sum of {clients} clients is above {2 * self.bound * clients}: another number of clients, or damage"
            raise errors.make("invalid_argument", text)
        centred = (total - self.bound * clients).astype(np.float64)
        return (self._signs(signs) * _hadamard(centred))[: self.dimension] / self.scale

    def _rotated(self, vector: np.ndarray, signs: np.ndarray) -> np.ndarray:
        padded = np.zeros(self.padded_dimension)
        padded[: self.dimension] = vector
        return _hadamard(signs * padded)

    def _rounded(self, vector: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Stochastic rounding, repeated until the norm is within the inflated one.

        Each try is accepted with probability 0.39 at least: 1 − α, α = e^{−1/2}.
        """
        most = (self.scale * self.inflated_clip_norm) ** 2
        low = np.floor(vector)
        while True:
            rounded = low + (random.random(vector.shape) < vector - low)
            if rounded @ rounded <= most:
                return rounded.astype(np.int64)

    def _signs(self, signs: np.ndarray) -> np.ndarray:
        signs = np.asarray(signs)
        if signs.shape != (self.padded_dimension,) or not (np.abs(signs) == 1).all():
            _refuse("signs", f"of shape {signs.shape}", f"{self.padded_dimension} times +1 or −1")
        return signs

    def _integers(self, vector: np.ndarray) -> np.ndarray:
        vector = np.asarray(vector)
        fits = vector.shape == (self.padded_dimension,) and np.issubdtype(vector.dtype, np.integer)
        if not fits or (vector < 0).any() or (vector >= self.modulus).any():
            text = f"{self.padded_dimension} integers from 0 to {self.modulus - 1}"
            _refuse("the encoded vector", f"{vector.dtype} of shape {vector.shape}", text)
        return vector.astype(np.int64)


def _padded(dimension: int) -> int:
    return 1 << (dimension - 1).bit_length()


def _spread(padded: int) -> float:
    """C_∞/(sC): the paper's 2·ln(d)/√d, and 1 for few coordinates, where no rotation spreads anything."""
    return min(1.0, 2 * max(1.0, math.log(padded)) / math.sqrt(padded))


def _hadamard(vector: np.ndarray) -> np.ndarray:
    """H/√d times a vector of d = 2^k float64; its own inverse. O(d log d)."""
    values = vector.astype(np.float64)
    for _ in range(len(vector).bit_length() - 1):
        # Along the last bit of the index, which comes to be the first: after all of them each is in its place.
        even, odd = values[0::2], values[1::2]
        values = np.concatenate([even + odd, even - odd])
    return values / math.sqrt(len(vector))


def _refuse(what: str, value: object, allowed: object) -> None:
    raise errors.make("invalid_argument", f"{what} is {value}; allowed: {allowed}")
