"""The sampling that a statement of privacy may assume, for the argument ``batches`` of :func:`rustle.report`.

Each is a promise about how the batches were formed. :class:`rustle.Batches` forms them so.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import _arguments, errors

__all__ = ["BMinSep", "BallsInBins", "CyclicPoisson", "Sampling"]


@dataclass(frozen=True)
class CyclicPoisson:
    """Groups of records take turns, each sampled by Poisson sampling.

    Args:
        sampling_probability: The rate at which a record is sampled, averaged over all rounds.
        partition: How records are assigned to groups: ``"independent"`` or ``"equal-split"``.
        batch_cap: The most records of a batch. The account charges for the record that another one pushes out; it knows
            one group, or groups of one size.
        dataset_size: The public number of records, or users, where there is a cap.
    """

    sampling_probability: float
    partition: str = "independent"
    batch_cap: int | None = None
    dataset_size: int | None = None

    def arguments(self) -> tuple[float, str, tuple[int, int] | None]:
        """Returns the values in the order that the accountant takes them."""
        rate = _arguments.number("sampling_probability", self.sampling_probability)
        partition = _arguments.text("partition", self.partition, "independent, equal-split")
        if self.batch_cap is None and self.dataset_size is None:
            return rate, partition, None
        if self.batch_cap is None or self.dataset_size is None:
            given = f"batch_cap is {self.batch_cap} and dataset_size is {self.dataset_size}"
            raise errors.make("invalid_argument", f"{given}; allowed: both or neither")
        cap = (_arguments.whole("batch_cap", self.batch_cap), _arguments.whole("dataset_size", self.dataset_size))
        return rate, partition, cap


@dataclass(frozen=True)
class BallsInBins:
    """Each record is in one batch of every epoch, the same in each; accounted for by Monte Carlo.

    It promises that no batch has a cap: batches with one have no account that is amplified.

    Args:
        batches_per_epoch: The batches of an epoch.
        samples: The pairs of samples that the account is estimated from.
        seed: The seed of these samples.
    """

    batches_per_epoch: int
    samples: int
    seed: int

    def arguments(self) -> tuple[int, int, int]:
        """Returns the values in the order that the accountant takes them."""
        per_epoch = _arguments.whole("batches_per_epoch", self.batches_per_epoch)
        return per_epoch, _arguments.whole("samples", self.samples), _arguments.whole("seed", self.seed)


@dataclass(frozen=True)
class BMinSep:
    """Each record joins at random, unless it joined one of the ``min_sep`` − 1 rounds before; accounted for by Monte Carlo.

    It promises that no batch has a cap: batches with one have no account that is amplified.

    Args:
        min_sep: The least distance between two rounds of one record.
        sampling_probability: The probability that a record joins a round that it may join.
        warm_start: Whether the first rounds are as full as later ones.
        samples: The pairs of samples that the account is estimated from.
        seed: The seed of these samples.
    """

    min_sep: int
    sampling_probability: float
    warm_start: bool
    samples: int
    seed: int

    def arguments(self) -> tuple[int, float, bool, int, int]:
        """Returns the values in the order that the accountant takes them."""
        min_sep = _arguments.whole("min_sep", self.min_sep)
        rate = _arguments.number("sampling_probability", self.sampling_probability)
        warm = _arguments.flag("warm_start", self.warm_start)
        return min_sep, rate, warm, _arguments.whole("samples", self.samples), _arguments.whole("seed", self.seed)


Sampling = CyclicPoisson | BallsInBins | BMinSep
