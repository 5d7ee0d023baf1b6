//! The flags of one sampling scheme.

use batches::{Partition, Scheme};
use clap::ValueEnum;

use crate::commands::conditional_flags::{refuse_given, required};
use crate::output::bad_use;

/// A sampling scheme, each with the flags that it takes besides --cap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SchemeName {
    /// --sampling-probability
    Poisson,
    /// --bands, --sampling-probability (averaged over all rounds), --partition
    CyclicPoisson,
    /// --batches-per-epoch
    BallsInBins,
    /// --min-sep, --sampling-probability (of eligible records), --warm-start
    BMinSep,
    /// --batches-per-epoch, --participations
    RandomAllocation,
    /// --min-sep; no --cap
    FixedOrder,
    /// With --owners: --batch-size, --min-sep, --max-participations, --records-per-batch; no --cap
    ContributionBound,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PartitionName {
    /// Each record independently
    Independent,
    /// Into groups of equal size; not for the relation add-remove
    EqualSplit,
}

/// The scheme and its parameters.
#[derive(Clone, Debug, clap::Args)]
pub struct SchemeArgs {
    /// Sampling scheme; each takes the flags named with it
    #[arg(long, value_enum)]
    scheme: SchemeName,
    #[command(flatten)]
    parameters: SchemeParameters,
    /// Sample users, each of whom contributes G records, drawn anew in each round
    #[arg(long, value_name = "G", conflicts_with = "els")]
    uls: Option<u64>,
    /// Sample records, of which each user or owner keeps G, chosen once; --scheme poisson only
    #[arg(long, value_name = "G")]
    els: Option<u64>,
}

/// The parameters that some schemes take and others do not.
#[derive(Clone, Debug, clap::Args)]
struct SchemeParameters {
    /// Probability with which a record joins a round, from 2^-40 to 1
    #[arg(long, value_name = "Q")]
    sampling_probability: Option<f64>,
    /// Number of bands of the strategy, and of groups in cyclic Poisson sampling
    #[arg(long, value_name = "P")]
    bands: Option<u64>,
    /// How cyclic Poisson sampling assigns records to groups [default: independent]
    #[arg(long, value_enum)]
    partition: Option<PartitionName>,
    /// Number of batches per epoch
    #[arg(long, value_name = "B")]
    batches_per_epoch: Option<u64>,
    /// Number of rounds that a record joins in each epoch
    #[arg(long, value_name = "K")]
    participations: Option<u64>,
    /// Minimum distance j − i between two rounds i < j of one record, or of one owner
    #[arg(long, value_name = "B")]
    min_sep: Option<u64>,
    /// Maximum number of rounds of one owner
    #[arg(long, value_name = "K")]
    max_participations: Option<u64>,
    /// Number of records per batch; batches in which too few owners may take part are smaller
    #[arg(long, value_name = "N")]
    batch_size: Option<u64>,
    /// Maximum number of records of one owner per batch; the sensitivity is as many times as large [default: 1]
    #[arg(long, value_name = "M")]
    records_per_batch: Option<u64>,
    /// Start from the stationary distribution, not with every record eligible
    #[arg(long)]
    warm_start: bool,
    /// Maximum number of records per batch, chosen at random; amplified accounts exist for poisson, and for cyclic-poisson
    /// with one band or groups of equal size [default: none]
    #[arg(long, value_name = "N")]
    cap: Option<u64>,
}

impl SchemeArgs {
    /// Returns the scheme. Errors: a flag that it requires is missing, or one that it does not take is given.
    pub fn scheme(&self) -> anyhow::Result<Scheme> {
        let choice = format!("--scheme {}", self.scheme.word());
        let mut parameters = self.parameters.clone();
        let scheme = parameters.take_scheme(self.scheme, &choice)?;
        match (self.els, scheme) {
            (None, scheme) => {
                parameters.refuse_given(&choice)?;
                Ok(match self.uls {
                    Some(group_size) => Scheme::Uls { group_size, users: Box::new(scheme) },
                    None => scheme,
                })
            }
            (Some(group_size), Scheme::Poisson { sampling_probability, cap: None }) => {
                parameters.refuse_given(&choice)?;
                Ok(Scheme::Els { group_size, sampling_probability })
            }
            (Some(_), _) => Err(bad_use("--els is given; allowed: with --scheme poisson and without --cap")),
        }
    }
}

impl SchemeParameters {
    /// Takes the scheme's own parameters out, so that [`Self::refuse_given`] finds those left.
    fn take_scheme(&mut self, name: SchemeName, choice: &str) -> anyhow::Result<Scheme> {
        Ok(match name {
            SchemeName::Poisson => Scheme::Poisson {
                sampling_probability: required(self.sampling_probability.take(), PROBABILITY, choice)?,
                cap: self.cap.take(),
            },
            SchemeName::CyclicPoisson => {
                let partition = match self.partition.take() {
                    Some(PartitionName::EqualSplit) => Partition::EqualSplit,
                    Some(PartitionName::Independent) | None => Partition::Independent,
                };
                Scheme::CyclicPoisson {
                    bands: required(self.bands.take(), "--bands", choice)?,
                    sampling_probability: required(self.sampling_probability.take(), PROBABILITY, choice)?,
                    partition,
                    cap: self.cap.take(),
                }
            }
            SchemeName::BallsInBins => Scheme::BallsInBins {
                batches_per_epoch: required(self.batches_per_epoch.take(), BATCHES, choice)?,
                cap: self.cap.take(),
            },
            SchemeName::BMinSep => Scheme::BMinSep {
                min_sep: required(self.min_sep.take(), "--min-sep", choice)?,
                sampling_probability: required(self.sampling_probability.take(), PROBABILITY, choice)?,
                warm_start: std::mem::take(&mut self.warm_start),
                cap: self.cap.take(),
            },
            SchemeName::RandomAllocation => Scheme::RandomAllocation {
                batches_per_epoch: required(self.batches_per_epoch.take(), BATCHES, choice)?,
                participations: required(self.participations.take(), "--participations", choice)?,
                cap: self.cap.take(),
            },
            SchemeName::FixedOrder => {
                Scheme::FixedOrder { min_sep: required(self.min_sep.take(), "--min-sep", choice)? }
            }
            SchemeName::ContributionBound => Scheme::ContributionBound {
                batch_size: required(self.batch_size.take(), "--batch-size", choice)?,
                min_sep: required(self.min_sep.take(), "--min-sep", choice)?,
                max_participations: required(
                    self.max_participations.take(),
                    "--max-participations",
                    &format!("{choice}, without which no account bounds an owner,"),
                )?,
                records_per_batch: self.records_per_batch.take().unwrap_or(1),
            },
        })
    }

    fn refuse_given(&self, choice: &str) -> anyhow::Result<()> {
        let flags = [
            (PROBABILITY, self.sampling_probability.is_some()),
            ("--bands", self.bands.is_some()),
            ("--partition", self.partition.is_some()),
            (BATCHES, self.batches_per_epoch.is_some()),
            ("--participations", self.participations.is_some()),
            ("--min-sep", self.min_sep.is_some()),
            ("--max-participations", self.max_participations.is_some()),
            ("--batch-size", self.batch_size.is_some()),
            ("--records-per-batch", self.records_per_batch.is_some()),
            ("--warm-start", self.warm_start),
            ("--cap", self.cap.is_some()),
        ];
        refuse_given(&flags, choice)
    }
}

const PROBABILITY: &str = "--sampling-probability";
const BATCHES: &str = "--batches-per-epoch";

impl SchemeName {
    fn word(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
