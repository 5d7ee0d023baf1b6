//! Errors that stay typed across gRPC, and say whether the same request may be sent again.

use prost::Message;
use serde::{Deserialize, Serialize};
use tonic::{Code, Status, metadata::MetadataValue};

use crate::{CoordinateRange, pb};

/// The result of a call of a service.
pub type Result<T, E = ServiceError> = std::result::Result<T, E>;

const TRAILER: &str = "rustle-error-bin";
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
         an old copy. Nothing is bound for the job: stop the coordinator and restore the newest ledger, or destroy the \
         job and start another under a new name"
    )]
    LedgerBehind { job: String, known: String, witness: String, seen: String },
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
    /// The job is finished, destroyed, or otherwise in a state that does not allow the call.
    #[error("job {job} is {state}; allowed: {allowed}")]
    JobState { job: String, state: String, allowed: String },
    /// A stored object is missing, damaged, or not the one that was requested.
    #[error("checkpoint {object}: {reason}")]
    Checkpoint { object: String, reason: String },
    /// The worker takes no new work.
    #[error("this worker is draining; ask for the routing again")]
    Draining,
    /// This coordinator does not lead, and nothing was done. `leader` is the leader's URL; empty where none is known.
    #[error("this coordinator stands by; {}", match leader.as_str() {
        "" => "no leader is known yet, ask again".to_owned(),
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
        Self::RangeUnavailable { job: job.to_string(), missing, more, waited_ms }
    }

    /// Returns the error for a field that is missing.
    pub fn missing(field: &str) -> Self {
        Self::invalid(field, "missing", "must be given")
    }

    /// Returns the error for a state that should not occur.
    pub fn internal(reason: impl ToString) -> Self {
        Self::Internal { reason: reason.to_string() }
    }

    /// Returns the gRPC code that the error is sent with.
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

    /// Returns whether the same request may be sent again: this one released nothing that the next would not release in
    /// the same bytes.
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

    /// Returns whether a process's log should name the error: a request for what must not be, or a failure. Temporary
    /// errors are not notable, nor callers without rights, which `node::auth` logs.
    pub fn is_notable(&self) -> bool {
        use ServiceError::*;
        match self {
            Fenced { .. } | TokenExpired { .. } | StaleEpoch { .. } => true,
            Unauthenticated | PermissionDenied | RangeNotAllowed { .. } => false,
            // Mistakes of the caller, who has been answered.
            InvalidArgument { .. } | NotFound { .. } => false,
            other => !other.retry_safe(),
        }
    }

    /// Returns the kind of a notable error; `None` where `status` carries no [`ServiceError`], or none that is notable.
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
    /// Restores the error that a Rustle service sent. Any other status is the transport's, and safe to retry only where
    /// the request can't have been answered.
    fn from(status: Status) -> Self {
        let carried = status.metadata().get_bin(TRAILER).and_then(|value| value.to_bytes().ok());
        if let Some(detail) = carried.and_then(|bytes| pb::ErrorDetail::decode(bytes).ok()) {
            return serde_json::from_str(&detail.fields_json).unwrap_or_else(|_| {
                // An error of another release, which this one does not know: its promise holds all the same.
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

    /// One error of every kind.
    fn one_of_each() -> Vec<ServiceError> {
        use ServiceError::*;
        let text = String::new;
        let range = CoordinateRange { start: 0, end: 1 };
        vec![
            InvalidArgument { field: text(), value: text(), allowed: text() },
            NotFound { what: text(), name: text() },
            AlreadyExists { what: text(), name: text(), difference: text() },
            PlanDigestMismatch { expected: text(), actual: text() },
            StreamVersionMismatch { expected: 1, actual: 2 },
            ProtocolVersionMismatch { expected: 1, actual: 2 },
            KeyMismatch { job: text(), expected: text(), actual: text() },
            RowBeyondIterations { row: 1, iterations: 1 },
            RangeBeyondDimension { start: 0, end: 2, dimension: 1 },
            AlreadyBound { job: text(), branch: 0, row: 0 },
            BranchSuperseded { job: text(), branch: 0, current: 1, from_row: 0 },
            LedgerBehind { job: text(), known: text(), witness: text(), seen: text() },
            CursorMismatch { what: text(), expected: text(), actual: text() },
            TokenExpired { job: text(), row: 0 },
            StaleEpoch { presented: 0, current: 1 },
            NotBound { job: text(), branch: 0, row: 0 },
            Fenced { job: text(), shard: 0, presented: 0, current: 1 },
            NotOwner { job: text(), shard: 0 },
            Restoring { job: text(), shard: 0 },
            RangeUnavailable { job: text(), missing: vec![range], more: 0, waited_ms: 0 },
            JobState { job: text(), state: text(), allowed: text() },
            Checkpoint { object: text(), reason: text() },
            Draining,
            NotLeader { leader: text() },
            Unauthenticated,
            PermissionDenied,
            RangeNotAllowed { asked: range, allowed: vec![] },
            ResourceExhausted { what: text(), limit: text() },
            MustRegister { worker: text(), reason: text() },
            Unavailable { what: text() },
            Store { reason: text() },
            Internal { reason: text() },
        ]
    }

    #[test]
    fn the_kind_of_an_error_is_the_tag_of_its_json() {
        let errors = one_of_each();
        for error in &errors {
            let json = serde_json::to_value(error).unwrap();
            assert_eq!(json["kind"], error.kind());
        }
        let kinds: std::collections::BTreeSet<_> = errors.iter().map(ServiceError::kind).collect();
        // serde names all tags that it would accept: none is missing above.
        let unknown = serde_json::from_str::<ServiceError>(r#"{"kind":"?"}"#).unwrap_err().to_string();
        let expected = unknown.split('`').skip(3).step_by(2).collect();
        assert_eq!(kinds, expected);
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

    /// Otherwise a client would take the answer for a failure of the transport, and never see its text.
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
