//! One job as the coordinator sees it.

use std::collections::BTreeSet;
use std::sync::Arc;

use ledger::{BindingSummary, JobRecord, JobState, ShardRecord};
use proto::{CheckpointRecord, model::PlacementHint};
use proto::{CoordinateRange, Incarnation, ServiceError, pb};
use tokio::time::Instant;

use super::{Coming, LeaseReport, RetiringLeases, Standby};
use crate::pace::Cost;
use crate::plan_facts::PlanFacts;

#[derive(Debug)]
pub struct JobView {
    pub record: JobRecord,
    pub shards: Vec<ShardView>,
    /// The shards that shall take the place of these, once they are ready.
    pub coming: Option<Coming>,
    /// Leases that were taken over and are served until their successors are.
    pub retiring: RetiringLeases,
    /// Which workers should be near which coordinates.
    pub hints: Vec<PlacementHint>,
    /// Of its plan; `None` for a job that was destroyed before this process started.
    pub facts: Option<PlanFacts>,
    pub bound: BindingSummary,
    /// Checkpoints that workers may restore from, newest first.
    pub checkpoints: Vec<CheckpointRecord>,
    /// When the newest was written, and the next row to bind then; `None` where that was before this process.
    pub written: Option<(Instant, u64)>,
    /// When a checkpoint was last begun, or the job came.
    pub attempted: Instant,
    /// What the last one showed.
    pub cost: Option<Cost>,
    /// Held while a checkpoint of this job is written: one at a time.
    pub checkpointing: Arc<tokio::sync::Mutex<()>>,
    /// Shards whose piece of it is still to be written: they are not to lose their leases.
    pub unwritten: BTreeSet<u32>,
}

#[derive(Clone, Debug)]
pub struct ShardView {
    pub record: ShardRecord,
    /// The process that the owner's lease was given to; `None` where that was before this coordinator started.
    pub holder: Option<Incarnation>,
    pub is_ready: bool,
    pub last_report: Option<LeaseReport>,
    /// Who shall take it over, once it is ready there.
    pub standby: Option<Standby>,
    /// No worker may take it, or none has memory for it.
    pub is_unplaced: bool,
}

impl ShardView {
    pub fn new(record: ShardRecord) -> Self {
        Self { record, holder: None, is_ready: false, last_report: None, standby: None, is_unplaced: false }
    }
}

impl JobView {
    pub fn new(record: JobRecord, shards: Vec<ShardRecord>, facts: impl Into<Option<PlanFacts>>) -> Self {
        Self {
            record,
            shards: shards.into_iter().map(ShardView::new).collect(),
            coming: None,
            retiring: RetiringLeases::default(),
            hints: Vec::new(),
            facts: facts.into(),
            bound: BindingSummary::default(),
            checkpoints: Vec::new(),
            written: None,
            attempted: Instant::now(),
            cost: None,
            checkpointing: Arc::default(),
            unwritten: BTreeSet::new(),
        }
    }

    /// Finished jobs still serve the rows that are bound.
    pub fn is_served(&self) -> bool {
        self.record.state != JobState::Destroyed
    }

    /// A shard of the job weighs its rows alone.
    pub fn is_stateless(&self) -> bool {
        self.facts.is_none_or(|facts| facts.slots == 0)
    }

    /// What a row of it costs its worker: the shard's weight.
    pub fn shard_bytes(&self, range: CoordinateRange) -> u64 {
        range.len().saturating_mul(self.facts.map_or(0, |facts| facts.bytes_per_coordinate()))
    }

    /// What it takes of its worker's memory.
    pub fn shard_memory(&self, range: CoordinateRange) -> u64 {
        range.len().saturating_mul(self.facts.map_or(0, |facts| facts.memory_per_coordinate()))
    }

    /// A shard served by its owner, or still by the owner before.
    pub fn is_covered(&self, shard: &ShardView) -> bool {
        shard.is_ready || self.retiring.over(shard.record.range).next().is_some()
    }

    pub fn forget_handovers(&mut self) {
        self.coming = None;
        self.retiring.clear();
        self.shards.iter_mut().for_each(|shard| shard.standby = None);
    }

    /// What its users want a range to be near: the wish that covers most of it.
    pub fn wished_near(&self, range: CoordinateRange) -> Option<&str> {
        let covered = |hint: &&PlacementHint| hint.range.intersection(&range).map_or(0, |part| part.len());
        self.hints.iter().filter(|hint| covered(hint) > 0).max_by_key(covered).map(|hint| hint.near.as_str())
    }

    pub fn wrong_state(&self, allowed: &str) -> ServiceError {
        ServiceError::JobState {
            job: self.record.job.to_string(),
            state: self.record.state.to_string(),
            allowed: allowed.to_owned(),
        }
    }

    /// Counts rows that the ledger has just bound. Calls may come in any order.
    pub fn rows_were_bound(&mut self, branch: u64, end: u64, newly: u64) {
        if branch == self.record.branch {
            self.bound.rows_bound += newly;
            self.bound.next_row = self.bound.next_row.max(end);
        }
    }

    pub fn to_message(&self) -> pb::Job {
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
            shards_ready: self.shards.iter().filter(|shard| self.is_covered(shard)).count() as u32,
            rows_bound: self.bound.rows_bound,
            next_row: self.bound.next_row,
            lineage: (&record.lineage).into(),
        }
    }
}
