//! What the ledger and its stores refuse or fail with. Never holds noise, state or keys.

use std::path::PathBuf;

use proto::{InvalidValue, ServiceError};

#[derive(Clone, Debug, thiserror::Error)]
pub enum LedgerError {
    #[error("no {what} named {name}")]
    NotFound { what: &'static str, name: String },
    #[error("{what} {name} exists already with another definition: {difference}")]
    AlreadyExists { what: &'static str, name: String, difference: String },
    #[error(
        "row {row} of job {job}, branch {branch}, is bound to another commitment; it can't be released again"
    )]
    AlreadyBound { job: String, branch: u64, row: u64 },
    #[error(
        "branch {branch} of job {job} is not the current one, {current}, which was opened at row {from_row}"
    )]
    BranchSuperseded { job: String, branch: u64, current: u64, from_row: u64 },
    /// Someone else has seen more than this ledger has.
    #[error(
        "of job {job} the ledger knows {known}, but {witness} has seen {seen}: the ledger may be an old copy"
    )]
    Behind { job: String, known: String, witness: String, seen: String },
    #[error("the cursor is of another {what}: {actual}; this is {expected}")]
    CursorMismatch { what: &'static str, expected: String, actual: String },
    #[error("row {row} is beyond the plan's {iterations} iterations; rows 0..{iterations} exist")]
    RowBeyondIterations { row: u64, iterations: u64 },
    #[error("job {job} is {state}; allowed: {allowed}")]
    JobState { job: String, state: String, allowed: String },
    #[error("{field} is {value}; allowed: {allowed}")]
    Invalid { field: &'static str, value: String, allowed: String },

    #[error("ledger {} is held by another process; one coordinator at a time may open it", path.display())]
    Locked { path: PathBuf },
    #[error(
        "ledger {} is damaged: {reason}. It was left as it is; restore it from a copy that is not older than the last \
         released row, or destroy its jobs",
        path.display()
    )]
    Damaged { path: PathBuf, reason: String },
    #[error(
        "ledger {} has format {found}; this build reads formats 1 to {supported}: it is of a newer build, or none",
        path.display()
    )]
    Format { path: PathBuf, found: u64, supported: u64 },
    #[error("ledger {}: {reason}", path.display())]
    Io { path: PathBuf, reason: String },
    /// Whether the change is on disk is not known.
    #[error(
        "ledger {} stopped: {reason}. Whether the last change is on disk is not known; restart to read what is there",
        path.display()
    )]
    Stopped { path: PathBuf, reason: String },

    /// Nothing was done: another coordinator leads, or will.
    #[error("this coordinator does not lead the ledger {}", path.display())]
    NotLeader { path: PathBuf },
    /// Nothing was done, or it was and a call anew finds it so.
    #[error("ledger {} can't be reached: {reason}", path.display())]
    Unreachable { path: PathBuf, reason: String },
    #[error("{} is not this cluster's store: {reason}", path.display())]
    OtherStore { path: PathBuf, reason: String },
}

impl LedgerError {
    pub(crate) fn invalid(field: &'static str, value: impl ToString, allowed: impl Into<String>) -> Self {
        Self::Invalid { field, value: value.to_string(), allowed: allowed.into() }
    }
}

impl From<InvalidValue> for LedgerError {
    fn from(error: InvalidValue) -> Self {
        let InvalidValue { field, value, allowed } = error;
        Self::Invalid { field, value, allowed }
    }
}

impl From<LedgerError> for ServiceError {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::NotFound { what, name } => Self::NotFound { what: what.into(), name },
            LedgerError::AlreadyExists { what, name, difference } => {
                Self::AlreadyExists { what: what.into(), name, difference }
            }
            LedgerError::AlreadyBound { job, branch, row } => Self::AlreadyBound { job, branch, row },
            LedgerError::BranchSuperseded { job, branch, current, from_row } => {
                Self::BranchSuperseded { job, branch, current, from_row }
            }
            LedgerError::Behind { job, known, witness, seen } => {
                Self::LedgerBehind { job, known, witness, seen }
            }
            LedgerError::CursorMismatch { what, expected, actual } => {
                Self::CursorMismatch { what: what.into(), expected, actual }
            }
            LedgerError::RowBeyondIterations { row, iterations } => {
                Self::RowBeyondIterations { row, iterations }
            }
            LedgerError::JobState { job, state, allowed } => Self::JobState { job, state, allowed },
            LedgerError::Invalid { field, value, allowed } => Self::invalid(field, value, allowed),
            // Who leads is not the ledger's to say.
            LedgerError::NotLeader { .. } => Self::NotLeader { leader: String::new() },
            error @ LedgerError::Unreachable { .. } => Self::Unavailable { what: error.to_string() },
            error @ (LedgerError::Locked { .. }
            | LedgerError::Damaged { .. }
            | LedgerError::Format { .. }
            | LedgerError::OtherStore { .. }
            | LedgerError::Io { .. }
            | LedgerError::Stopped { .. }) => Self::Store { reason: error.to_string() },
        }
    }
}

/// Why a transaction's body ended early.
#[derive(Debug)]
pub enum Fail {
    /// Our own decision; the store is well.
    Refused(LedgerError),
    Store(redb::Error),
    /// A record that can't be read, though the store's checksums hold.
    Record(String),
}

impl From<LedgerError> for Fail {
    fn from(error: LedgerError) -> Self {
        Fail::Refused(error)
    }
}

impl From<redb::StorageError> for Fail {
    fn from(error: redb::StorageError) -> Self {
        Fail::Store(error.into())
    }
}

impl From<redb::TableError> for Fail {
    fn from(error: redb::TableError) -> Self {
        Fail::Store(error.into())
    }
}

impl From<InvalidValue> for Fail {
    fn from(error: InvalidValue) -> Self {
        Fail::Refused(error.into())
    }
}
