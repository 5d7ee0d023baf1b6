//! What a report may assume of how batches were formed.

use accounting::monte_carlo::SampleBudget;
use clap::{Args, ValueEnum};
use report::SamplingAssumption;

use crate::commands::account::sampled::Groups;
use crate::commands::monte_carlo::fresh_seed;
use crate::output::bad_use;

/// Each scheme takes the flags that are named with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Nothing is assumed but the plan's participation
    AnyOrder,
    /// --sampling-probability, --partition; C has to be banded (independent noise has one band)
    CyclicPoisson,
    /// --batches-per-epoch, --samples, --seed
    BallsInBins,
    /// --min-sep, --sampling-probability, --warm-start, --samples, --seed; C has to have at most min-sep bands
    BMinSep,
}

#[derive(Clone, Copy, Debug, Args)]
pub struct SamplingArgs {
    /// How batches were sampled
    #[arg(long, value_enum, default_value_t = Name::AnyOrder)]
    sampling: Name,
    /// Probability with which each takes part in a round, on average over all rounds
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    sampling_probability: Option<f64>,
    /// How groups were formed [default: independent]
    #[arg(long, value_enum)]
    partition: Option<Groups>,
    /// Number of batches; each record is assigned to one of them
    #[arg(long, value_name = "B")]
    batches_per_epoch: Option<u64>,
    /// Rounds i < j of a record satisfy j − i ≥ B
    #[arg(long, value_name = "B")]
    min_sep: Option<u64>,
    /// Start from the stationary distribution instead of with every record eligible
    #[arg(long)]
    warm_start: bool,
    /// Number of samples for each Monte Carlo figure
    #[arg(long, value_name = "N")]
    samples: Option<u64>,
    /// Seed of the samples [default: random]; a seed chosen for its result voids the guarantee
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

impl SamplingArgs {
    pub fn assumed(mut self) -> anyhow::Result<SamplingAssumption> {
        let needed = |flag: &str| bad_use(format!("{flag} is needed by --sampling {}", self.word()));
        let assumed = match self.sampling {
            Name::AnyOrder => SamplingAssumption::AnyOrder,
            Name::CyclicPoisson => SamplingAssumption::CyclicPoisson {
                sampling_probability: self
                    .sampling_probability
                    .ok_or_else(|| needed("--sampling-probability"))?,
                partition: self.partition.unwrap_or(Groups::Independent).into(),
            },
            Name::BallsInBins => SamplingAssumption::BallsInBins {
                batches_per_epoch: self.batches_per_epoch.ok_or_else(|| needed("--batches-per-epoch"))?,
                samples: self.samples(),
                seed: self.seed()?,
            },
            Name::BMinSep => SamplingAssumption::BMinSep {
                min_sep: self.min_sep.ok_or_else(|| needed("--min-sep"))?,
                sampling_probability: self
                    .sampling_probability
                    .ok_or_else(|| needed("--sampling-probability"))?,
                warm_start: self.warm_start,
                samples: self.samples(),
                seed: self.seed()?,
            },
        };
        self.take_away();
        self.nothing_left().map(|()| assumed)
    }

    fn samples(&self) -> u64 {
        self.samples.unwrap_or(SampleBudget::default().samples)
    }

    fn seed(&self) -> anyhow::Result<u64> {
        self.seed.map_or_else(fresh_seed, Ok)
    }

    /// Forgets the flags that the scheme has a use for.
    fn take_away(&mut self) {
        match self.sampling {
            Name::AnyOrder => {}
            Name::CyclicPoisson => (self.sampling_probability, self.partition) = (None, None),
            Name::BallsInBins => {
                (self.batches_per_epoch, self.samples, self.seed) = (None, None, None);
            }
            Name::BMinSep => {
                (self.min_sep, self.sampling_probability, self.warm_start) = (None, None, false);
                (self.samples, self.seed) = (None, None);
            }
        }
    }

    /// Error: a flag that somebody might rely on.
    fn nothing_left(&self) -> anyhow::Result<()> {
        let left = [
            ("--sampling-probability", self.sampling_probability.is_some()),
            ("--partition", self.partition.is_some()),
            ("--batches-per-epoch", self.batches_per_epoch.is_some()),
            ("--min-sep", self.min_sep.is_some()),
            ("--warm-start", self.warm_start),
            ("--samples", self.samples.is_some()),
            ("--seed", self.seed.is_some()),
        ];
        match left.iter().find(|(_, given)| *given) {
            Some((flag, _)) => Err(bad_use(format!("{flag} means nothing to --sampling {}", self.word()))),
            None => Ok(()),
        }
    }

    fn word(&self) -> String {
        self.sampling.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
