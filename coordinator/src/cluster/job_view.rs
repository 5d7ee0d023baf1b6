//! The coordinator's view of one job.

use std::collections::BTreeSet;
use std::sync::Arc;

use ledger::{BindingSummary, JobRecord, JobState, ShardRecord};
use proto::{CheckpointRecord, model::PlacementHint};
use proto::{CoordinateRange, ElementType, Incarnation, ServiceError, pb};
use tokio::time::Instant;

use super::layout::{PendingLayout, Standby};
use super::reports::LeaseReport;
use super::superseded::SupersededLeases;
use crate::checkpointing::interval::CheckpointCost;
use crate::plan_summary::PlanSummary;

/// A job's record, its shards, and what memory adds to them.
#[derive(Debug)]
pub struct JobView {
    pub record: JobRecord,
    pub shards: Vec<ShardView>,
    /// The layout that takes the place of the present one once its shards are ready.
    pub pending: Option<PendingLayout>,
    /// Leases that the ledger has given to others and that are served until their successors are ready.
    pub superseded: SupersededLeases,
    /// The workers that should be near each range of coordinates.
    pub hints: Vec<PlacementHint>,
    /// The summary of the job's plan; `None` for a job that was destroyed before this process started.
    pub summary: Option<PlanSummary>,
    /// The rows that the ledger has bound on the current branch.
    pub bound: BindingSummary,
    /// What was assumed and what is in no account since the ledger was adopted; `None` where it was not while it had the job.
    pub adopted: Option<String>,
    /// The rows that the ledger has bound on all branches together.
    pub rows_ever_bound: u64,
    /// Bindings that were refused since this process started.
    pub refused: RefusedBindings,
    /// Checkpoints that workers may restore from, newest first.
    pub checkpoints: Vec<CheckpointRecord>,
    /// The newest checkpoint; `None` if this process has written none.
    pub last_checkpoint: Option<CheckpointMark>,
    /// The time at which a checkpoint was last begun, or the job was added.
    pub last_attempt: Instant,
    /// The cost that the last checkpoint showed.
    pub checkpoint_cost: Option<CheckpointCost>,
    /// Held while a checkpoint of this job is written, so that there is one at a time.
    pub checkpoint_lock: Arc<tokio::sync::Mutex<()>>,
    /// Shards whose piece of the checkpoint is still to be written: they must not lose their leases.
    pub unwritten_pieces: BTreeSet<u32>,
}

/// Bindings that were refused, for whatever reason.
#[derive(Clone, Copy, Debug, Default)]
pub struct RefusedBindings {
    pub count: u64,
    /// The last one's moment, and the name of its error.
    pub last: Option<(Instant, &'static str)>,
}

/// The moment at which a checkpoint was written.
#[derive(Clone, Copy, Debug)]
pub struct CheckpointMark {
    pub written_at: Instant,
    /// The job's next row to bind at that moment.
    pub next_row: u64,
}

/// A shard's record, and what its owner reports of it.
#[derive(Clone, Debug)]
pub struct ShardView {
    pub record: ShardRecord,
    /// The process that holds the lease; `None` if the lease is from before this coordinator started.
    pub holder: Option<Incarnation>,
    /// Whether its holder reported it ready. It is served only while the holder also lives (`Cluster::is_covered`).
    pub is_ready: bool,
    pub last_report: Option<LeaseReport>,
    /// The process that takes the shard over once it is ready there.
    pub standby: Option<Standby>,
    /// No worker may take it, or none has memory for it.
    pub is_unschedulable: bool,
}

impl ShardView {
    /// Creates the view of a shard that no process holds yet.
    pub fn new(record: ShardRecord) -> Self {
        Self {
            record,
            holder: None,
            is_ready: false,
            last_report: None,
            standby: None,
            is_unschedulable: false,
        }
    }
}

impl JobView {
    /// Creates the view of a job that has no bindings and no checkpoints.
    pub fn new(record: JobRecord, shards: Vec<ShardRecord>, summary: impl Into<Option<PlanSummary>>) -> Self {
        Self {
            record,
            shards: shards.into_iter().map(ShardView::new).collect(),
            pending: None,
            superseded: SupersededLeases::default(),
            hints: Vec::new(),
            summary: summary.into(),
            bound: BindingSummary::default(),
            adopted: None,
            rows_ever_bound: 0,
            refused: RefusedBindings::default(),
            checkpoints: Vec::new(),
            last_checkpoint: None,
            last_attempt: Instant::now(),
            checkpoint_cost: None,
            checkpoint_lock: Arc::default(),
            unwritten_pieces: BTreeSet::new(),
        }
    }

    /// Returns whether workers serve the job. Finished jobs still serve the rows that are bound.
    pub fn is_served(&self) -> bool {
        self.record.state != JobState::Destroyed
    }

    /// Returns whether a shard has no state besides its rows.
    pub fn is_stateless(&self) -> bool {
        self.summary.is_none_or(|summary| summary.slots == 0)
    }

    /// Returns what the job's rows are served as.
    pub fn element(&self) -> ElementType {
        self.summary.map_or(ElementType::F32, |summary| summary.element)
    }

    /// Returns the bytes that a worker goes through for each row of the range: the shard's weight.
    pub fn shard_bytes(&self, range: CoordinateRange) -> u64 {
        range.len().saturating_mul(self.summary.map_or(0, |summary| summary.bytes_per_coordinate()))
    }

    /// Returns the bytes of memory that the range takes on its worker.
    pub fn shard_memory(&self, range: CoordinateRange) -> u64 {
        range.len().saturating_mul(self.summary.map_or(0, |summary| summary.memory_per_coordinate()))
    }

    /// Drops every preparation and every superseded lease.
    pub fn forget_handovers(&mut self) {
        self.pending = None;
        self.superseded.clear();
        self.shards.iter_mut().for_each(|shard| shard.standby = None);
    }

    /// Returns what the range should be near: the hint that covers most of it.
    pub fn hint_for(&self, range: CoordinateRange) -> Option<&str> {
        let covered = |hint: &&PlacementHint| hint.range.intersection(&range).map_or(0, |part| part.len());
        self.hints.iter().filter(|hint| covered(hint) > 0).max_by_key(covered).map(|hint| hint.near.as_str())
    }

    /// Returns the error for a job whose state does not allow the request.
    pub fn wrong_state(&self, allowed: &str) -> ServiceError {
        ServiceError::JobState {
            job: self.record.job.to_string(),
            state: self.record.state.to_string(),
            allowed: allowed.to_owned(),
        }
    }

    /// Counts rows that the ledger has just bound. Calls may come in any order.
    pub fn rows_were_bound(&mut self, branch: u64, end: u64, newly: u64) {
        self.rows_ever_bound += newly;
        if branch == self.record.branch {
            self.bound.rows_bound += newly;
            self.bound.next_row = self.bound.next_row.max(end);
        }
    }

    /// Returns the job as clients see it, with the number of its shards that are served now.
    pub fn to_message(&self, shards_ready: u32) -> pb::Job {
        let record = &self.record;
        let state = match record.state {
            JobState::Running => pb::JobState::Running,
            JobState::Finished => pb::JobState::Finished,
            JobState::Destroyed => pb::JobState::Destroyed,
        };
        pb::Job {
            job: record.job.to_string(),
            state: state.into(),
            dimension: record.dimension,
            iterations: record.iterations,
            branch: record.branch,
            mechanism: record.mechanism.clone(),
            plan_digest: record.plan_digest.to_vec(),
            shards: record.shards,
            shards_ready,
            rows_bound: self.bound.rows_bound,
            next_row: self.bound.next_row,
            lineage: (&record.lineage).into(),
            job_nonce: record.nonce.as_bytes().to_vec(),
        }
    }
}
