//! What the coordinator knows in memory: members, jobs, and who holds what. The ledger is the truth for all that must
//! outlive the process; this is changed only after the ledger was.

mod candidates;
mod exclusions;
mod handover;
mod holdings;
mod intended;
mod job_view;
mod leases;
mod marks;
mod membership;
mod reports;
mod retiring;
mod speeds;
mod switched;

use std::collections::BTreeMap;
use std::time::Duration;

use ledger::{JobRecord, ShardRecord};
use proto::{Incarnation, JobId, Result, ServiceError, WorkerId};
use tokio::time::Instant;

pub use exclusions::{Exclusions, Reason};
pub use handover::{Coming, ComingShard, Preparation, Standby};
use holdings::Holdings;
pub use intended::{LayoutChange, OwnerChanges};
pub use job_view::{JobView, ShardView};
use marks::Marks;
pub use marks::Taken;
pub use membership::{Member, Membership};
pub use reports::{LeaseReport, ReportedState};
pub use retiring::{Retiring, RetiringLeases};
pub use speeds::Speeds;

#[derive(Debug)]
pub struct Cluster {
    pub members: Membership,
    exclusions: Exclusions,
    jobs: BTreeMap<JobId, JobView>,
    holdings: Holdings,
    marks: Marks,
    /// Number of the next preparation. No two have the same, also those of coordinators one after another: a worker may
    /// still report what the one before had it prepare.
    next_preparation: u64,
    pub speeds: Speeds,
}

impl Cluster {
    pub fn new(lease_ttl: Duration, coordinator_epoch: u64) -> Self {
        Self {
            members: Membership::new(lease_ttl),
            exclusions: Exclusions::default(),
            jobs: BTreeMap::new(),
            holdings: Holdings::default(),
            marks: Marks::default(),
            next_preparation: coordinator_epoch.saturating_mul(1 << 32),
            speeds: Speeds::default(),
        }
    }

    pub fn job(&self, job: &JobId) -> Result<&JobView> {
        self.jobs.get(job).ok_or_else(|| no_job(job))
    }

    pub fn job_mut(&mut self, job: &JobId) -> Result<&mut JobView> {
        self.holdings.may_have_changed(job);
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
        self.holdings.may_have_changed(&view.record.job);
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
        view.unwritten.retain(|it| shard.is_some_and(|shard| shard != *it));
    }

    pub fn add_job(&mut self, view: JobView) {
        self.exclusions.forget_job(&view.record.job);
        self.insert(view);
    }

    pub fn expire(&mut self, now: Instant) -> Vec<WorkerId> {
        let gone = self.members.expire(now);
        gone.iter().for_each(|worker| self.exclusions.forget_worker(worker));
        self.drop_retired(now);
        gone
    }

    /// True where the worker was a member.
    pub fn deregister(&mut self, worker: &WorkerId, incarnation: Incarnation) -> bool {
        let was_member = self.members.deregister(worker, incarnation);
        if was_member {
            self.exclusions.forget_worker(worker);
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
