//! The sampling schemes and the neighbouring relation, as flags that `account` and `calibrate` share.

use accounting::{
    AccountingError, BatchCap, Event, MatrixMechanism, Neighbouring, Partition, Report, Sampling, user_level,
};
use clap::Args;
use plan::Plan;
use strategy::Sensitivity;

use crate::output::{Answer, bad_use};

/// The relation between two data sets that must be hard to tell apart.
#[derive(Clone, Copy, Debug, Args)]
pub struct Relation {
    /// Neighbouring relation: how two data sets differ in the data of one user
    #[arg(long, value_enum, value_name = "RELATION", default_value_t = Word::ZeroOut)]
    neighbouring: Word,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Word {
    /// One user's data are replaced by zeros
    ZeroOut,
    /// One user is added or removed
    AddRemove,
    /// One user's data are replaced by another user's data
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
        self.neighbouring().name()
    }

    /// Refuses a relation that no plan on a grid is accounted for under (bad use).
    pub fn check_plan(self, plan: &Plan) -> anyhow::Result<()> {
        if self.neighbouring() != Neighbouring::AddRemove || plan.on_grid().is_none() {
            return Ok(());
        }
        Err(bad_use(
            "--neighbouring is add-remove, and --plan has [grid]; allowed: zero-out, replace, as a batch of one record fewer may \
             change the bits of other gradients, which no summing error covers (docs/grid.md)",
        ))
    }

    /// Converts a sensitivity under zeroing out to this relation.
    pub fn moved(self, zero_out: Sensitivity) -> Sensitivity {
        Sensitivity { value: zero_out.value * self.neighbouring().factor(), ..zero_out }
    }

    pub fn report(self, zero_out: Sensitivity, sigma: f64, delta: f64) -> Result<Report, AccountingError> {
        Report::at_delta(self.moved(zero_out), sigma, delta)
    }
}

/// Rounds under Poisson sampling.
#[derive(Clone, Copy, Debug, Args)]
pub struct Poisson {
    /// Probability of a record per round, in (0, 1]
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    pub sampling_probability: f64,
    /// Number of rounds
    #[arg(long, value_name = "T", value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: u64,
    #[command(flatten)]
    pub cap: CapArgs,
}

/// A cap on batches. Who joins a full batch pushes another record out, which accounts charge for.
#[derive(Clone, Copy, Debug, Args)]
pub struct CapArgs {
    /// Maximum number of records per batch; requires --dataset-size [default: none]
    #[arg(long, value_name = "B", requires = "dataset_size")]
    batch_cap: Option<u64>,
    /// Number of records in the data set, which must be public; requires --batch-cap
    #[arg(long, value_name = "N", requires = "batch_cap")]
    dataset_size: Option<u64>,
}

impl CapArgs {
    pub const NONE: Self = Self { batch_cap: None, dataset_size: None };

    pub fn cap(self) -> Option<BatchCap> {
        let Self { batch_cap, dataset_size } = self;
        Some(BatchCap { batch_cap: batch_cap?, dataset_size: dataset_size? })
    }

    fn describe(self, answer: Answer) -> Answer {
        match self.cap() {
            Some(cap) => answer.with("dataset_size", cap.dataset_size).with("batch_cap", cap.batch_cap),
            None => answer,
        }
    }
}

impl Poisson {
    pub fn event(&self, noise_multiplier: f64) -> Event {
        let sampling_probability = self.sampling_probability;
        let round = match self.cap.cap() {
            Some(BatchCap { batch_cap, dataset_size }) => Event::TruncatedPoissonGaussian {
                noise_multiplier,
                sampling_probability,
                dataset_size,
                batch_cap,
            },
            None => Event::PoissonSampledGaussian { noise_multiplier, sampling_probability },
        };
        round.times(self.iterations)
    }

    pub fn describe(&self, answer: Answer) -> Answer {
        let answer = answer
            .with("sampling_probability", self.sampling_probability)
            .with("iterations", self.iterations);
        self.cap.describe(answer)
    }
}

/// Rounds under Poisson sampling, with several records per user.
#[derive(Clone, Copy, Debug, Args)]
pub struct UserLevel {
    /// Probability of a record per round, in (0, 1]; of a user if --group-size is 1
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    pub sampling_probability: f64,
    /// Maximum number of records of one user, from 1 to 1048576 (2^20)
    #[arg(long, value_name = "G")]
    pub group_size: u64,
    /// Number of rounds
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

/// A banded strategy with columns of norm at most 1 under cyclic Poisson sampling: groups of records take turns.
#[derive(Clone, Copy, Debug, Args)]
pub struct BandMf {
    /// Probability of a record per round, averaged over all rounds, in (0, 1/P]
    #[arg(long, value_name = "Q", allow_negative_numbers = true)]
    pub sampling_probability: f64,
    /// Number of bands of C, whose columns have norm at most 1 (`--column-norms equal`), and of groups of records; a plan's own
    /// norms: `rustle report --sampling cyclic-poisson`
    #[arg(long, value_name = "P")]
    pub bands: u64,
    /// Number of rounds n
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub iterations: u64,
    /// How records were assigned to groups
    #[arg(long, value_enum, default_value_t = Groups::Independent)]
    pub partition: Groups,
    #[command(flatten)]
    pub cap: CapArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Groups {
    /// Each record independently
    Independent,
    /// Into groups of equal size; not for the relation add-remove
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
        let partition = self.partition.into();
        let run = MatrixMechanism::cyclic_poisson(noise_multiplier, q, bands, iterations, partition);
        let sampling = Sampling::CyclicPoisson { sampling_probability: q, partition, cap: self.cap.cap() };
        Event::MatrixMechanism(MatrixMechanism { sampling, ..run })
    }

    pub fn describe(&self, answer: Answer) -> Answer {
        let answer = answer
            .with("sampling_probability", self.sampling_probability)
            .with("bands", self.bands)
            .with("iterations", self.iterations);
        self.cap.describe(answer)
    }
}
