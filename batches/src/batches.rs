//! A run's batches, round by round.

use std::ops::Range;
use std::sync::Arc;

use serde::Serialize;

use crate::assignment::Window;
use crate::bins::{Allocation, Uniform, WithoutReplacement};
use crate::contribution_bound::{BoundedPoisson, ContributionBound, OwnerRule};
use crate::cyclic::{EqualSplit, Independent};
use crate::encode;
use crate::error::{BatchError, MAX_RECORDS, Result, invalid, within};
use crate::event::SamplingEvent;
use crate::min_sep::MinSep;
use crate::owner_statistics::OwnerStatistics;
use crate::owners::Owners;
use crate::poisson::Poisson;
use crate::population::{Population, Users};
use crate::scheme::{Partition, Scheme};
use crate::scheme_rules::group_probability;
use crate::seed::{Key, Keys, Seed};
use crate::source::Source;
use crate::users::{ExampleLevel, UserRecords};

/// The records that take part in one round. A batch is as secret as the seed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Batch {
    /// The round, from 0.
    pub round: u64,
    /// The records, ascending.
    pub ids: Vec<u64>,
    /// The owner of each record; only for populations of users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub users: Option<Vec<u64>>,
    /// The number of empty records (or users) to add up to the cap; only where there is a cap.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub padding: Option<u64>,
}

/// The batches of a run, drawn on demand. Cheap to clone.
#[derive(Clone)]
pub struct Batches {
    scheme: Scheme,
    /// The number of records, or of users, to draw from.
    count: u64,
    users: Option<Arc<Users>>,
    owners: Option<Arc<Owners>>,
    iterations: u64,
    keys: Keys,
}

impl Batches {
    /// Prepares the batches of a run of `iterations` rounds.
    ///
    /// # Errors
    /// [`BatchError::Invalid`] for a number outside its range; [`BatchError::Mismatch`] for a scheme that doesn't suit the
    /// population.
    pub fn new(
        scheme: Scheme,
        population: Population,
        iterations: u64,
        seed: impl Into<Seed>,
    ) -> Result<Self> {
        scheme.validate()?;
        scheme.check_population(&population)?;
        within("iterations", iterations, (1, MAX_RECORDS), "1 to 2^53")?;
        let keys = Keys::new(seed.into(), encode::digest(&scheme, &population));
        let count = population.count();
        let mut batches = Self { scheme, count, users: None, owners: None, iterations, keys };
        match population {
            Population::Users(users) => batches.users = Some(Arc::new(users)),
            Population::Owners(owners) => batches.owners = Some(Arc::new(owners)),
            Population::Records(_) => {}
        }
        Ok(batches)
    }

    /// Returns the number of rounds of the run.
    #[must_use]
    pub fn iterations(&self) -> u64 {
        self.iterations
    }

    /// Returns SHA-256 over scheme and population, on which every draw depends beside the seed. It is no secret.
    #[must_use]
    pub fn digest(&self) -> [u8; 32] {
        self.keys.bound_to()
    }

    /// Returns everything an accountant needs to know of how the batches are formed.
    #[must_use]
    pub fn event(&self) -> SamplingEvent {
        SamplingEvent::new(&self.scheme, self.count, self.iterations, self.owners.is_some())
    }

    /// Returns what the bound on owners keeps of their records, and the largest participation of an owner, for populations
    /// of owners. Where the bound is on rounds, it forms every batch of the run to count them.
    ///
    /// # Errors
    /// Those of [`Self::rounds`].
    pub fn owner_statistics(&self) -> Result<Option<OwnerStatistics>> {
        let Some(graph) = &self.owners else { return Ok(None) };
        Ok(Some(match self.scheme {
            Scheme::Els { group_size, .. } => {
                OwnerStatistics::of_kept(graph, graph.bounded(group_size, &self.keys.derive("owners")))
            }
            _ => {
                let rounds = self.rounds(0..self.iterations)?;
                OwnerStatistics::of_batches(graph, rounds.map(|batch| (batch.round, batch.ids)))
            }
        }))
    }

    /// Returns the batch of one round.
    ///
    /// # Errors
    /// [`BatchError::Rounds`] for a round that the run doesn't have.
    pub fn batch(&self, round: u64) -> Result<Batch> {
        let after = round.checked_add(1).ok_or_else(|| invalid("round", round, "below the iterations"))?;
        let mut rounds = self.rounds(round..after)?;
        Ok(rounds.make(round))
    }

    /// Iterates over the batches of a range of rounds. They are the same wherever the range begins.
    ///
    /// # Errors
    /// [`BatchError::Rounds`] for rounds that the run doesn't have.
    pub fn rounds(&self, rounds: Range<u64>) -> Result<Rounds> {
        let Range { start, end } = rounds;
        if start > end || end > self.iterations {
            return Err(BatchError::Rounds { start, end, iterations: self.iterations });
        }
        let mut source = self.source(&self.scheme, end - start)?;
        if start < end {
            source.seek(start);
        }
        let user_records = match (&self.scheme, &self.users) {
            (Scheme::Uls { group_size, .. }, Some(users)) => {
                Some(UserRecords::new(&self.keys, *group_size, users.clone()))
            }
            _ => None,
        };
        let cap = self.scheme.cap().map(|cap| (cap, self.keys.derive("cut")));
        Ok(Rounds { source, cap, user_records, users: self.users.clone(), rounds })
    }

    fn source(&self, scheme: &Scheme, rounds: u64) -> Result<Box<dyn Source + Send>> {
        let keys = &self.keys;
        let count = self.count;
        Ok(match scheme {
            Scheme::Poisson { sampling_probability, .. } => {
                Box::new(Poisson::new(keys, *sampling_probability, count))
            }
            Scheme::CyclicPoisson { bands, sampling_probability, partition, .. } => {
                let q = group_probability(*bands, *sampling_probability)?;
                match partition {
                    Partition::Independent => Box::new(Independent::new(keys, *bands, q, count)),
                    Partition::EqualSplit => {
                        let groups = Window::new(WithoutReplacement::new(keys, *bands, count), rounds);
                        Box::new(EqualSplit::new(keys, q, count, groups))
                    }
                }
            }
            Scheme::BallsInBins { batches_per_epoch, .. } => {
                Box::new(Window::new(Uniform::new(keys, *batches_per_epoch, count), rounds))
            }
            Scheme::BMinSep { min_sep, sampling_probability, warm_start, .. } => {
                Box::new(MinSep::new(keys, *min_sep, *sampling_probability, *warm_start, count))
            }
            Scheme::RandomAllocation { batches_per_epoch, participations, .. } => {
                let slots = Allocation::new(keys, *batches_per_epoch, *participations, count);
                Box::new(Window::new(slots, rounds))
            }
            Scheme::FixedOrder { min_sep } => {
                Box::new(Window::new(WithoutReplacement::new(keys, *min_sep, count), rounds))
            }
            Scheme::Uls { users, .. } => self.source(users, rounds)?,
            Scheme::ContributionBound { batch_size, min_sep, max_participations, records_per_batch } => {
                let rule = OwnerRule {
                    batch_size: *batch_size,
                    min_sep: *min_sep,
                    max_participations: *max_participations,
                    records_per_batch: *records_per_batch,
                };
                // `new` refuses this scheme without owners.
                Box::new(ContributionBound::new(keys, rule, self.owners.clone().unwrap_or_default()))
            }
            Scheme::Els { group_size, sampling_probability } => {
                if let Some(owners) = &self.owners {
                    return Ok(Box::new(BoundedPoisson::new(
                        keys,
                        *sampling_probability,
                        *group_size,
                        owners,
                    )));
                }
                // `new` refuses this scheme without users or owners.
                let users = self.users.clone().unwrap_or_default();
                Box::new(ExampleLevel::new(keys, *sampling_probability, *group_size, users))
            }
        })
    }
}

/// An iterator over the batches of consecutive rounds.
pub struct Rounds {
    source: Box<dyn Source + Send>,
    cap: Option<(u64, Key)>,
    user_records: Option<UserRecords>,
    users: Option<Arc<Users>>,
    rounds: Range<u64>,
}

impl Rounds {
    fn make(&mut self, round: u64) -> Batch {
        let mut ids = self.source.batch(round);
        let padding = self.cap.as_ref().map(|(cap, key)| {
            if ids.len() as u64 > *cap {
                key.draws(round).cut(&mut ids, *cap);
            }
            *cap - ids.len() as u64
        });
        if let Some(user_records) = &self.user_records {
            ids = user_records.records(round, &ids);
        }
        let users = self.users.as_ref().map(|users| ids.iter().map(|&id| users.owner(id)).collect());
        Batch { round, ids, users, padding }
    }
}

impl Iterator for Rounds {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        let round = self.rounds.next()?;
        Some(self.make(round))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.rounds.size_hint()
    }
}
