//! The layout that a job is moving to, and the workers that prepare its shards: data without rules.

use node::auth::CallerName;
use proto::{CoordinateRange, Incarnation, JobId, WorkerId};

/// A process that prepares a shard without serving it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standby {
    pub worker: WorkerId,
    pub process: Incarnation,
    /// Distinguishes this preparation from any other of the same shard.
    pub number: u64,
    /// Whether it had caught up with its job in its last report.
    pub is_ready: bool,
    /// The next row that it would make, from its last report.
    pub next_row: u64,
}

/// A layout whose shards are being prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingLayout {
    /// Distinguishes this layout from any other that was requested.
    pub number: u64,
    /// The caller that requested it; `None` for the coordinator itself.
    pub requested_by: Option<CallerName>,
    pub shards: Vec<PendingShard>,
}

/// One shard of a [`PendingLayout`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingShard {
    pub shard: u32,
    pub range: CoordinateRange,
    pub standby: Option<Standby>,
    /// No worker may take it, or none has memory for it.
    pub is_unschedulable: bool,
}

/// The worker that placement wants to prepare a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preparation {
    pub job: JobId,
    pub shard: u32,
    /// The shard belongs to the pending layout, not to the present one.
    pub is_pending: bool,
    /// `None` ends the preparation.
    pub by: Option<(WorkerId, Incarnation)>,
}

/// A shard that no worker may take or has memory for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Unschedulable {
    pub job: JobId,
    pub shard: u32,
    /// The shard belongs to the pending layout, not to the present one.
    pub is_pending: bool,
}
