//! What is sampled, and between which data sets: the words that `account` and `calibrate` share.

use accounting::{AccountingError, Event, MatrixMechanism, Neighbouring, Partition, Report, user_level};
use clap::Args;
use strategy::Sensitivity;

use crate::output::Answer;

/// Which two data sets must be hard to tell apart.
#[derive(Clone, Copy, Debug, Args)]
pub struct Relation {
    /// Neighbours: a user zeroed out, added or removed, or replaced by another
    #[arg(long, value_enum, value_name = "RELATION", default_value_t = Word::ZeroOut)]
    neighbouring: Word,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Word {
    ZeroOut,
    AddRemove,
    Replace,
}

impl Relation {
    pub fn neighbouring(self) -> Neighbouring {
        match self.neighbouring {
            Word::ZeroOut => Neighbouring::ZeroOut,
            Word::AddRemove => Neighbouring::AddRemove,
            Word::Replace => Neighbouring::Replace,
        }
    }

    pub fn name(self) -> &'static str {
        match self.neighbouring {
            Word::ZeroOut => "zero-out",
            Word::AddRemove => "add-remove",
            Word::Replace => "replace",
        }
    }

    /// A sensitivity under zeroing out, as it is under this relation.
    pub fn moved(self, zero_out: Sensitivity) -> Sensitivity {
        Sensitivity { value: zero_out.value * self.neighbouring().factor(), ..zero_out }
    }

    pub fn report(self, zero_out: Sensitivity, sigma: f64, delta: f64) -> Result<Report, AccountingError> {
        Report::at_delta(self.moved(zero_out), sigma, delta)
    }
}

/// Poisson-sampled rounds.
#[derive(Clone, Copy, Debug, Args)]
pub struct Poisson {
    /// Probability with which each record takes part in a round
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    pub sampling_probability: f64,
    /// Rounds
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: u64,
    /// Largest number of sampled records to keep in a batch; requires --dataset-size
    #[arg(long, value_name = "B", requires = "dataset_size")]
    pub batch_cap: Option<u64>,
    /// Number of records in the data set, if that is public; requires --batch-cap
    #[arg(long, value_name = "N", requires = "batch_cap")]
    pub dataset_size: Option<u64>,
}

impl Poisson {
    pub fn event(&self, noise_multiplier: f64) -> Event {
        let sampling_probability = self.sampling_probability;
        let round = match (self.dataset_size, self.batch_cap) {
            (Some(dataset_size), Some(batch_cap)) => Event::TruncatedPoissonGaussian {
                noise_multiplier,
                sampling_probability,
                dataset_size,
                batch_cap,
            },
            _ => Event::PoissonSampledGaussian { noise_multiplier, sampling_probability },
        };
        round.times(self.iterations)
    }

    pub fn describe(&self, answer: Answer) -> Answer {
        let answer = answer
            .with("sampling_probability", self.sampling_probability)
            .with("iterations", self.iterations);
        match (self.dataset_size, self.batch_cap) {
            (Some(size), Some(cap)) => answer.with("dataset_size", size).with("batch_cap", cap),
            _ => answer,
        }
    }
}

/// Poisson-sampled rounds of users with many records.
#[derive(Clone, Copy, Debug, Args)]
pub struct UserLevel {
    /// Probability with which each record takes part in a round; with --group-size 1, each user
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    pub sampling_probability: f64,
    /// Largest number of records of one user
    #[arg(long, value_name = "G")]
    pub group_size: u64,
    /// Rounds
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: u64,
}

impl UserLevel {
    pub fn event(&self, noise_multiplier: f64) -> Result<Event, AccountingError> {
        let round = user_level::round(noise_multiplier, self.sampling_probability, self.group_size)?;
        Ok(round.times(self.iterations))
    }

    pub fn describe(&self, answer: Answer) -> Answer {
        answer
            .with("sampling_probability", self.sampling_probability)
            .with("group_size", self.group_size)
            .with("iterations", self.iterations)
    }
}

/// A banded strategy with columns of norm at most 1, groups sampled in turn.
#[derive(Clone, Copy, Debug, Args)]
pub struct BandMf {
    /// Probability with which a record takes part in a round, on average over all rounds
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    pub sampling_probability: f64,
    /// Bands of C, and groups of records
    #[arg(long, value_name = "P")]
    pub bands: u64,
    /// Rows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: u64,
    /// How records were assigned to groups: independently, or into groups of equal size
    #[arg(long, value_enum, default_value_t = Groups::Independent)]
    pub partition: Groups,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Groups {
    Independent,
    EqualSplit,
}

impl From<Groups> for Partition {
    fn from(groups: Groups) -> Self {
        match groups {
            Groups::Independent => Self::Independent,
            Groups::EqualSplit => Self::EqualSplit,
        }
    }
}

impl BandMf {
    pub fn event(&self, noise_multiplier: f64) -> Event {
        let q = self.sampling_probability;
        let bands = self.bands;
        let iterations = self.iterations;
        let run =
            MatrixMechanism::cyclic_poisson(noise_multiplier, q, bands, iterations, self.partition.into());
        Event::MatrixMechanism(run)
    }

    pub fn describe(&self, answer: Answer) -> Answer {
        answer
            .with("sampling_probability", self.sampling_probability)
            .with("bands", self.bands)
            .with("iterations", self.iterations)
    }
}
