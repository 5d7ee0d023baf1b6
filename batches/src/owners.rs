//! Records that several owners share, and which of them are kept where each owner is in few.

use crate::error::{BatchError, MAX_RECORDS, Result, within};
use crate::seed::Key;

/// Most owners, 2³²: an owner takes four bytes wherever a record names one.
const MAX_OWNERS: u64 = 1 << 32;

/// Records and the owners of each: the graph that a contribution bound is drawn over.
///
/// The graph is public and the same in neighbouring data sets. What is hidden is what one owner's records say, in all of
/// them at once, also in those that others own too. It keeps 16 bytes for each record and 4 for each owner of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owners {
    /// The number of each record, by which batches name it.
    records: Vec<u64>,
    /// starts[i]..starts[i + 1] are the places of record i's owners.
    starts: Vec<usize>,
    owners: Vec<u32>,
    count: u64,
}

impl Default for Owners {
    fn default() -> Self {
        Self { records: Vec::new(), starts: vec![0], owners: Vec::new(), count: 0 }
    }
}

impl Owners {
    /// Builds the graph from the records, each with its number and its owners, which are numbered from 0. An owner named
    /// twice for one record counts once.
    ///
    /// # Errors
    /// [`BatchError::Record`] for a record without an owner, a record that is there twice, or a number out of range.
    pub fn new<R: AsRef<[u64]>>(records: impl IntoIterator<Item = (u64, R)>) -> Result<Self> {
        let mut graph = Self::default();
        records.into_iter().try_for_each(|(record, owners)| graph.add(record, owners.as_ref()))?;
        graph.checked()
    }

    /// Adds one record; [`Self::checked`] looks for records that are there twice.
    pub(crate) fn add(&mut self, record: u64, owners: &[u64]) -> Result<()> {
        let refused = |why| BatchError::Record { record, why };
        if record >= MAX_RECORDS {
            return Err(refused("its number is too large; allowed: below 2^53"));
        }
        if owners.is_empty() {
            return Err(refused("it has no owner; allowed: 1 or more, or leave the record out"));
        }
        let first = self.owners.len();
        for owner in owners {
            let Ok(small) = u32::try_from(*owner) else {
                return Err(refused("an owner's number is too large; allowed: below 2^32"));
            };
            if !self.owners[first..].contains(&small) {
                self.owners.push(small);
            }
            self.count = self.count.max(owner + 1);
        }
        self.records.push(record);
        self.starts.push(self.owners.len());
        Ok(())
    }

    /// Refuses records that are there twice, and more owners than there may be.
    pub(crate) fn checked(self) -> Result<Self> {
        within("owners", self.count, (0, MAX_OWNERS), "at most 2^32")?;
        let mut sorted = self.records.clone();
        sorted.sort_unstable();
        match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => {
                let why = "it is there twice; allowed: once, with all of its owners";
                Err(BatchError::Record { record: pair[0], why })
            }
            None => Ok(self),
        }
    }

    /// Returns the number of records.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.records.len() as u64
    }

    /// Returns one more than the largest number of an owner.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Iterates over the records, each with its number and its owners.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &[u32])> {
        self.records.iter().enumerate().map(|(place, record)| (*record, self.owners_at(place)))
    }

    /// Returns the number of the record at a place.
    pub(crate) fn record_at(&self, place: usize) -> u64 {
        self.records[place]
    }

    /// Returns the owners of the record at a place.
    pub(crate) fn owners_at(&self, place: usize) -> &[u32] {
        &self.owners[self.starts[place]..self.starts[place + 1]]
    }

    /// Returns the places of all records in an order drawn from a key, every one equally likely.
    pub(crate) fn shuffled(&self, key: &Key) -> Vec<usize> {
        let mut draws = key.draws(0);
        let mut order: Vec<usize> = (0..self.records.len()).collect();
        for last in (1..order.len()).rev() {
            let other = draws.below(last as u64 + 1) as usize;
            order.swap(last, other);
        }
        order
    }

    /// Chooses records one after the other in a drawn order, each where all of its owners have fewer than `most` chosen
    /// records so far. Returns their numbers, ascending.
    pub(crate) fn bounded(&self, most: u64, key: &Key) -> Vec<u64> {
        let mut taken = vec![0_u64; self.count as usize];
        let mut kept = Vec::new();
        for place in self.shuffled(key) {
            let owners = self.owners_at(place);
            if owners.iter().all(|owner| taken[*owner as usize] < most) {
                owners.iter().for_each(|owner| taken[*owner as usize] += 1);
                kept.push(self.record_at(place));
            }
        }
        kept.sort_unstable();
        kept
    }
}
