//! Sampling schemes as `calibrate` takes them: the number to find is not given.

use accounting::{AccountingError, Event};
use clap::Args;

use crate::commands::account::sampled::{BandMf, CapArgs, Groups, Poisson, UserLevel};
use crate::output::Answer;

/// The three numbers that every sampling scheme has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SchemeNumbers {
    pub noise_multiplier: f64,
    /// The probability with which a record takes part in a round, averaged over all rounds.
    pub sampling_probability: f64,
    pub rounds: u64,
}

/// A sampling scheme without some of its numbers.
pub trait OpenScheme {
    const NAME: &'static str;

    fn sampling_probability(&self) -> Option<f64>;
    fn rounds(&self) -> Option<u64>;
    /// Returns the largest sampling probability, averaged over all rounds.
    fn largest_probability(&self) -> f64 {
        1.0
    }
    fn event(&self, numbers: SchemeNumbers) -> Result<Event, AccountingError>;
    fn describe(&self, numbers: SchemeNumbers, answer: Answer) -> Answer;
}

#[derive(Clone, Copy, Debug, Args)]
pub struct OpenPoisson {
    /// Probability of a record per round, in (0, 1]
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    sampling_probability: Option<f64>,
    /// Number of rounds
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
    #[command(flatten)]
    cap: CapArgs,
}

#[derive(Clone, Copy, Debug, Args)]
pub struct OpenUserLevel {
    /// Probability of a record per round, in (0, 1]; of a user if --group-size is 1
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    sampling_probability: Option<f64>,
    /// Maximum number of records of one user, from 1 to 1048576 (2^20)
    #[arg(long, value_name = "G")]
    group_size: u64,
    /// Number of rounds
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
}

#[derive(Clone, Copy, Debug, Args)]
pub struct OpenBandMf {
    /// Probability of a record per round, averaged over all rounds, in (0, 1/P]
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    sampling_probability: Option<f64>,
    /// Number of bands of C, whose columns have norm at most 1 (`--column-norms equal`), and of groups of records; a plan's own
    /// norms: `rustle report --sampling cyclic-poisson`
    #[arg(long, value_name = "P", value_parser = clap::value_parser!(u64).range(1..))]
    bands: u64,
    /// Number of rounds n
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    iterations: Option<u64>,
    /// How records were assigned to groups
    #[arg(long, value_enum, default_value_t = Groups::Independent)]
    partition: Groups,
    #[command(flatten)]
    cap: CapArgs,
}

impl OpenPoisson {
    fn closed(&self, numbers: SchemeNumbers) -> Poisson {
        let SchemeNumbers { sampling_probability, rounds: iterations, .. } = numbers;
        Poisson { sampling_probability, iterations, cap: self.cap }
    }
}

impl OpenScheme for OpenPoisson {
    const NAME: &'static str = "poisson";

    fn sampling_probability(&self) -> Option<f64> {
        self.sampling_probability
    }

    fn rounds(&self) -> Option<u64> {
        self.iterations
    }

    fn event(&self, numbers: SchemeNumbers) -> Result<Event, AccountingError> {
        Ok(self.closed(numbers).event(numbers.noise_multiplier))
    }

    fn describe(&self, numbers: SchemeNumbers, answer: Answer) -> Answer {
        self.closed(numbers).describe(answer)
    }
}

impl OpenUserLevel {
    fn closed(&self, numbers: SchemeNumbers) -> UserLevel {
        let SchemeNumbers { sampling_probability, rounds: iterations, .. } = numbers;
        UserLevel { sampling_probability, group_size: self.group_size, iterations }
    }
}

impl OpenScheme for OpenUserLevel {
    const NAME: &'static str = "user-level";

    fn sampling_probability(&self) -> Option<f64> {
        self.sampling_probability
    }

    fn rounds(&self) -> Option<u64> {
        self.iterations
    }

    fn event(&self, numbers: SchemeNumbers) -> Result<Event, AccountingError> {
        self.closed(numbers).event(numbers.noise_multiplier)
    }

    fn describe(&self, numbers: SchemeNumbers, answer: Answer) -> Answer {
        self.closed(numbers).describe(answer)
    }
}

impl OpenBandMf {
    fn closed(&self, numbers: SchemeNumbers) -> BandMf {
        let SchemeNumbers { sampling_probability, rounds: iterations, .. } = numbers;
        let Self { bands, partition, cap, .. } = *self;
        BandMf { sampling_probability, bands, iterations, partition, cap }
    }
}

impl OpenScheme for OpenBandMf {
    const NAME: &'static str = "band-mf";

    fn sampling_probability(&self) -> Option<f64> {
        self.sampling_probability
    }

    fn rounds(&self) -> Option<u64> {
        self.iterations
    }

    /// One group is sampled in a round, with probability P·Q.
    fn largest_probability(&self) -> f64 {
        1.0 / self.bands as f64
    }

    fn event(&self, numbers: SchemeNumbers) -> Result<Event, AccountingError> {
        Ok(self.closed(numbers).event(numbers.noise_multiplier))
    }

    fn describe(&self, numbers: SchemeNumbers, answer: Answer) -> Answer {
        self.closed(numbers).describe(answer)
    }
}
