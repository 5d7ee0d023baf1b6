//! Shards that change hands without a row being late: made ready beside the worker that serves them, taken over under
//! a new epoch, and served under the old one until the new owner says that it serves.
//!
//! Nothing of this is durable. A coordinator that starts anew plans anew; what the ledger says of owners and epochs is
//! true at every moment, whoever is still served from.

use std::collections::{BTreeSet, HashMap};

use proto::model::LeaseGrant;
use proto::{CoordinateRange, Incarnation, JobId, ServiceError, WorkerId};
use tokio::time::Instant;
use tracing::{info, warn};

use super::ownership::OwnershipIndex;
use super::leases::grant;
use super::membership::Membership;
use super::superseded::is_any_over;
use super::{Cluster, JobView, LeaseReport, Reason, ReportedState};

/// A process that makes a shard ready without serving it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standby {
    pub worker: WorkerId,
    pub process: Incarnation,
    /// Tells this preparation from any other of the same shard.
    pub number: u64,
    /// It has caught up with its job, as of its last report.
    pub is_ready: bool,
    pub next_row: u64,
}

/// The shards of a layout to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingLayout {
    /// Tells this layout from any other that was asked for.
    pub number: u64,
    pub shards: Vec<PendingShard>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingShard {
    pub shard: u32,
    pub range: CoordinateRange,
    pub standby: Option<Standby>,
    /// No worker may take it, or none has memory for it.
    pub is_unschedulable: bool,
}

/// Who should make a shard ready: of the present layout, or of the one to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preparation {
    pub job: JobId,
    pub shard: u32,
    pub is_pending: bool,
    pub by: Option<(WorkerId, Incarnation)>,
}

impl Cluster {
    pub fn preparation_number(&mut self) -> u64 {
        let number = self.next_preparation;
        self.next_preparation += 1;
        number
    }

    /// Begins, goes on with, or ends what placement wants prepared.
    pub fn prepare(&mut self, preparations: Vec<Preparation>) {
        for Preparation { job, shard, is_pending, by } in preparations {
            let number = self.preparation_number();
            self.ownership.may_have_changed(&job);
            let Some(view) = self.jobs.get_mut(&job) else { continue };
            let Some(standby) = standby_of(view, shard, is_pending) else { continue };
            let present = standby.as_ref().map(|standby| (&standby.worker, standby.process));
            if present == by.as_ref().map(|(worker, process)| (worker, *process)) {
                continue;
            }
            match &by {
                Some((worker, _)) => info!(%job, shard, %worker, is_pending, "shard being prepared"),
                None => info!(%job, shard, is_pending, "no longer prepared"),
            }
            let new = |(worker, process)| Standby { worker, process, number, is_ready: false, next_row: 0 };
            *standby = by.map(new);
        }
    }

    /// Says of each shard whether placement found no worker for it.
    pub fn note_unschedulable(&mut self, unplaced: &BTreeSet<(JobId, u32, bool)>) {
        for view in self.jobs.values_mut() {
            let job = &view.record.job;
            let coming = view.coming.iter_mut().flat_map(|coming| &mut coming.shards);
            let coming = coming.map(|it| (it.shard, true, it.range, &mut it.is_unschedulable));
            let present = view.shards.iter_mut();
            let present = present.map(|it| (it.record.shard, false, it.record.range, &mut it.is_unschedulable));
            for (shard, is_pending, range, is_unschedulable) in present.chain(coming) {
                let is_new = !unplaced.is_empty() && unplaced.contains(&(job.clone(), shard, is_pending));
                if is_new && !std::mem::replace(is_unschedulable, is_new) {
                    let memory = view.facts.map_or(0, |facts| facts.memory_per_coordinate());
                    let needed = range.len().saturating_mul(memory);
                    warn!(%job, shard, is_pending, needed, "no worker may take this shard, or has so many bytes left");
                }
                *is_unschedulable = is_new;
            }
        }
    }

    /// What the worker says of the shards it makes ready. True where placement has something to do.
    pub fn apply_standby_reports(
        &mut self,
        now: Instant,
        worker: &WorkerId,
        process: Incarnation,
        reports: &[LeaseReport],
    ) -> bool {
        self.ownership.bring_up_to_date(&self.jobs);
        let concerned = self.ownership.handovers_of(worker);
        let by_number: HashMap<_, _> = reports.iter().map(|it| ((&it.job, it.epoch), it)).collect();
        let Self { jobs, cooldowns, .. } = self;
        let mut is_work = false;
        for job in concerned {
            let Some(view) = jobs.get_mut(&job) else { continue };
            let job = view.record.job.clone();
            let key = view.record.key_commitment;
            for standby in standbys_of(view).filter(|it| it.worker == *worker && it.process == process) {
                standby.is_ready = false;
                let Some(report) = by_number.get(&(&job, standby.number)) else { continue };
                let has_other_key = !report.key_commitment.is_empty() && report.key_commitment != key;
                let reason = match report.state {
                    _ if has_other_key => Reason::KeyMismatch,
                    ReportedState::Failed => Reason::Failed,
                    state => {
                        standby.is_ready = state == ReportedState::Ready && report.key_commitment == key;
                        standby.next_row = report.next_row;
                        is_work |= standby.is_ready;
                        continue;
                    }
                };
                if cooldowns.start(now, &job, worker, process, reason) {
                    warn!(%worker, %job, shard = report.shard, why = report.message,
                        "this worker can't prepare the shard, and gets none of the job for now");
                    is_work = true;
                }
            }
        }
        is_work
    }

    /// What this process should make ready.
    pub fn standby_grants(
        &mut self,
        worker: &WorkerId,
        process: Incarnation,
        store_url: &str,
    ) -> Vec<LeaseGrant> {
        let mut grants = Vec::new();
        self.ownership.bring_up_to_date(&self.jobs);
        for job in self.ownership.handovers_of(worker) {
            let Some(view) = self.jobs.get(&job).filter(|view| view.is_served()) else { continue };
            let present = view.shards.iter().map(|it| (it.record.shard, it.record.range, &it.standby));
            let coming = view.coming.iter().flat_map(|coming| &coming.shards);
            let coming = coming.map(|it| (it.shard, it.range, &it.standby));
            for (shard, range, standby) in present.chain(coming) {
                let Some(standby) = standby else { continue };
                if standby.worker == *worker && standby.process == process {
                    let next_row = needed_from(view, range);
                    grants.push(grant(view, (shard, range, standby.number), next_row, store_url));
                }
            }
        }
        grants
    }

    /// Leases that their successors have taken over, or whose worker is gone.
    pub fn drop_superseded(&mut self, now: Instant) {
        let Self { jobs, members, ownership, .. } = self;
        jobs.values_mut().for_each(|view| drop_superseded_in(view, members, ownership, now));
    }

    /// The same after a heartbeat that told of these jobs: thousands come every second, and there may be as many jobs.
    pub fn drop_superseded_of<'a>(&mut self, now: Instant, told_of: impl Iterator<Item = &'a JobId>) {
        let Self { jobs, members, ownership, .. } = self;
        // A worker tells of hundreds of shards of one job.
        for job in told_of.collect::<BTreeSet<_>>() {
            if let Some(view) = jobs.get_mut(job) {
                drop_superseded_in(view, members, ownership, now);
            }
        }
    }

    /// An operator's word. Gives the number of shards that the worker serves.
    pub fn set_draining(&mut self, worker: &WorkerId, is_draining: bool) -> Result<u32, ServiceError> {
        let unknown = || ServiceError::NotFound { what: "worker".into(), name: worker.to_string() };
        self.members.member_mut(worker).ok_or_else(unknown)?.is_draining = is_draining;
        Ok(self.served_by(worker))
    }

    /// Shards that the worker owns, or still serves for their new owners.
    pub fn served_by(&mut self, worker: &WorkerId) -> u32 {
        let held = self.ownership.of(&self.jobs, worker);
        let handovers = self.ownership.handovers_of(worker);
        let served = |job: &JobId| self.jobs.get(job).filter(|view| view.is_served());
        let owned = held.iter().filter(|(job, _)| served(job).is_some()).count();
        let superseded = handovers.iter().filter_map(served).flat_map(|view| view.superseded.iter());
        (owned + superseded.filter(|lease| lease.worker == *worker).count()) as u32
    }

    /// Whether a worker that is about to end has nothing left that another could take over first.
    pub fn may_leave(&mut self, worker: &WorkerId, now: Instant) -> bool {
        let is_other = |(name, member): (&WorkerId, &super::Member)| name != worker && member.takes_shards();
        self.served_by(worker) == 0 || !self.members.all_live(now).any(is_other)
    }
}

fn standbys_of(view: &mut JobView) -> impl Iterator<Item = &mut Standby> {
    let coming = view.coming.iter_mut().flat_map(|coming| &mut coming.shards);
    let coming = coming.filter_map(|shard| shard.standby.as_mut());
    view.shards.iter_mut().filter_map(|shard| shard.standby.as_mut()).chain(coming)
}

fn drop_superseded_in(view: &mut JobView, members: &Membership, ownership: &mut OwnershipIndex, now: Instant) {
    let JobView { record, superseded, shards, .. } = view;
    if superseded.is_empty() {
        return;
    }
    let unready: Vec<_> = shards.iter().filter(|it| !it.is_ready).map(|it| it.record.range).collect();
    let before = superseded.len();
    superseded.retain(|lease| {
        let member = members.live(&lease.worker, now);
        let is_alive = member.is_some_and(|member| member.incarnation == lease.process);
        is_alive && is_any_over(&unready, lease.range)
    });
    if superseded.len() < before {
        ownership.may_have_changed(&record.job);
    }
}

fn standby_of(view: &mut JobView, shard: u32, is_pending: bool) -> Option<&mut Option<Standby>> {
    if is_pending {
        let coming = view.coming.as_mut()?.shards.iter_mut();
        return coming.into_iter().find(|it| it.shard == shard).map(|it| &mut it.standby);
    }
    view.shards.iter_mut().find(|it| it.record.shard == shard).map(|it| &mut it.standby)
}

/// The first row of the range that may still be asked for: where its present owners stand, as of their last reports.
pub fn needed_from(view: &JobView, range: CoordinateRange) -> u64 {
    let owners = view.shards.iter().filter(|shard| shard.record.range.intersection(&range).is_some());
    let released = owners.filter_map(|shard| shard.last_report.as_ref().map(|report| report.released));
    released.filter(|&row| row > 0).fold(view.bound.next_row, u64::min)
}
