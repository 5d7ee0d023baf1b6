"""Adaptive clipping under correlated noise: Xu et al. (2023), Algorithm 1."""

from __future__ import annotations

import math
from typing import Any, Iterable, Literal

import numpy as np

from .. import errors
from .._native import adaptive_noise_multiplier
from .._session import Session
from ._clients import clip, norm_of
from ._server import Optimizer, Server, check_state
from ._vectors import Arrays

#: The coordinate after the model's: how many updates were below the norm that is tracked.
BELOW_CLIP_NORM = "rustle.below_clip_norm"


class AdaptiveServer(Server):
    """A :class:`Server` whose clip norm follows a quantile of the updates' norms.

    The norm is tracked in every round and comes to be the clip norm where the plan's noise starts afresh: at the
    ``restarts`` of a tree plan, in every round of an identity plan. The session has one coordinate more than the model
    (a plan with named parameters ends with ``(BELOW_CLIP_NORM, ())``). Update and bit go into one vector,

        (Δ/C · z/z_Δ, (b − ½) · z/σ_b) · ζ,   z_Δ = (z⁻² − (2σ_b)⁻²)^{−1/2},

    whose norm is at most the plan's ζ whatever C is: so the plan's own account, with its noise multiplier z, is that of
    both together, and ζ is a unit and no more.

    ``clip_norm``: C⁰. ``quantile``: γ, the share of updates that is to be below. ``clip_learning_rate``: η_γ.
    ``bit_noise``: σ_b, above z/2; m/20 where left away. The **sum** of bits gets noise σ_b·C⁻¹Z as that of updates gets
    z_Δ·C_θ·C⁻¹Z. ``bounds``: of the tracked norm; C⁰/1024 to 1024·C⁰ where left away.
    """

    _EXTRA = (BELOW_CLIP_NORM,)

    def __init__(
        self,
        session: Session,
        parameters: Arrays,
        *,
        clients_per_round: float,
        clip_norm: float,
        quantile: float = 0.5,
        clip_learning_rate: float = 0.2,
        bit_noise: float | None = None,
        bounds: tuple[float, float] | None = None,
        optimizer: Optimizer | None = None,
        commitment: Literal["declared", "exact"] = "declared",
    ):
        plan = session.plan
        if plan.mechanism != "identity" and not plan.restarts:
            text = (
                f"the noise of this {plan.mechanism} plan never starts afresh, so that its clip norm could never change; "
                "allowed: a tree plan with_restarts, an identity plan, or Server"
            )
            raise errors.make("plan", text)
        low, high = bounds if bounds is not None else (clip_norm / 1024, clip_norm * 1024)
        if not 0 < low <= clip_norm <= high < math.inf:
            text = f"clip_norm is {clip_norm}, bounds {low} to {high}; allowed: 0 < low ≤ clip_norm ≤ high"
            raise errors.make("invalid_argument", text)
        if not 0 < quantile < 1:
            raise errors.make(
                "invalid_argument", f"quantile is {quantile}; allowed: strictly between 0 and 1"
            )
        if not (clip_learning_rate > 0 and math.isfinite(clip_learning_rate)):
            text = f"clip_learning_rate is {clip_learning_rate}; allowed: finite and above zero"
            raise errors.make("invalid_argument", text)
        session.refuse_clip_schedule("a clip norm that adapts by itself")
        self.bit_noise = clients_per_round / 20 if bit_noise is None else bit_noise
        #: z_Δ: the noise of updates in units of the clip norm.
        self.update_noise_multiplier = adaptive_noise_multiplier(plan.noise_multiplier, self.bit_noise)
        super().__init__(
            session,
            parameters,
            clients_per_round=clients_per_round,
            optimizer=optimizer,
            commitment=commitment,
        )
        self.quantile, self.clip_learning_rate, self.bounds = quantile, clip_learning_rate, (low, high)
        self._active = self._tracked = float(clip_norm)
        self._bit = self._vectors.at(BELOW_CLIP_NORM)

    @property
    def clip_norm(self) -> float:
        """C_θ, which updates are clipped to in this round."""
        return self._active

    @property
    def tracked_norm(self) -> float:
        """Cᵗ, which the bits of this round are about."""
        return self._tracked

    def client(self, update: Arrays) -> tuple[Any, bool]:
        """What a client sends: its update clipped, and whether it was below the tracked norm."""
        vector = self._vectors.flat(update)
        return self._vectors.arrays(clip(vector, self._active)), norm_of(vector) <= self._tracked

    def step(self, updates: Iterable[Arrays]) -> None:
        total, below, clients = np.zeros(self._vectors.dimension), 0, 0
        for update in updates:
            vector = self._vectors.flat(update)
            below += norm_of(vector) <= self._tracked
            clients += 1
            total += clip(vector, self._active)
        self._round(total, below, clients, "float64")

    def apply(  # type: ignore[override]
        self, total: Arrays, *, below: float, clients: int, divided_by: float = 1.0
    ) -> None:
        """One round of sums over ``clients``: of clipped updates, and ``below``, how many were below the tracked norm.

        ``divided_by``: what ``total`` was divided by; ``below`` is a sum always.
        """
        if not (divided_by > 0 and math.isfinite(divided_by)):
            raise errors.make(
                "invalid_argument", f"divided_by is {divided_by}; allowed: finite and above zero"
            )
        if not 0 <= below <= clients:
            raise errors.make("invalid_argument", f"below is {below}; allowed: 0 to {clients}, the clients")
        self._round(self._given(total) * divided_by, below, clients, self._vectors.summed_in(total))

    def _round(self, total: np.ndarray, below: float, clients: int, summed_in: str) -> None:
        scale = self.plan.noise_multiplier * self.plan.clip_norm
        update_scale = scale / (self.update_noise_multiplier * self._active)
        bit_scale = scale / self.bit_noise
        vector = total * update_scale
        vector[self._bit] = (below - clients / 2) * bit_scale
        this_round = self.round
        noisy = self._noised(vector, summed_in, clients)
        share = noisy[self._bit] / bit_scale / self.clients_per_round + 0.5
        noisy[self._bit] = 0.0
        self._move(noisy / update_scale)
        moved = math.log(self._tracked) - self.clip_learning_rate * (share - self.quantile)
        low, high = map(math.log, self.bounds)
        self._tracked = math.exp(min(max(moved, low), high))
        if self.plan.mechanism == "identity" or this_round + 1 in self.plan.restarts:
            self._active = self._tracked

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "clip_norm": self._active, "tracked_norm": self._tracked}

    def load_state_dict(self, state: dict[str, Any]) -> bool:
        check_state(state, ("clip_norm", "tracked_norm"))
        active, tracked = float(state["clip_norm"]), float(state["tracked_norm"])
        fresh = super().load_state_dict(state)
        self._active, self._tracked = active, tracked
        return fresh
