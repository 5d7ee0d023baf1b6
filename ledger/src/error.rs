//! The errors of the ledger. They never hold noise, state or keys.

use std::path::{Path, PathBuf};

use proto::{BudgetShortfall, InvalidValue, Lineage, ServiceError, shell_word};

/// Everything that the ledger refuses or fails with.
#[derive(Clone, Debug, thiserror::Error)]
#[allow(missing_docs)] // every variant has a doc; its fields are explained by its message
pub enum LedgerError {
    /// No job, shard or checkpoint has this name.
    #[error("no {what} named {name}")]
    NotFound { what: &'static str, name: String },
    /// The name is in use with another definition.
    #[error("{what} {name} exists already with another definition: {difference}")]
    AlreadyExists { what: &'static str, name: String, difference: String },
    /// The row is bound to another commitment, for ever.
    #[error(
        "row {row} of job {job}, branch {branch}, is bound to another commitment; it can't be released again"
    )]
    AlreadyBound { job: String, branch: u64, row: u64 },
    /// The job was rewound: a later branch is the current one.
    #[error(
        "branch {branch} of job {job} is not the current one, {current}, which was opened at row {from_row}"
    )]
    BranchSuperseded { job: String, branch: u64, current: u64, from_row: u64 },
    /// A worker or cursor has seen more than this ledger has.
    #[error(
        "of job {job} the ledger knows {known}, but {witness} has seen {seen}: the ledger may be an old copy"
    )]
    Behind { job: String, known: String, witness: String, seen: String },
    /// The cursor belongs to another job, plan or layout, or to a job of the same name in another ledger, whose nonce is
    /// another.
    #[error("the cursor is of another {what}: {actual}; this is {expected}")]
    CursorMismatch { what: &'static str, expected: String, actual: String },
    /// The plan has fewer rows.
    #[error("row {row} is beyond the plan's {iterations} iterations; rows 0..{iterations} exist")]
    RowBeyondIterations { row: u64, iterations: u64 },
    /// The job's state does not allow the call.
    #[error("job {job} is {state}; allowed: {allowed}")]
    JobState { job: String, state: String, allowed: String },
    /// The job's rewinds have cut its rows into as many segments as a lineage may have. One to an earlier row adds none.
    #[error(
        "the lineage of job {job} has {} segments, and may have no more: rewind to row {from_row} or an earlier one",
        Lineage::MAX_SEGMENTS
    )]
    LineageFull { job: String, from_row: u64 },
    /// The data set's budget does not hold the request, as those found who compose the charges.
    #[error("{0}")]
    BudgetExceeded(Box<BudgetShortfall>),
    /// The data set's rule demands that another person approves the change first. Nothing was done.
    #[error(
        "{change} in data set {data_set} takes the consent of a second person, and {reason}. Nothing was done; {remedy}"
    )]
    ApprovalRequired { data_set: String, change: String, reason: String, remedy: String },
    /// Another call has changed the data set since the decision was made. Nothing was done.
    #[error("data set {data_set} has changed since the decision was made: decide again")]
    DataSetChanged { data_set: String },
    /// An argument has a value that is not allowed.
    #[error("{field} is {value}; allowed: {allowed}")]
    Invalid { field: &'static str, value: String, allowed: String },

    /// There is no file. Nothing was begun: an empty ledger would know nothing of what an earlier one released.
    #[error(
        "there is no ledger at {}. Begin a new one with `{}`; or, if there was one, restore it from a copy \
         that is not older than the last released row",
        path.display(),
        init_command(path)
    )]
    Missing { path: PathBuf },
    /// A new ledger was to be begun where one exists.
    #[error("{} exists already: a ledger is begun once. Start on it as it is, or name another place", path.display())]
    Begun { path: PathBuf },
    /// A new ledger was to be begun where an earlier one is gone. Nothing was begun.
    #[error(
        "{} is missing, and {} is of an earlier ledger, which knew what was released: restore the ledger from a copy that is not \
         older than the last released row, or take an empty folder. Only where no row of that ledger was ever used, move {} \
         away, and begin a new one with `{}`",
        path.display(),
        trace.display(),
        trace.display(),
        init_command(path)
    )]
    Lost { path: PathBuf, trace: PathBuf },
    /// The file is a copy, or an older copy was put in its place. Nothing was changed.
    #[error("{}", copied(path, found, witness))]
    Copied { path: PathBuf, found: String, witness: String },
    /// The ledger's anchor in the checkpoint store was not renewed in time: another process may have taken a copy up. Nothing
    /// was done; the same call succeeds once the store answers.
    #[error(
        "nothing is bound until the ledger's anchor in the checkpoint store {store} is renewed, since a copy of the ledger may \
         be in use meanwhile: {reason}"
    )]
    Unanchored { store: String, reason: String },
    /// Another process has the file open.
    #[error("ledger {} is held by another process; one coordinator at a time may open it", path.display())]
    Locked { path: PathBuf },
    /// The file, or the log in etcd, is not what a ledger wrote. It was left as it is.
    #[error(
        "ledger {} is damaged: {reason}. It was left as it is; restore it from a copy that is not older than the last \
         released row, or destroy its jobs",
        path.display()
    )]
    Damaged { path: PathBuf, reason: String },
    /// The file has a format that this build can't read.
    #[error(
        "ledger {} has format {found}; this build reads format {supported}: it is of an older or a newer build, or none. Finish \
         its jobs with the build that wrote it, or begin a new ledger elsewhere with `rustle ledger init --data-dir NEW_FOLDER`",
        path.display()
    )]
    Format { path: PathBuf, found: u64, supported: u64 },
    /// The store failed, and nothing was changed.
    #[error("ledger {}: {reason}", path.display())]
    Io { path: PathBuf, reason: String },
    /// Jobs were archived, for good, and what was to follow failed.
    #[error(
        "of ledger {} these jobs are archived, and their entries and bindings are gone for good: {jobs}. What was to follow \
         failed: {error}. `{}` continues from there",
        path.display(),
        compact_command(path)
    )]
    ArchivedInPart { path: PathBuf, jobs: String, error: Box<LedgerError> },
    /// The store failed, and it is not known whether the last change is on disk.
    #[error(
        "ledger {} stopped: {reason}. Whether the last change is on disk is not known; restart to read what is there",
        path.display()
    )]
    Stopped { path: PathBuf, reason: String },

    /// Another coordinator leads, or will. Nothing was done.
    #[error("this coordinator does not lead the ledger {}", path.display())]
    NotLeader { path: PathBuf },
    /// etcd did not answer. The same call, made again, finds out whether the change was made.
    #[error("ledger {} can't be reached: {reason}", path.display())]
    Unreachable { path: PathBuf, reason: String },
    /// The store belongs to another ledger or cluster.
    #[error("{} is not this cluster's store: {reason}", path.display())]
    OtherStore { path: PathBuf, reason: String },
}

impl LedgerError {
    pub(crate) fn invalid(field: &'static str, value: impl ToString, allowed: impl Into<String>) -> Self {
        Self::Invalid { field, value: value.to_string(), allowed: allowed.into() }
    }
}

/// Returns the place of a ledger as a command finds it from any folder; of one in etcd the URL.
fn place(path: &Path) -> String {
    let is_url = path.to_string_lossy().starts_with("etcd://");
    let absolute = if is_url { None } else { std::path::absolute(path).ok() };
    absolute.as_deref().unwrap_or(path).display().to_string()
}

/// Returns the command that begins a ledger at this path. In a coordinator's data folder it looks for earlier checkpoints too.
fn init_command(path: &Path) -> String {
    let path = PathBuf::from(place(path));
    match path.parent().filter(|_| path.ends_with("ledger.redb")) {
        Some(folder) => {
            format!("rustle ledger init --data-dir {}", shell_word(&folder.display().to_string()))
        }
        None => format!("rustle ledger init --file {}", shell_word(&path.display().to_string())),
    }
}

fn compact_command(path: &Path) -> String {
    let place = place(path);
    let flag = if place.starts_with("etcd://") { "--store" } else { "--file" };
    format!("rustle ledger compact {flag} {}", shell_word(&place))
}

fn copied(path: &Path, found: &str, witness: &str) -> String {
    let [found, witness] = [found, witness].map(str::to_owned);
    ServiceError::LedgerCopied { ledger: place(path), found, witness }.to_string()
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
            LedgerError::Copied { path, found, witness } => {
                Self::LedgerCopied { ledger: place(&path), found, witness }
            }
            LedgerError::CursorMismatch { what, expected, actual } => {
                Self::CursorMismatch { what: what.into(), expected, actual }
            }
            LedgerError::RowBeyondIterations { row, iterations } => {
                Self::RowBeyondIterations { row, iterations }
            }
            LedgerError::LineageFull { job, from_row } => Self::QuotaExceeded {
                what: format!("segments in the lineage of job {job}"),
                limit: Lineage::MAX_SEGMENTS.to_string(),
                remedy: format!(
                    "rewind to row {from_row} or an earlier one, which adds no segment, and costs privacy as every rewind does"
                ),
                retry_after_ms: None,
            },
            LedgerError::JobState { job, state, allowed } => Self::JobState { job, state, allowed },
            LedgerError::BudgetExceeded(shortfall) => Self::BudgetExceeded(shortfall),
            LedgerError::ApprovalRequired { data_set, change, reason, remedy } => {
                Self::ApprovalRequired { data_set, change, reason, remedy }
            }
            LedgerError::DataSetChanged { data_set } => {
                Self::Unavailable { what: format!("data set {data_set}, which other jobs change") }
            }
            LedgerError::Invalid { field, value, allowed } => Self::invalid(field, value, allowed),
            // The ledger does not know who leads.
            LedgerError::NotLeader { .. } => Self::NotLeader { leader: String::new() },
            error @ LedgerError::Unreachable { .. } => Self::Unavailable { what: error.to_string() },
            LedgerError::Unanchored { store, reason } => Self::Unavailable {
                what: format!("the ledger's anchor in the checkpoint store {store} ({reason})"),
            },
            error @ (LedgerError::Missing { .. }
            | LedgerError::Begun { .. }
            | LedgerError::Lost { .. }
            | LedgerError::Locked { .. }
            | LedgerError::Damaged { .. }
            | LedgerError::Format { .. }
            | LedgerError::OtherStore { .. }
            | LedgerError::Io { .. }
            | LedgerError::ArchivedInPart { .. }
            | LedgerError::Stopped { .. }) => Self::Store { reason: error.to_string() },
        }
    }
}

/// The reason why the body of a transaction ended early.
#[derive(Debug)]
pub enum Fail {
    /// A rule refused the change; the store works.
    Refused(LedgerError),
    /// The store failed.
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
