//! Who may take part.

use crate::error::{Result, within};

/// The most records or users, 2⁵³: every id is exact wherever numbers are f64, as in much JSON.
pub const MAX_RECORDS: u64 = 1 << 53;

/// Records 0, 1, …, or users who own them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Population {
    Records(u64),
    Users(Users),
}

/// Users 0, 1, …, each owning consecutive records: all of user 0's first. Memory: one number a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Users {
    /// starts[u]..starts[u + 1] are the records of user u.
    starts: Vec<u64>,
}

impl Users {
    /// `sizes`: how many records each user owns; none is allowed.
    /// Error: more than 2⁵³ records.
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

    #[must_use]
    pub fn count(&self) -> u64 {
        self.starts.len() as u64 - 1
    }

    #[must_use]
    pub fn records(&self) -> u64 {
        self.starts[self.starts.len() - 1]
    }

    /// First record and number of records of a user below `count`.
    pub(crate) fn of(&self, user: u64) -> (u64, u64) {
        let user = user as usize;
        (self.starts[user], self.starts[user + 1] - self.starts[user])
    }

    /// Whose record it is.
    pub(crate) fn owner(&self, record: u64) -> u64 {
        self.starts.partition_point(|&start| start <= record) as u64 - 1
    }

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
    /// How many are drawn from: records, or users.
    #[must_use]
    pub fn count(&self) -> u64 {
        match self {
            Self::Records(records) => *records,
            Self::Users(users) => users.count(),
        }
    }
}
