//! What follows from an error's kind: its gRPC code, whether a retry is safe, and whether a log names it.

use tonic::Code;

use super::ServiceError;

impl ServiceError {
    /// Returns the gRPC code that the error is sent with.
    pub fn code(&self) -> Code {
        use ServiceError::*;
        match self {
            InvalidArgument { .. } | GridRowsAreIntegers { .. } | RangeBeyondDimension { .. } => {
                Code::InvalidArgument
            }
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
            | BudgetExceeded(_)
            | ApprovalRequired { .. }
            | JobState { .. } => Code::FailedPrecondition,
            NotOwner { .. }
            | Restoring { .. }
            | RangeUnavailable { .. }
            | Draining
            | WrongRows { .. }
            | NotLeader { .. }
            | Unavailable { .. } => Code::Unavailable,
            ResourceExhausted { .. } | QuotaExceeded { .. } => Code::ResourceExhausted,
            Checkpoint { .. } | LedgerBehind { .. } | LedgerCopied { .. } => Code::DataLoss,
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
            | WrongRows { .. }
            | NotLeader { .. }
            | ResourceExhausted { .. }
            | MustRegister { .. }
            | Unavailable { .. } => true,
            // A retry releases nothing either; a client that tries again by itself must have a chance.
            QuotaExceeded { retry_after_ms, .. } => retry_after_ms.is_some(),
            InvalidArgument { .. }
            | GridRowsAreIntegers { .. }
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
            | LedgerCopied { .. }
            | CursorMismatch { .. }
            | NotBound { .. }
            | BudgetExceeded(_)
            | ApprovalRequired { .. }
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
            Fenced { .. } | TokenExpired { .. } | StaleEpoch { .. } | WrongRows { .. } => true,
            Unauthenticated | PermissionDenied | RangeNotAllowed { .. } => false,
            // Mistakes of the caller, who has been answered.
            InvalidArgument { .. } | GridRowsAreIntegers { .. } | NotFound { .. } => false,
            other => !other.retry_safe(),
        }
    }

    /// Returns the error's name in metrics and on the wire, which is the tag of its JSON: bounded, stable.
    pub fn kind(&self) -> &'static str {
        use ServiceError::*;
        match self {
            InvalidArgument { .. } => "invalid_argument",
            GridRowsAreIntegers { .. } => "grid_rows_are_integers",
            NotFound { .. } => "not_found",
            AlreadyExists { .. } => "already_exists",
            PlanDigestMismatch { .. } => "plan_digest_mismatch",
            StreamVersionMismatch { .. } => "stream_version_mismatch",
            ProtocolVersionMismatch { .. } => "protocol_version_mismatch",
            KeyMismatch { .. } => "key_mismatch",
            RowBeyondIterations { .. } => "row_beyond_iterations",
            RangeBeyondDimension { .. } => "range_beyond_dimension",
            BudgetExceeded(_) => "budget_exceeded",
            ApprovalRequired { .. } => "approval_required",
            AlreadyBound { .. } => "already_bound",
            BranchSuperseded { .. } => "branch_superseded",
            LedgerBehind { .. } => "ledger_behind",
            LedgerCopied { .. } => "ledger_copied",
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
            WrongRows { .. } => "wrong_rows",
            Draining => "draining",
            NotLeader { .. } => "not_leader",
            Unauthenticated => "unauthenticated",
            PermissionDenied => "permission_denied",
            RangeNotAllowed { .. } => "range_not_allowed",
            ResourceExhausted { .. } => "resource_exhausted",
            QuotaExceeded { .. } => "quota_exceeded",
            MustRegister { .. } => "must_register",
            Unavailable { .. } => "unavailable",
            Store { .. } => "store",
            Internal { .. } => "internal",
        }
    }
}
