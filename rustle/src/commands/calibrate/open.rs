//! Sampled rounds with one number left open, which the search is for.

use accounting::{AccountingError, Event};
use clap::Args;

use crate::commands::account::sampled::{BandMf, Groups, Poisson, UserLevel};
use crate::output::Answer;

/// The three numbers of every kind of sampled rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numbers {
    pub noise_multiplier: f64,
    /// Of a record in a round, on average over all rounds.
    pub sampling_probability: f64,
    pub rounds: u64,
}

/// Rounds whose numbers may be left away.
pub trait Open {
    const NAME: &'static str;

    fn sampling_probability(&self) -> Option<f64>;
    fn rounds(&self) -> Option<u64>;
    /// The largest sampling probability, on average over all rounds.
    fn most(&self) -> f64 {
        1.0
    }
    fn event(&self, numbers: Numbers) -> Result<Event, AccountingError>;
    fn describe(&self, numbers: Numbers, answer: Answer) -> Answer;
}

#[derive(Clone, Copy, Debug, Args)]
pub struct OpenPoisson {
    /// Probability with which each record takes part in a round
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    sampling_probability: Option<f64>,
    /// Rounds
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
    /// Largest number of sampled records to keep in a batch; requires --dataset-size
    #[arg(long, value_name = "B", requires = "dataset_size")]
    batch_cap: Option<u64>,
    /// Number of records in the data set, if that is public; requires --batch-cap
    #[arg(long, value_name = "N", requires = "batch_cap")]
    dataset_size: Option<u64>,
}

#[derive(Clone, Copy, Debug, Args)]
pub struct OpenUserLevel {
    /// Probability with which each record takes part in a round; with --group-size 1, each user
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    sampling_probability: Option<f64>,
    /// Largest number of records of one user
    #[arg(long, value_name = "G")]
    group_size: u64,
    /// Rounds
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
}

#[derive(Clone, Copy, Debug, Args)]
pub struct OpenBandMf {
    /// Probability with which a record takes part in a round, on average over all rounds
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    sampling_probability: Option<f64>,
    /// Bands of C, and groups of records
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u64).range(1..))]
    bands: u64,
    /// Rows
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
    /// How records were assigned to groups: independently, or into groups of equal size
    #[arg(long, value_enum, default_value_t = Groups::Independent)]
    partition: Groups,
}

impl OpenPoisson {
    fn closed(&self, numbers: Numbers) -> Poisson {
        let Numbers { sampling_probability, rounds: iterations, .. } = numbers;
        let Self { batch_cap, dataset_size, .. } = *self;
        Poisson { sampling_probability, iterations, batch_cap, dataset_size }
    }
}

impl Open for OpenPoisson {
    const NAME: &'static str = "poisson";

    fn sampling_probability(&self) -> Option<f64> {
        self.sampling_probability
    }

    fn rounds(&self) -> Option<u64> {
        self.iterations
    }

    fn event(&self, numbers: Numbers) -> Result<Event, AccountingError> {
        Ok(self.closed(numbers).event(numbers.noise_multiplier))
    }

    fn describe(&self, numbers: Numbers, answer: Answer) -> Answer {
        self.closed(numbers).describe(answer)
    }
}

impl OpenUserLevel {
    fn closed(&self, numbers: Numbers) -> UserLevel {
        let Numbers { sampling_probability, rounds: iterations, .. } = numbers;
        UserLevel { sampling_probability, group_size: self.group_size, iterations }
    }
}

impl Open for OpenUserLevel {
    const NAME: &'static str = "user-level";

    fn sampling_probability(&self) -> Option<f64> {
        self.sampling_probability
    }

    fn rounds(&self) -> Option<u64> {
        self.iterations
    }

    fn event(&self, numbers: Numbers) -> Result<Event, AccountingError> {
        self.closed(numbers).event(numbers.noise_multiplier)
    }

    fn describe(&self, numbers: Numbers, answer: Answer) -> Answer {
        self.closed(numbers).describe(answer)
    }
}

impl OpenBandMf {
    fn closed(&self, numbers: Numbers) -> BandMf {
        let Numbers { sampling_probability, rounds: iterations, .. } = numbers;
        BandMf { sampling_probability, bands: self.bands, iterations, partition: self.partition }
    }
}

impl Open for OpenBandMf {
    const NAME: &'static str = "band-mf";

    fn sampling_probability(&self) -> Option<f64> {
        self.sampling_probability
    }

    fn rounds(&self) -> Option<u64> {
        self.iterations
    }

    /// A group is sampled with p·q.
    fn most(&self) -> f64 {
        1.0 / self.bands as f64
    }

    fn event(&self, numbers: Numbers) -> Result<Event, AccountingError> {
        Ok(self.closed(numbers).event(numbers.noise_multiplier))
    }

    fn describe(&self, numbers: Numbers, answer: Answer) -> Answer {
        self.closed(numbers).describe(answer)
    }
}
