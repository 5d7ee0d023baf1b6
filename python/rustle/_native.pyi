"""The native functions behind :mod:`rustle`, which is the public interface."""

from __future__ import annotations

import os
from typing import Any, Callable, Iterator

import numpy as np
import numpy.typing as npt

_F32 = npt.NDArray[np.float32]
_I32 = npt.NDArray[np.int32]
_I64 = npt.NDArray[np.int64]
_Batch = tuple[int, _I64, _I64 | None, int | None]

class Plan:
    """The mechanism and parameters of a job's noise, checked when it is created. Its digest enters the keys of the noise."""

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Plan: ...
    @staticmethod
    def from_toml(text: str) -> Plan: ...
    def to_toml(self) -> str: ...
    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the plan to a file, whole or not at all, and creates its folder where it is missing."""
    def replace(
        self,
        noise_multiplier: float | None = None,
        clip_norm: float | None = None,
        dimension: int | None = None,
        parameters: list[tuple[str, list[int]]] | None = None,
    ) -> Plan:
        """Returns the plan with another σ, ζ or layout; on a grid another σ or ζ has a step of its own, and κ stays."""
    def with_restarts(self, restarts: list[int], completion: bool = False) -> Plan:
        """Returns a tree plan with fresh trees from these rounds on. σ stays, so calibrate it again."""
    def on_grid(self, summing_error: float | None = None, rounding: str | None = None) -> Plan:
        """Returns the plan with rows of integers, on the finest grid that fits; σ stays, so calibrate it again.

        ``summing_error``: κ, what the job's clipping and summing in floating point add to a contribution's norm, relative to
        the clip norm (:func:`rustle.grid.summing_error`); needed unless ``rounding`` is contributions. ``rounding``: nearest,
        dithered, contributions; by default nearest where that costs next to nothing, else dithered. The plan needs a
        dimension.
        """
    def privacy(self, delta: float) -> dict[str, Any]:
        """Returns ε, δ, ρ, sens(C) and whether they are exact, for the whole run and batches in any order within min_sep."""
    def errors(self) -> dict[str, float]:
        """Returns rms, max and last error of released prefix sums, in units of the clip norm."""
    @property
    def iterations(self) -> int:
        """Steps n."""
    @property
    def noise_multiplier(self) -> float:
        """σ, in units of the clip norm, before C⁻¹."""
    @property
    def clip_norm(self) -> float:
        """ζ, in the gradient's own units."""
    @property
    def mechanism(self) -> str: ...
    @property
    def restarts(self) -> list[int]:
        """Rounds from which on a tree's noise is fresh; empty for other mechanisms."""
    @property
    def min_sep(self) -> int:
        """Steps from one participation of a user to the next, at least."""
    @property
    def max_participations(self) -> int: ...
    @property
    def dimension(self) -> int | None:
        """Coordinates of the flattened vector, where the plan says so."""
    @property
    def parameters(self) -> list[tuple[str, list[int]]]:
        """Names and shapes in the order of the flattened vector; empty where the plan has none."""
    @property
    def grid(self) -> dict[str, Any] | None:
        """The grid of a plan whose rows are integers: step (they count 2^step in the gradient's own units), rounding,
        summing_error, clip_norm_accounted, noise_multiplier_accounted. None for rows of floating-point numbers."""
    @property
    def state_slots(self) -> int:
        """float32 numbers of state for each coordinate."""
    @property
    def digest(self) -> str:
        """SHA-256, hexadecimal."""
    @property
    def layout_digest(self) -> str | None: ...

class Session:
    def fetch_into(self, step: int, out: _F32, start: int, commitment: bytes | None) -> None: ...
    def add_into(
        self,
        step: int,
        pieces: list[tuple[int, _F32]],
        range: tuple[int, int],
        commitment: bytes | None,
        divide_by: float,
        sum: bytes | None = None,
    ) -> None: ...
    def used(self, step: int, start: int, end: int) -> None: ...
    def reserve(
        self, start: int, end: int, steps: int, commitment: bytes | Callable[[int], bytes] | None
    ) -> None: ...
    def prefetch(self, rows: int) -> None: ...
    def cursor(self, step: int | None = None) -> bytes: ...
    def resume(self, cursor: bytes, replay: bool) -> bool: ...
    def rewind(self, step: int) -> None: ...
    def share(self) -> tuple[int, int, bytes]: ...
    def join(self, branch: int, step: int, shared: bytes) -> None: ...
    def report(self) -> str: ...
    def plan(self) -> Plan: ...
    def close(self) -> None: ...
    @property
    def waited(self) -> float: ...
    @property
    def closed(self) -> bool: ...
    @property
    def job(self) -> str: ...
    @property
    def dimension(self) -> int: ...
    @property
    def iterations(self) -> int: ...
    @property
    def branch(self) -> int: ...
    @property
    def next_step(self) -> int: ...

def digest(
    session: Session, step: int, sum: list[npt.NDArray[np.uint8]], start: int, divide_by: float
) -> bytes:
    """Returns the digest of a sum in pieces, keyed by the session's secret."""

def is_on_grid(session: Session) -> bool: ...
def fetch_integers(
    session: Session, step: int, out: _I32, start: int, commitment: bytes | None
) -> None: ...
def release_integers(
    session: Session, step: int, sum: _I64, start: int, commitment: bytes | None, digest: bytes | None = None
) -> None: ...

class Batches:
    def __init__(
        self, scheme: str, population: int | list[int] | Owners, iterations: int, seed: bytes
    ) -> None: ...
    def batch(self, round: int) -> _Batch: ...
    def rounds(self, start: int, end: int) -> Rounds: ...
    def event(self) -> str: ...
    def owner_statistics(self) -> str | None: ...
    @property
    def iterations(self) -> int: ...
    @property
    def digest(self) -> str: ...

class Owners:
    def __init__(self, records: list[tuple[int, list[int]]]) -> None: ...
    @staticmethod
    def read(path: str) -> Owners: ...
    @property
    def records(self) -> int: ...
    @property
    def count(self) -> int: ...
    @property
    def end(self) -> int: ...

class Rounds:
    def __iter__(self) -> Iterator[_Batch]: ...
    def __next__(self) -> _Batch: ...

_Account = tuple[str, str, str, str, list[str]]

def connect(url: str, account: _Account | None = None, sweep: str | None = None, adopt: bool = False) -> Session: ...
def create_data_set(folder: str, words: tuple[str, str, str], amount: tuple[float, float], per_block: bool) -> None: ...
def add_block(
    folder: str, data_set: str, block: str, days: tuple[str, str], amount: tuple[float, float] | None
) -> None: ...
def grant_budget(folder: str, data_set: str, amount: tuple[float, float]) -> None: ...
def data_set_report(folder: str, data_set: str, format: str) -> str: ...
def create_sweep(
    folder: str, sweep: str, account: _Account, plan: Plan, runs: tuple[float, float | None]
) -> None: ...
def sweep_state(folder: str, sweep: str) -> tuple[int, bool, str]: ...
def finish(session: Session, destroy_key: bool) -> tuple[str, bool]: ...
def session_over(engine: Any) -> Session:
    """Opens a session over an engine written in Python, such as the one of :mod:`rustle._mpi`."""

def refusal(json: str) -> Exception | None:
    """Returns the exception for a service's error in JSON."""

def layout_digest(parameters: list[tuple[str, list[int]]]) -> str: ...
def suggest(
    run: dict[str, Any],
    promise: tuple[float, float],
    sampling_probability: float | None,
    workers: tuple[int, int | None],
    within: float,
    on_grid: bool,
) -> tuple[str, list[Plan]]: ...
def keep_on_grid(plan: Plan, summing_error: float | None, name: str | None) -> Plan: ...
def optimise(
    run: dict[str, Any],
    promise: tuple[float, float],
    mechanism: str,
    size: int | None,
    column_norms: str | None,
) -> Plan: ...
def calibrate(plan: Plan, epsilon: float, delta: float) -> Plan: ...
def delta_on_grid(epsilon: float, delta: float) -> float: ...
def event_epsilon(event: str, delta: float, relation: str) -> float: ...
def plan_event(plan: Plan, sampling_probability: float | None) -> str: ...
def audit_scores(
    scores: npt.NDArray[np.float64],
    included: npt.NDArray[np.bool_],
    claim: tuple[float, float, float],
    method: str,
    guesses: int | None,
) -> tuple[float, float, int, int, int]: ...
def audit_guesses(
    counts: tuple[int, int, int], claim: tuple[float, float, float]
) -> tuple[float, float, int, int, int]: ...
def audit_canaries(claim: tuple[float, float, float], method: str) -> int: ...
def statement(
    plan: Plan | None,
    job: str | None,
    deltas: list[float],
    protected: tuple[str, str],
    batches: tuple[Any, ...] | None,
    format: str,
) -> str: ...
def user_level_event(
    noise_multiplier: float, sampling_probability: float, group_size: int, rounds: int
) -> str: ...
def user_level_noise_multiplier(
    users: tuple[float, int, int], promise: tuple[float, float], relation: str
) -> float: ...
def adaptive_noise_multiplier(noise_multiplier: float, bit_noise: float) -> float: ...
def inflated_clip_norm(clip_norm: float, scale: float, padded_dimension: int) -> float: ...
