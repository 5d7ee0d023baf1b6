//! The sampling scheme that a report assumes.

use accounting::monte_carlo::SampleBudget;
use clap::{Args, ValueEnum};
use report::SamplingAssumption;

use crate::commands::account::sampled::{CapArgs, Groups};
use crate::commands::conditional_flags::{refuse_given, required};
use crate::commands::monte_carlo::fresh_seed;

/// A sampling scheme, each with the flags that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SchemeName {
    /// No sampling: only the plan's participation is assumed
    AnyOrder,
    /// --sampling-probability, --partition, --batch-cap, --dataset-size; for a banded C
    CyclicPoisson,
    /// --batches-per-epoch, --samples, --seed; no cap on batches has an account
    BallsInBins,
    /// --batches-per-epoch, --selected; for independent noise; no cap on batches has an account
    RandomAllocation,
    /// --min-sep, --sampling-probability, --warm-start, --samples, --seed; for a C of at most min-sep bands; no cap on
    /// batches has an account
    BMinSep,
}

#[derive(Clone, Copy, Debug, Args)]
pub struct SamplingArgs {
    /// Sampling scheme of the batches; each takes the flags named with it
    #[arg(long, value_enum, default_value_t = SchemeName::AnyOrder)]
    sampling: SchemeName,
    /// Probability of a record per round, averaged over all rounds, in (0, 1]
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    sampling_probability: Option<f64>,
    /// How records were assigned to groups [default: independent]
    #[arg(long, value_enum)]
    partition: Option<Groups>,
    #[command(flatten)]
    cap: CapArgs,
    /// Number of batches per epoch; each record is in one of them
    #[arg(long, value_name = "B")]
    batches_per_epoch: Option<u64>,
    /// Number of batches of an epoch that each record joins [default: 1]
    #[arg(long, value_name = "K")]
    selected: Option<u64>,
    /// Minimum distance j − i between two rounds i < j of one record
    #[arg(long, value_name = "B")]
    min_sep: Option<u64>,
    /// Start from the stationary distribution, not with every record eligible
    #[arg(long)]
    warm_start: bool,
    #[arg(
        long,
        value_name = "N",
        help = format!("Number of samples for each Monte Carlo figure [default: {}]", SampleBudget::default().samples)
    )]
    samples: Option<u64>,
    /// Seed of the samples, not to be chosen by its result [default: random]
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
}

impl SamplingArgs {
    /// Returns the assumption. Errors: a flag that it requires is missing, or one that it does not take is given.
    pub fn assumption(mut self) -> anyhow::Result<SamplingAssumption> {
        let choice = format!("--sampling {}", self.word());
        let assumed = match self.sampling {
            SchemeName::AnyOrder => SamplingAssumption::AnyOrder,
            SchemeName::CyclicPoisson => SamplingAssumption::CyclicPoisson {
                sampling_probability: required(self.sampling_probability, "--sampling-probability", &choice)?,
                partition: self.partition.unwrap_or(Groups::Independent).into(),
                cap: self.cap.cap(),
            },
            SchemeName::BallsInBins => SamplingAssumption::BallsInBins {
                batches_per_epoch: required(self.batches_per_epoch, "--batches-per-epoch", &choice)?,
                samples: self.samples(),
                seed: self.seed()?,
            },
            SchemeName::RandomAllocation => SamplingAssumption::RandomAllocation {
                batches_per_epoch: required(self.batches_per_epoch, "--batches-per-epoch", &choice)?,
                participations: self.selected.unwrap_or(1),
            },
            SchemeName::BMinSep => SamplingAssumption::BMinSep {
                min_sep: required(self.min_sep, "--min-sep", &choice)?,
                sampling_probability: required(self.sampling_probability, "--sampling-probability", &choice)?,
                warm_start: self.warm_start,
                samples: self.samples(),
                seed: self.seed()?,
            },
        };
        self.clear_used();
        self.refuse_given(&choice).map(|()| assumed)
    }

    fn samples(&self) -> u64 {
        self.samples.unwrap_or(SampleBudget::default().samples)
    }

    fn seed(&self) -> anyhow::Result<u64> {
        self.seed.map_or_else(fresh_seed, Ok)
    }

    /// Clears the flags that the scheme takes, so that [`Self::refuse_given`] finds those left.
    fn clear_used(&mut self) {
        match self.sampling {
            SchemeName::AnyOrder => {}
            SchemeName::CyclicPoisson => {
                (self.sampling_probability, self.partition) = (None, None);
                self.cap = CapArgs::NONE;
            }
            SchemeName::BallsInBins => {
                (self.batches_per_epoch, self.samples, self.seed) = (None, None, None);
            }
            SchemeName::RandomAllocation => (self.batches_per_epoch, self.selected) = (None, None),
            SchemeName::BMinSep => {
                (self.min_sep, self.sampling_probability, self.warm_start) = (None, None, false);
                (self.samples, self.seed) = (None, None);
            }
        }
    }

    fn refuse_given(&self, choice: &str) -> anyhow::Result<()> {
        let flags = [
            ("--sampling-probability", self.sampling_probability.is_some()),
            ("--partition", self.partition.is_some()),
            ("--batch-cap", self.cap.cap().is_some()),
            ("--batches-per-epoch", self.batches_per_epoch.is_some()),
            ("--selected", self.selected.is_some()),
            ("--min-sep", self.min_sep.is_some()),
            ("--warm-start", self.warm_start),
            ("--samples", self.samples.is_some()),
            ("--seed", self.seed.is_some()),
        ];
        refuse_given(&flags, choice)
    }

    fn word(&self) -> String {
        self.sampling.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
