//! The records, or users, that batches are drawn from.

use crate::error::{MAX_RECORDS, Result, within};
use crate::owners::Owners;

/// The population that batches are drawn from: records 0, 1, …, or users who own them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Population {
    /// This many records.
    Records(u64),
    /// Users with their records.
    Users(Users),
    /// Records, each with its owners.
    Owners(Owners),
}

/// Users 0, 1, …, each owning consecutive records, those of user 0 first. It keeps one number for each user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Users {
    /// starts[u]..starts[u + 1] are the records of user u.
    starts: Vec<u64>,
}

impl Users {
    /// Builds users from the number of records that each owns, which may be 0.
    ///
    /// # Errors
    /// [`crate::BatchError::Invalid`] for more than 2⁵³ records.
    pub fn new(sizes: impl IntoIterator<Item = u64>) -> Result<Self> {
        let mut starts = vec![0];
        let mut total = 0_u64;
        for size in sizes {
            total = total.saturating_add(size);
            within("records of all users", total, (0, MAX_RECORDS), "at most 2^53")?;
            starts.push(total);
        }
        Ok(Self { starts })
    }

    /// Returns the number of users.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.starts.len() as u64 - 1
    }

    /// Returns the number of records of all users.
    #[must_use]
    pub fn records(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }

    /// Returns the first record and the number of records of a user below `count`.
    pub(crate) fn records_of(&self, user: u64) -> (u64, u64) {
        let user = user as usize;
        (self.starts[user], self.starts[user + 1] - self.starts[user])
    }

    /// Returns the owner of a record.
    pub(crate) fn owner(&self, record: u64) -> u64 {
        self.starts.partition_point(|&start| start <= record) as u64 - 1
    }

    /// Returns the first record of each user, and the number of all records last.
    pub(crate) fn starts(&self) -> &[u64] {
        &self.starts
    }
}

impl Default for Users {
    fn default() -> Self {
        Self { starts: vec![0] }
    }
}

impl Population {
    /// Returns the number of records, or of users, that are drawn from.
    #[must_use]
    pub fn count(&self) -> u64 {
        match self {
            Self::Records(records) => *records,
            Self::Users(users) => users.count(),
            Self::Owners(owners) => owners.records(),
        }
    }
}
