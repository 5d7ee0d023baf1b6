//! Errors that stay typed across gRPC, and say whether the same request may be sent again.

use prost::Message;
use serde::{Deserialize, Serialize};
use tonic::{Code, Status, metadata::MetadataValue};

use crate::{CoordinateRange, pb};

pub type Result<T, E = ServiceError> = std::result::Result<T, E>;

const TRAILER: &str = "rustle-error-bin";
/// Of a long list, in an error.
const NAMED_RANGES: usize = 32;

/// Everything a service refuses or fails with. `retry_safe` is a promise about privacy, not about success: the same
/// request again releases nothing that the first did not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ServiceError {
    #[error("{field} is {value}; allowed: {allowed}")]
    InvalidArgument { field: String, value: String, allowed: String },
    #[error("no {what} named {name}")]
    NotFound { what: String, name: String },
    #[error("{what} {name} exists already with another definition: {difference}")]
    AlreadyExists { what: String, name: String, difference: String },
    #[error("plan digest is {actual}, expected {expected}")]
    PlanDigestMismatch { expected: String, actual: String },
    #[error(
        "noise stream version is {actual}; this cluster runs version {expected}: jobs under way finish on the release \
         that they began with"
    )]
    StreamVersionMismatch { expected: u32, actual: u32 },
    #[error(
        "protocol version is {actual}; this cluster speaks version {expected}: run one release of Rustle on all sides \
         (docs/operations.md, Upgrade)"
    )]
    ProtocolVersionMismatch { expected: u32, actual: u32 },
    #[error("the key held for job {job} has commitment {actual}, the job's is {expected}")]
    KeyMismatch { job: String, expected: String, actual: String },
    #[error("row {row} is beyond the plan's {iterations} iterations; rows 0..{iterations} exist")]
    RowBeyondIterations { row: u64, iterations: u64 },
    #[error("range {start}..{end} is beyond the dimension {dimension}")]
    RangeBeyondDimension { start: u64, end: u64, dimension: u64 },
    #[error(
        "row {row} of job {job}, branch {branch}, is bound to another commitment and can't be released under a second one: \
         send the first one again, or go back to that row on a new branch (job rewind, job resume)"
    )]
    AlreadyBound { job: String, branch: u64, row: u64 },
    #[error(
        "branch {branch} of job {job} is not the current one, {current}, which was opened at row {from_row}: nothing \
         is bound or served on another; go on with branch {current}"
    )]
    BranchSuperseded { job: String, branch: u64, current: u64, from_row: u64 },
    #[error(
        "the ledger is behind what was released: of job {job} it knows {known}, but {witness} has seen {seen}. It may be \
         an old copy. Nothing is bound for the job: stop the coordinator and restore the newest ledger, or destroy the \
         job and start another under a new name"
    )]
    LedgerBehind { job: String, known: String, witness: String, seen: String },
    #[error(
        "the cursor is of another {what}: {actual}; this is {expected}: resume with the cursor that was stored beside this \
         job's training checkpoint"
    )]
    CursorMismatch { what: String, expected: String, actual: String },
    #[error(
        "the release token of row {row} of job {job} has expired; bind the row again to the same commitment for a new one"
    )]
    TokenExpired { job: String, row: u64 },
    #[error(
        "coordinator epoch {presented} is not the newest seen, {current}; ask the coordinator that runs now"
    )]
    StaleEpoch { presented: u64, current: u64 },
    #[error("row {row} of job {job}, branch {branch}: no valid release token; bind it first")]
    NotBound { job: String, branch: u64, row: u64 },
    #[error(
        "lease epoch {presented} of shard {shard} of job {job} is not the current one, {current}; ask for the routing again"
    )]
    Fenced { job: String, shard: u32, presented: u64, current: u64 },
    #[error("shard {shard} of job {job} is not held here; ask for the routing again")]
    NotOwner { job: String, shard: u32 },
    #[error("shard {shard} of job {job} is being restored; ask again")]
    Restoring { job: String, shard: u32 },
    /// `more`: ranges beside those that are named.
    #[error("no worker serves {}{} of job {job} after {waited_ms} ms; a retry is safe", show(missing), match more {
        0 => String::new(),
        more => format!(" and {more} ranges more"),
    })]
    RangeUnavailable {
        job: String,
        missing: Vec<CoordinateRange>,
        #[serde(default)]
        more: usize,
        waited_ms: u64,
    },
    #[error("job {job} is {state}; allowed: {allowed}")]
    JobState { job: String, state: String, allowed: String },
    #[error("checkpoint {object}: {reason}")]
    Checkpoint { object: String, reason: String },
    #[error("this worker is draining; ask for the routing again")]
    Draining,
    /// Nothing was done. `leader`: its URL; empty where none is known yet.
    #[error("this coordinator stands by; {}", match leader.as_str() {
        "" => "no leader is known yet, ask again".to_owned(),
        leader => format!("ask the leader, {leader}"),
    })]
    NotLeader { leader: String },
    /// Whoever asks shows nothing that counts. Says no more: the reason is in the server's log.
    #[error("the caller is not authenticated")]
    Unauthenticated,
    /// Known, and not entitled to this.
    #[error("the caller may not do this")]
    PermissionDenied,
    #[error("coordinates {asked} are more than the caller may fetch; allowed: {}", show(allowed))]
    RangeNotAllowed { asked: CoordinateRange, allowed: Vec<CoordinateRange> },
    #[error("{what} is used up: limit {limit}")]
    ResourceExhausted { what: String, limit: String },
    #[error("worker {worker} must register again: {reason}")]
    MustRegister { worker: String, reason: String },
    #[error("{what} is not available now")]
    Unavailable { what: String },
    /// Nothing is known of the outcome: do not go on without looking.
    #[error("store: {reason}")]
    Store { reason: String },
    #[error("internal error: {reason}")]
    Internal { reason: String },
}

fn show(ranges: &[CoordinateRange]) -> String {
    let ranges: Vec<_> = ranges.iter().map(|range| range.to_string()).collect();
    format!("coordinates {}", ranges.join(", "))
}

impl ServiceError {
    pub fn invalid(field: impl Into<String>, value: impl ToString, allowed: impl Into<String>) -> Self {
        Self::InvalidArgument { field: field.into(), value: value.to_string(), allowed: allowed.into() }
    }

    /// Names so many ranges as a trailer has room for, which HTTP/2's clients limit to some 16 KiB.
    pub fn range_unavailable(job: impl ToString, missing: Vec<CoordinateRange>, waited_ms: u64) -> Self {
        let mut missing = CoordinateRange::joined(missing);
        let more = missing.len().saturating_sub(NAMED_RANGES);
        missing.truncate(NAMED_RANGES);
        Self::RangeUnavailable { job: job.to_string(), missing, more, waited_ms }
    }

    pub fn missing(field: &str) -> Self {
        Self::invalid(field, "missing", "must be given")
    }

    pub fn internal(reason: impl ToString) -> Self {
        Self::Internal { reason: reason.to_string() }
    }

    pub fn code(&self) -> Code {
        use ServiceError::*;
        match self {
            InvalidArgument { .. } | RangeBeyondDimension { .. } => Code::InvalidArgument,
            RowBeyondIterations { .. } => Code::OutOfRange,
            NotFound { .. } => Code::NotFound,
            AlreadyExists { .. } | AlreadyBound { .. } => Code::AlreadyExists,
            NotBound { .. } | TokenExpired { .. } | PermissionDenied | RangeNotAllowed { .. } => {
                Code::PermissionDenied
            }
            Unauthenticated => Code::Unauthenticated,
            PlanDigestMismatch { .. }
            | StreamVersionMismatch { .. }
            | ProtocolVersionMismatch { .. }
            | KeyMismatch { .. }
            | Fenced { .. }
            | BranchSuperseded { .. }
            | CursorMismatch { .. }
            | StaleEpoch { .. }
            | MustRegister { .. }
            | JobState { .. } => Code::FailedPrecondition,
            NotOwner { .. }
            | Restoring { .. }
            | RangeUnavailable { .. }
            | Draining
            | NotLeader { .. }
            | Unavailable { .. } => Code::Unavailable,
            ResourceExhausted { .. } => Code::ResourceExhausted,
            Checkpoint { .. } | LedgerBehind { .. } => Code::DataLoss,
            Store { .. } | Internal { .. } => Code::Internal,
        }
    }

    /// Whether the same request may be sent again: nothing was released by this one that the next would not release
    /// in the same bytes.
    pub fn retry_safe(&self) -> bool {
        use ServiceError::*;
        match self {
            Fenced { .. }
            | TokenExpired { .. }
            | StaleEpoch { .. }
            | NotOwner { .. }
            | Restoring { .. }
            | RangeUnavailable { .. }
            | Draining
            | NotLeader { .. }
            | ResourceExhausted { .. }
            | MustRegister { .. }
            | Unavailable { .. } => true,
            InvalidArgument { .. }
            | NotFound { .. }
            | AlreadyExists { .. }
            | PlanDigestMismatch { .. }
            | StreamVersionMismatch { .. }
            | ProtocolVersionMismatch { .. }
            | KeyMismatch { .. }
            | RowBeyondIterations { .. }
            | RangeBeyondDimension { .. }
            | AlreadyBound { .. }
            | BranchSuperseded { .. }
            | LedgerBehind { .. }
            | CursorMismatch { .. }
            | NotBound { .. }
            | JobState { .. }
            | Checkpoint { .. }
            | Unauthenticated
            | PermissionDenied
            | RangeNotAllowed { .. }
            | Store { .. }
            | Internal { .. } => false,
        }
    }

    /// Whether a process's log should name it: something was asked for that must not be, or went wrong. Not what passes
    /// by itself, nor callers who may not, of whom `node::auth` tells.
    pub fn is_notable(&self) -> bool {
        use ServiceError::*;
        match self {
            Fenced { .. } | TokenExpired { .. } | StaleEpoch { .. } => true,
            Unauthenticated | PermissionDenied | RangeNotAllowed { .. } => false,
            // Slips, whose words are the caller's own.
            InvalidArgument { .. } | NotFound { .. } => false,
            other => !other.retry_safe(),
        }
    }

    /// The kind of a notable error, where `status` carries one of ours.
    pub fn notable_kind(status: &Status) -> Option<String> {
        status.metadata().get_bin(TRAILER)?;
        let error = Self::from(status.clone());
        error.is_notable().then(|| error.kind().to_owned())
    }

    /// Returns the error's name in metrics and on the wire, which is the tag of its JSON: bounded, stable.
    pub fn kind(&self) -> &'static str {
        use ServiceError::*;
        match self {
            InvalidArgument { .. } => "invalid_argument",
            NotFound { .. } => "not_found",
            AlreadyExists { .. } => "already_exists",
            PlanDigestMismatch { .. } => "plan_digest_mismatch",
            StreamVersionMismatch { .. } => "stream_version_mismatch",
            ProtocolVersionMismatch { .. } => "protocol_version_mismatch",
            KeyMismatch { .. } => "key_mismatch",
            RowBeyondIterations { .. } => "row_beyond_iterations",
            RangeBeyondDimension { .. } => "range_beyond_dimension",
            AlreadyBound { .. } => "already_bound",
            BranchSuperseded { .. } => "branch_superseded",
            LedgerBehind { .. } => "ledger_behind",
            CursorMismatch { .. } => "cursor_mismatch",
            TokenExpired { .. } => "token_expired",
            StaleEpoch { .. } => "stale_epoch",
            NotBound { .. } => "not_bound",
            Fenced { .. } => "fenced",
            NotOwner { .. } => "not_owner",
            Restoring { .. } => "restoring",
            RangeUnavailable { .. } => "range_unavailable",
            JobState { .. } => "job_state",
            Checkpoint { .. } => "checkpoint",
            Draining => "draining",
            NotLeader { .. } => "not_leader",
            Unauthenticated => "unauthenticated",
            PermissionDenied => "permission_denied",
            RangeNotAllowed { .. } => "range_not_allowed",
            ResourceExhausted { .. } => "resource_exhausted",
            MustRegister { .. } => "must_register",
            Unavailable { .. } => "unavailable",
            Store { .. } => "store",
            Internal { .. } => "internal",
        }
    }
}

impl From<ServiceError> for Status {
    fn from(error: ServiceError) -> Self {
        let detail = pb::ErrorDetail {
            kind: error.kind().to_owned(),
            retry_safe: error.retry_safe(),
            fields_json: serde_json::to_string(&error).unwrap_or_default(),
        };
        let mut status = Status::new(error.code(), error.to_string());
        status.metadata_mut().insert_bin(TRAILER, MetadataValue::from_bytes(&detail.encode_to_vec()));
        status
    }
}

impl From<Status> for ServiceError {
    /// Restores the error that a Rustle service sent; anything else is the transport's, and safe to retry only where
    /// the request can't have been answered.
    fn from(status: Status) -> Self {
        let carried = status.metadata().get_bin(TRAILER).and_then(|value| value.to_bytes().ok());
        if let Some(detail) = carried.and_then(|bytes| pb::ErrorDetail::decode(bytes).ok()) {
            return serde_json::from_str(&detail.fields_json).unwrap_or_else(|_| {
                // Of another release, which knows errors that this one does not: its promise is good all the same.
                let what = format!("{}: {}", detail.kind, status.message());
                if detail.retry_safe {
                    ServiceError::Unavailable { what }
                } else {
                    ServiceError::internal(what)
                }
            });
        }
        match status.code() {
            Code::Unavailable | Code::Cancelled | Code::DeadlineExceeded | Code::Unknown => {
                ServiceError::Unavailable { what: format!("{}: {}", status.code(), status.message()) }
            }
            code => ServiceError::internal(format!("{code}: {}", status.message())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_survive_the_wire() {
        let errors = [
            ServiceError::invalid("theta[0]", 1.5, "0 < theta ≤ 1"),
            ServiceError::AlreadyBound { job: "j".into(), branch: 0, row: 7 },
            ServiceError::range_unavailable("j", vec![CoordinateRange { start: 512, end: 1024 }], 250),
            ServiceError::Draining,
            ServiceError::NotLeader { leader: "http://127.0.0.1:7300".into() },
            ServiceError::Unauthenticated,
            ServiceError::PermissionDenied,
            ServiceError::RangeNotAllowed {
                asked: CoordinateRange { start: 0, end: 9 },
                allowed: vec![CoordinateRange { start: 0, end: 8 }],
            },
            ServiceError::Fenced { job: "j".into(), shard: 3, presented: 1, current: 2 },
        ];
        for error in errors {
            let status = Status::from(error.clone());
            assert_eq!(status.message(), error.to_string());
            assert_eq!(ServiceError::from(status), error);
        }
    }

    #[test]
    fn a_transport_failure_is_safe_to_retry_and_an_unknown_one_is_not() {
        assert!(ServiceError::from(Status::unavailable("connection refused")).retry_safe());
        assert!(!ServiceError::from(Status::data_loss("?")).retry_safe());
    }

    #[test]
    fn an_error_of_a_newer_release_keeps_its_words_and_its_promise() {
        for retry_safe in [true, false] {
            let detail = pb::ErrorDetail {
                kind: "moon_is_full".into(),
                retry_safe,
                fields_json: r#"{"kind":"moon_is_full","phase":4}"#.into(),
            };
            let mut status = Status::failed_precondition("wait for a new moon");
            status.metadata_mut().insert_bin(TRAILER, MetadataValue::from_bytes(&detail.encode_to_vec()));
            let error = ServiceError::from(status);
            assert_eq!(error.retry_safe(), retry_safe);
            let text = error.to_string();
            assert!(text.contains("moon_is_full") && text.contains("wait for a new moon"), "{text}");
        }
    }

    #[test]
    fn the_missing_range_is_named() {
        let missing = vec![CoordinateRange { start: 512, end: 1024 }];
        let error = ServiceError::range_unavailable("j", missing, 9);
        assert!(error.to_string().contains("512..1024"), "{error}");
        assert_eq!(error.kind(), "range_unavailable");
    }

    /// Else a client would take the answer for the transport's failure, and never see its words.
    #[test]
    fn long_lists_fit_in_the_headers_of_an_answer() {
        let range =
            |at: u64| CoordinateRange { start: u64::MAX / 2 + 3 * at, end: u64::MAX / 2 + 3 * at + 2 };
        let error = ServiceError::range_unavailable("j".repeat(128), (0..4096).rev().map(range).collect(), 9);
        assert!(error.to_string().contains("and 4064 ranges more"), "{error}");
        let headers = Status::from(error.clone()).into_http::<()>();
        let bytes: usize =
            headers.headers().iter().map(|(name, value)| name.as_str().len() + value.len() + 32).sum();
        assert!(bytes < 12 << 10, "{bytes} bytes");
        let restored = Status::from_header_map(headers.headers()).map(ServiceError::from);
        assert_eq!(restored, Some(error));

        let side_by_side = (0..4096).map(|at| CoordinateRange { start: 512 * at, end: 512 * at + 512 });
        let error = ServiceError::range_unavailable("j", side_by_side.collect(), 9);
        assert!(error.to_string().contains("coordinates 0..2097152 of"), "{error}");
    }
}
