//! What the coordinator knows in memory: members, jobs, and who holds what. The ledger is the truth for all that must
//! outlive the process; this is changed only after the ledger was.

mod candidates;
mod cooldowns;
mod handover;
mod ownership;
mod desired;
mod job_view;
mod leases;
mod watermarks;
mod membership;
mod reports;
mod superseded;
mod stragglers;
mod apply;

use std::collections::BTreeMap;
use std::time::Duration;

use ledger::{JobRecord, ShardRecord};
use proto::{Incarnation, JobId, Result, ServiceError, WorkerId};
use tokio::time::Instant;

pub use cooldowns::{Cooldowns, Reason};
pub use handover::{PendingLayout, PendingShard, Preparation, Standby};
use ownership::OwnershipIndex;
pub use intended::{LayoutChange, OwnerChanges};
pub use job_view::{JobView, ShardView};
use marks::Watermarks;
pub use marks::Taken;
pub use membership::{Member, Membership};
pub use reports::{LeaseReport, ReportedState};
pub use superseded::{SupersededLease, SupersededLeases};
pub use stragglers::Stragglers;

#[derive(Debug)]
pub struct Cluster {
    pub members: Membership,
    cooldowns: Cooldowns,
    jobs: BTreeMap<JobId, JobView>,
    ownership: OwnershipIndex,
    marks: Watermarks,
    /// Number of the next preparation. No two have the same, also those of coordinators one after another: a worker may
    /// still report what the one before had it prepare.
    next_preparation: u64,
    pub speeds: Stragglers,
}

impl Cluster {
    pub fn new(lease_ttl: Duration, coordinator_epoch: u64) -> Self {
        Self {
            members: Membership::new(lease_ttl),
            cooldowns: Cooldowns::default(),
            jobs: BTreeMap::new(),
            ownership: OwnershipIndex::default(),
            marks: Watermarks::default(),
            next_preparation: coordinator_epoch.saturating_mul(1 << 32),
            speeds: Stragglers::default(),
        }
    }

    pub fn job(&self, job: &JobId) -> Result<&JobView> {
        self.jobs.get(job).ok_or_else(|| no_job(job))
    }

    pub fn job_mut(&mut self, job: &JobId) -> Result<&mut JobView> {
        self.ownership.may_have_changed(job);
        self.jobs.get_mut(job).ok_or_else(|| no_job(job))
    }

    pub fn jobs(&self) -> impl Iterator<Item = &JobView> {
        self.jobs.values()
    }

    /// A job from before this coordinator started: its owners get time to come back.
    pub fn restore_job(&mut self, view: JobView, now: Instant) {
        for owner in view.shards.iter().filter_map(|shard| shard.record.owner.clone()) {
            self.members.await_owner(owner, now);
        }
        self.members.begin_grace_period(now);
        self.insert(view);
    }

    fn insert(&mut self, view: JobView) {
        self.ownership.may_have_changed(&view.record.job);
        self.jobs.insert(view.record.job.clone(), view);
    }

    /// Counts rows that the ledger has just bound.
    pub fn rows_were_bound(&mut self, job: &JobId, branch: u64, end: u64, newly: u64) {
        // A job destroyed in this moment is no longer in memory as running; its ledger entry is what counts.
        if let Some(view) = self.jobs.get_mut(job) {
            view.rows_were_bound(branch, end, newly);
        }
    }

    /// The shard's piece of a checkpoint is there; `None`: of all of them, or none will be.
    pub fn written(&mut self, job: &JobId, shard: Option<u32>) {
        let Some(view) = self.jobs.get_mut(job) else { return };
        view.unwritten_pieces.retain(|it| shard.is_some_and(|shard| shard != *it));
    }

    pub fn add_job(&mut self, view: JobView) {
        self.cooldowns.forget_job(&view.record.job);
        self.insert(view);
    }

    pub fn expire(&mut self, now: Instant) -> Vec<WorkerId> {
        let gone = self.members.expire(now);
        gone.iter().for_each(|worker| self.cooldowns.forget_worker(worker));
        self.drop_superseded(now);
        gone
    }

    /// True where the worker was a member.
    pub fn deregister(&mut self, worker: &WorkerId, incarnation: Incarnation) -> bool {
        let was_member = self.members.deregister(worker, incarnation);
        if was_member {
            self.cooldowns.forget_worker(worker);
        }
        was_member
    }

    /// After a change of the job's state or of its shards that the ledger has recorded.
    pub fn replace(&mut self, record: JobRecord, shards: Vec<ShardRecord>) -> Result<()> {
        let view = self.job_mut(&record.job)?;
        view.record = record;
        view.shards = shards.into_iter().map(ShardView::new).collect();
        view.forget_handovers();
        Ok(())
    }
}

pub fn no_job(job: &JobId) -> ServiceError {
    ServiceError::NotFound { what: "job".into(), name: job.to_string() }
}
