//! Errors that stay typed across gRPC, and say whether the same request may be sent again.

mod classes;
mod shell;
mod shortfall;
mod wire;

pub use shortfall::BudgetShortfall;

use serde::{Deserialize, Serialize};

use crate::CoordinateRange;

/// The result of a call of a service.
pub type Result<T, E = ServiceError> = std::result::Result<T, E>;

/// The most ranges that an error names, of a long list.
const NAMED_RANGES: usize = 32;

/// Everything that a service refuses or fails with.
///
/// [`retry_safe`](Self::retry_safe) is a promise about privacy, not about success: the same request again releases
/// nothing that the first did not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[allow(missing_docs)] // every variant has a doc; its fields are explained by its message
pub enum ServiceError {
    /// A field of the request has a value that is not allowed.
    #[error("{field} is {value}; allowed: {allowed}")]
    InvalidArgument { field: String, value: String, allowed: String },
    /// The job's rows are integers on a grid, and were requested as floats. A row of integers that becomes a float, or is
    /// added to a sum that is not on the grid, loses what the plan's account says.
    #[error(
        "grid_rows_are_integers: the plan of job {job} has [grid], so its rows are integers of 32 bits, and {requested} \
         was requested; allowed: i32 (`rustle fetch` asks for it by itself), or a job whose plan has no [grid]"
    )]
    GridRowsAreIntegers { job: String, requested: String },
    /// No job, worker, shard or checkpoint has this name.
    #[error("no {what} named {name}")]
    NotFound { what: String, name: String },
    /// The name is in use with another definition.
    #[error("{what} {name} exists already with another definition: {difference}")]
    AlreadyExists { what: String, name: String, difference: String },
    /// The plan is not the one that the caller expects.
    #[error("plan digest is {actual}, expected {expected}")]
    PlanDigestMismatch { expected: String, actual: String },
    /// A worker computes another version of the noise stream.
    #[error(
        "noise stream version is {actual}; this cluster runs version {expected}: jobs under way finish on the release \
         that they began with"
    )]
    StreamVersionMismatch { expected: u32, actual: u32 },
    /// The caller speaks another version of the protocol.
    #[error(
        "protocol version is {actual}; this cluster speaks version {expected}: run one release of Rustle on all sides \
         (docs/operations.md, Upgrade)"
    )]
    ProtocolVersionMismatch { expected: u32, actual: u32 },
    /// A worker's key for the job is not the one that the job was created with.
    #[error("the key held for job {job} has commitment {actual}, the job's is {expected}")]
    KeyMismatch { job: String, expected: String, actual: String },
    /// The plan has fewer rows.
    #[error("row {row} is beyond the plan's {iterations} iterations; rows 0..{iterations} exist")]
    RowBeyondIterations { row: u64, iterations: u64 },
    /// The vector has fewer coordinates.
    #[error("range {start}..{end} is beyond the dimension {dimension}")]
    RangeBeyondDimension { start: u64, end: u64, dimension: u64 },
    /// The data set's budget does not hold the request beside all that is spent and reserved.
    #[error("{0}")]
    BudgetExceeded(Box<BudgetShortfall>),
    /// The data set's rule demands that another person approves the change first. Nothing was done.
    #[error(
        "{change} in data set {data_set} takes the consent of a second person, and {reason}. Nothing was done; {remedy}"
    )]
    ApprovalRequired { data_set: String, change: String, reason: String, remedy: String },
    /// The row is bound to another commitment, for ever.
    #[error(
        "row {row} of job {job}, branch {branch}, is bound to another commitment and can't be released under a second one: \
         send the first one again, or go back to that row on a new branch (job rewind, job resume)"
    )]
    AlreadyBound { job: String, branch: u64, row: u64 },
    /// The job was rewound: a later branch is the current one.
    #[error(
        "branch {branch} of job {job} is not the current one, {current}, which was opened at row {from_row}: nothing \
         is bound or served on another; continue with branch {current}"
    )]
    BranchSuperseded { job: String, branch: u64, current: u64, from_row: u64 },
    /// A worker or cursor has seen more than the ledger knows: nothing is bound until that is resolved.
    #[error(
        "the ledger is behind what was released: of job {job} it knows {known}, but {witness} has seen {seen}. It may be \
         an old copy. Nothing is bound for the job: stop the coordinator and restore the newest ledger, or begin a new \
         ledger and a new job and account for both"
    )]
    LedgerBehind { job: String, known: String, witness: String, seen: String },
    /// The ledger's file is a copy, or an older copy was put in its place: nothing is bound until it is adopted.
    #[error(
        "ledger {ledger} may be a copy, or an older copy in its place: {found} (says {witness}). It can be read, and binds \
         nothing. Continue with the original where there is one. {}. What the other one released since is in no account of this one",
        shell::instead_of_original(ledger)
    )]
    LedgerCopied { ledger: String, found: String, witness: String },
    /// The cursor belongs to another job, plan or layout.
    #[error(
        "the cursor is of another {what}: {actual}; this is {expected}: resume with the cursor that was stored beside this \
         job's training checkpoint"
    )]
    CursorMismatch { what: String, expected: String, actual: String },
    /// The token was valid, and is too old. Binding the row again returns a new one.
    #[error(
        "the release token of row {row} of job {job} has expired; bind the row again to the same commitment for a new one"
    )]
    TokenExpired { job: String, row: u64 },
    /// The request is from an earlier coordinator.
    #[error(
        "coordinator epoch {presented} is not the newest seen, {current}; ask the coordinator that runs now"
    )]
    StaleEpoch { presented: u64, current: u64 },
    /// The token is missing, forged, or belongs to another row.
    #[error("row {row} of job {job}, branch {branch}: no valid release token; bind it first")]
    NotBound { job: String, branch: u64, row: u64 },
    /// The shard is leased under another epoch.
    #[error(
        "lease epoch {presented} of shard {shard} of job {job} is not the current one, {current}; ask for the routing again"
    )]
    Fenced { job: String, shard: u32, presented: u64, current: u64 },
    /// This worker has no lease on the shard.
    #[error("shard {shard} of job {job} is not held here; ask for the routing again")]
    NotOwner { job: String, shard: u32 },
    /// The worker is bringing the shard to where the job stands.
    #[error("shard {shard} of job {job} is being restored; ask again")]
    Restoring { job: String, shard: u32 },
    /// No worker served some ranges in time. `more` counts the ranges beside those that are named.
    /// `reason` is the coordinator's, of the first of them that it has one for.
    #[error("no worker serves {}{} of job {job} after {waited_ms} ms{}; a retry is safe", show(missing), match more {
        0 => String::new(),
        more => format!(" and {more} ranges more"),
    }, match reason.as_str() {
        "" => String::new(),
        reason => format!(": {reason}"),
    })]
    RangeUnavailable {
        job: String,
        missing: Vec<CoordinateRange>,
        #[serde(default)]
        more: usize,
        waited_ms: u64,
        #[serde(default)]
        reason: String,
    },
    /// The job is finished, destroyed, or otherwise in a state that does not allow the call.
    #[error("job {job} is {state}; allowed: {allowed}")]
    JobState { job: String, state: String, allowed: String },
    /// A stored object is missing, damaged, or not the one that was requested.
    #[error("checkpoint {object}: {reason}")]
    Checkpoint { object: String, reason: String },
    /// Rows that the worker made again had other bits: its host computes wrongly.
    #[error(
        "row {row} from coordinate {coordinate} on, made by {made_by}, had other bits when {checked_by} made it again: this \
         host computes wrongly and releases nothing more; take it out of service, and another worker makes the rows from the key"
    )]
    WrongRows { row: u64, coordinate: u64, made_by: String, checked_by: String },
    /// The worker takes no new work.
    #[error("this worker is draining; ask for the routing again")]
    Draining,
    /// This coordinator does not lead, and nothing was done. `leader` is the leader's URL; empty where none is known.
    #[error("this coordinator stands by; {}", match leader.as_str() {
        "" => "no leader is known: try again; its /status says why, where that lasts".to_owned(),
        leader => format!("ask the leader, {leader}"),
    })]
    NotLeader { leader: String },
    /// The caller has no valid certificate or token. The text says no more: the reason is in the server's log.
    #[error("the caller is not authenticated")]
    Unauthenticated,
    /// The caller is known, and is not entitled to this call.
    #[error("the caller may not do this")]
    PermissionDenied,
    /// The request is beyond the coordinates of the caller's token.
    #[error("coordinates {asked} are more than the caller may fetch; allowed: {}", show(allowed))]
    RangeNotAllowed { asked: CoordinateRange, allowed: Vec<CoordinateRange> },
    /// A limit of the service is reached.
    #[error("{what} is used up: limit {limit}")]
    ResourceExhausted { what: String, limit: String },
    /// A quota of a job or a caller is used up. Nothing was written. `retry_after_ms` is where the same request is admitted
    /// later; without it, only what `remedy` says helps.
    #[error("the quota of {what} is used up: limit {limit}. Nothing was written; {}; {remedy}", match retry_after_ms {
        Some(ms) => format!("a retry is safe, and not admitted before {:.1} s from now", *ms as f64 / 1e3),
        None => "a retry is refused too".to_owned(),
    })]
    QuotaExceeded { what: String, limit: String, remedy: String, retry_after_ms: Option<u64> },
    /// The coordinator does not know the worker, or knows an earlier start of it.
    #[error("worker {worker} must register again: {reason}")]
    MustRegister { worker: String, reason: String },
    /// Something that the call needs is missing for now.
    #[error("{what} is not available now")]
    Unavailable { what: String },
    /// The ledger's store failed, and the outcome is unknown: read what is there before the next step.
    #[error("store: {reason}")]
    Store { reason: String },
    /// A bug, or a state that should not occur.
    #[error("internal error: {reason}")]
    Internal { reason: String },
}

fn show(ranges: &[CoordinateRange]) -> String {
    let ranges: Vec<_> = ranges.iter().map(|range| range.to_string()).collect();
    format!("coordinates {}", ranges.join(", "))
}

impl ServiceError {
    /// Returns the error for a field whose value is not allowed.
    pub fn invalid(field: impl Into<String>, value: impl ToString, allowed: impl Into<String>) -> Self {
        Self::InvalidArgument { field: field.into(), value: value.to_string(), allowed: allowed.into() }
    }

    /// Returns the error for ranges that no worker serves. It names as many as a trailer has room for, which HTTP/2's
    /// clients limit to some 16 KiB.
    pub fn range_unavailable(job: impl ToString, missing: Vec<CoordinateRange>, waited_ms: u64) -> Self {
        let mut missing = CoordinateRange::joined(missing);
        let more = missing.len().saturating_sub(NAMED_RANGES);
        missing.truncate(NAMED_RANGES);
        Self::RangeUnavailable { job: job.to_string(), missing, more, waited_ms, reason: String::new() }
    }

    /// Adds the reason to an error of ranges that no worker serves, and leaves every other error as it is.
    pub fn with_reason(mut self, why: impl Into<String>) -> Self {
        if let Self::RangeUnavailable { reason, .. } = &mut self {
            *reason = why.into();
        }
        self
    }

    /// Returns the error for a field that is missing.
    pub fn missing(field: &str) -> Self {
        Self::invalid(field, "missing", "must be given")
    }

    /// Returns the error for a state that should not occur.
    pub fn internal(reason: impl ToString) -> Self {
        Self::Internal { reason: reason.to_string() }
    }
}

#[cfg(test)]
mod tests;
