//! The coordinator's state in memory: members, jobs, and which worker holds which shard.
//!
//! The ledger is the truth for everything that must outlive the process. This state changes only after the ledger has.

mod absences;
mod apply;
mod candidates;
mod contradictions;
mod cooldowns;
mod desired;
mod handover;
mod job_view;
mod layout;
mod leases;
mod long_reports;
mod membership;
mod ownership;
mod possession;
mod reports;
mod served;
mod stragglers;
mod superseded;
mod unserved;
mod watermarks;

use std::collections::BTreeMap;
use std::time::Duration;

use ledger::{JobRecord, ShardRecord};
use proto::{Incarnation, JobId, Nonce, Result, ServiceError, WorkerId};
use tokio::time::Instant;

pub use absences::{Absence, AbsenceCause};
use contradictions::Contradictions;
use cooldowns::Cooldowns;
pub use desired::{LayoutChange, OwnerChanges};
pub use job_view::{CheckpointMark, JobView, ShardView};
pub use layout::{PendingLayout, PendingShard};
use long_reports::LongReports;
pub use membership::{Member, Membership};
use ownership::OwnershipIndex;
use possession::Doubts;
pub use reports::{LeaseReport, ReportedState};
pub use stragglers::Stragglers;
pub use superseded::SupersededLease;
pub use unserved::UnservedReason;
use watermarks::Watermarks;
pub use watermarks::{HeardRecord, WatermarkVerdict, for_release};

/// Preparations that one coordinator can number before it reaches the numbers of the next epoch: 2³², far more than a
/// process makes at one a shard and pass, while 32 bits remain for the epoch.
const PREPARATIONS_PER_EPOCH: u64 = 1 << 32;

/// Members, jobs, and the indexes and rules over them.
#[derive(Debug)]
pub struct Cluster {
    /// Why the ledger, which binds nothing then, is taken for a copy.
    pub copied: Option<ServiceError>,
    pub members: Membership,
    pub stragglers: Stragglers,
    cooldowns: Cooldowns,
    jobs: BTreeMap<JobId, JobView>,
    ownership: OwnershipIndex,
    watermarks: Watermarks,
    doubts: Doubts,
    long_reports: LongReports,
    contradictions: Contradictions,
    /// The id of the ledger.
    ledger: Nonce,
    /// The epoch of this coordinator on it.
    epoch: u64,
    /// The number of the next preparation. Numbers are unique across successive coordinators too: a worker may still
    /// report a preparation that an earlier coordinator requested.
    next_preparation: u64,
}

impl Cluster {
    /// Creates an empty cluster on a ledger.
    pub fn new(lease_ttl: Duration, ledger: Nonce, coordinator_epoch: u64) -> Self {
        Self {
            copied: None,
            members: Membership::new(lease_ttl),
            stragglers: Stragglers::default(),
            cooldowns: Cooldowns::default(),
            jobs: BTreeMap::new(),
            ownership: OwnershipIndex::default(),
            watermarks: Watermarks::default(),
            doubts: Doubts::default(),
            long_reports: LongReports::default(),
            contradictions: Contradictions::default(),
            ledger,
            epoch: coordinator_epoch,
            next_preparation: coordinator_epoch.saturating_mul(PREPARATIONS_PER_EPOCH),
        }
    }

    /// Returns a job. Fails if there is none of that name.
    pub fn job(&self, job: &JobId) -> Result<&JobView> {
        self.jobs.get(job).ok_or_else(|| no_job(job))
    }

    /// Returns a job to be changed. Fails if there is none of that name.
    pub fn job_mut(&mut self, job: &JobId) -> Result<&mut JobView> {
        self.ownership.may_have_changed(job);
        self.jobs.get_mut(job).ok_or_else(|| no_job(job))
    }

    /// Returns all jobs, by name.
    pub fn jobs(&self) -> impl Iterator<Item = &JobView> {
        self.jobs.values()
    }

    /// Adds a job from before this coordinator started. Its owners get time to come back.
    pub fn restore_job(&mut self, view: JobView, now: Instant) {
        for owner in view.shards.iter().filter_map(|shard| shard.record.owner.clone()) {
            self.members.await_owner(owner, now);
        }
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

    /// Counts a binding that was refused, if the job is there.
    pub fn binding_was_refused(&mut self, job: &JobId, kind: &'static str, now: Instant) {
        if let Some(view) = self.jobs.get_mut(job) {
            view.refused.count += 1;
            view.refused.last = Some((now, kind));
        }
    }

    /// Notes that a shard's piece of the checkpoint is written. `None` ends the checkpoint for all shards.
    pub fn piece_written(&mut self, job: &JobId, shard: Option<u32>) {
        let Some(view) = self.jobs.get_mut(job) else { return };
        view.unwritten_pieces.retain(|it| shard.is_some_and(|shard| shard != *it));
    }

    /// Returns the id of the ledger.
    pub fn ledger(&self) -> Nonce {
        self.ledger
    }

    /// Adds a job that has just been created.
    pub fn add_job(&mut self, view: JobView) {
        self.cooldowns.forget_job(&view.record.job);
        self.insert(view);
    }

    /// Removes the workers whose lease has ended, and returns them.
    pub fn expire(&mut self, now: Instant) -> Vec<WorkerId> {
        let gone = self.members.expire(now);
        gone.iter().for_each(|worker| self.cooldowns.forget_worker(worker));
        gone.iter().for_each(|worker| self.long_reports.forget(worker, now));
        self.doubts.retain(|worker, _| !gone.contains(worker));
        self.drop_superseded(now);
        gone
    }

    /// Removes a worker that leaves. Returns whether it was a member.
    pub fn deregister(&mut self, worker: &WorkerId, incarnation: Incarnation, now: Instant) -> bool {
        let was_member = self.members.deregister(worker, incarnation);
        if was_member {
            self.doubts.remove(worker);
            self.long_reports.forget(worker, now);
            self.cooldowns.forget_worker(worker);
        }
        was_member
    }

    /// Replaces a job's record and shards after the ledger has recorded the change.
    pub fn replace(&mut self, record: JobRecord, shards: Vec<ShardRecord>) -> Result<()> {
        let view = self.job_mut(&record.job)?;
        view.record = record;
        view.shards = shards.into_iter().map(ShardView::new).collect();
        view.forget_handovers();
        Ok(())
    }
}

/// Returns the error for a job that does not exist.
pub fn no_job(job: &JobId) -> ServiceError {
    ServiceError::NotFound { what: "job".into(), name: job.to_string() }
}
