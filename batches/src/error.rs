//! The crate's error type.

use thiserror::Error;

/// The most records or users, 2⁵³: every id is exact even where numbers are f64, as in much JSON.
pub const MAX_RECORDS: u64 = 1 << 53;

/// The reason why batches could not be formed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BatchError {
    /// A number outside its range.
    #[error("{what} is {value}; allowed: {allowed}")]
    Invalid {
        /// The number's name.
        what: &'static str,
        /// The value given.
        value: String,
        /// The values that are allowed, in words.
        allowed: &'static str,
    },
    /// A scheme that does not fit the population or the scheme around it.
    #[error("{scheme}: {why}")]
    Mismatch {
        /// The name of the scheme.
        scheme: &'static str,
        /// The reason.
        why: &'static str,
    },
    /// A record of an owner graph that can't be.
    #[error("record {record}: {why}")]
    Record {
        /// The record's number.
        record: u64,
        /// The reason, and what is allowed.
        why: &'static str,
    },
    /// A line that doesn't say which owners a record has.
    #[error("line {line}: {why}")]
    Line {
        /// The line, from 1.
        line: u64,
        /// The reason.
        why: String,
    },
    /// Rounds that the run does not have.
    #[error("rounds are {start}..{end}; allowed: a..b with a ≤ b ≤ {iterations}, the iterations")]
    Rounds {
        /// The first round.
        start: u64,
        /// One more than the last round.
        end: u64,
        /// The rounds of the run.
        iterations: u64,
    },
    /// A seed of another length.
    #[error("the seed has {got} bytes; allowed: exactly 32")]
    SeedLength {
        /// The number of bytes given.
        got: usize,
    },
}

/// The crate's result type.
pub type Result<T> = std::result::Result<T, BatchError>;

pub(crate) fn invalid(what: &'static str, value: impl ToString, allowed: &'static str) -> BatchError {
    BatchError::Invalid { what, value: value.to_string(), allowed }
}

/// Accepts `least`..=`most`.
pub(crate) fn within(
    what: &'static str,
    value: u64,
    (least, most): (u64, u64),
    allowed: &'static str,
) -> Result<u64> {
    if (least..=most).contains(&value) { Ok(value) } else { Err(invalid(what, value, allowed)) }
}
