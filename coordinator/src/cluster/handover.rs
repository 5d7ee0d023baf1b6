//! Shards that change hands without a row being late. The next owner prepares a shard beside the worker that serves it,
//! takes it over under a new epoch, and the old owner serves under the old epoch until the new one reports that it
//! serves.
//!
//! Nothing of this is durable. A coordinator that restarts plans again; the owners and epochs in the ledger are true at
//! every moment, regardless of which worker still serves.

use std::collections::{BTreeSet, HashMap};

use proto::model::LeaseGrant;
use proto::{CoordinateRange, Incarnation, JobId, ServiceError, WorkerId};
use release::grants::Lease;
use tokio::time::Instant;
use tracing::{info, warn};

use super::cooldowns::CooldownReason;
use super::layout::{Preparation, Standby, Unschedulable};
use super::leases::grant;
use super::membership::{Member, Membership};
use super::ownership::OwnershipIndex;
use super::superseded::is_any_over;
use super::{Cluster, JobView, LeaseReport, ReportedState};

impl Cluster {
    /// Returns a number that no other preparation has.
    pub fn preparation_number(&mut self) -> u64 {
        let number = self.next_preparation;
        self.next_preparation += 1;
        number
    }

    /// Begins, continues or ends the preparations that placement wants.
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
                Some((worker, _)) => info!(%job, shard, %worker, is_pending, "shard is being prepared"),
                None => info!(%job, shard, is_pending, "shard is no longer being prepared"),
            }
            let new = |(worker, process)| Standby { worker, process, number, is_ready: false, next_row: 0 };
            *standby = by.map(new);
        }
    }

    /// Marks each shard as schedulable or not, and logs those that have just become unschedulable.
    pub fn note_unschedulable(&mut self, unschedulable: &BTreeSet<Unschedulable>) {
        for view in self.jobs.values_mut() {
            let job = &view.record.job;
            let pending = view.pending.iter_mut().flat_map(|pending| &mut pending.shards);
            let pending = pending.map(|it| (it.shard, true, it.range, &mut it.is_unschedulable));
            let present = view.shards.iter_mut();
            let present =
                present.map(|it| (it.record.shard, false, it.record.range, &mut it.is_unschedulable));
            for (shard, is_pending, range, noted) in present.chain(pending) {
                let is_unschedulable = !unschedulable.is_empty()
                    && unschedulable.contains(&Unschedulable { job: job.clone(), shard, is_pending });
                if is_unschedulable && !*noted {
                    let memory = view.summary.map_or(0, |summary| summary.memory_per_coordinate());
                    let needed = range.len().saturating_mul(memory);
                    warn!(%job, shard, is_pending, needed, "no worker may take this shard or has this many bytes free");
                }
                *noted = is_unschedulable;
            }
        }
    }

    /// Applies a worker's reports on the shards that it prepares. Returns whether placement has something to do.
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
                    _ if has_other_key => CooldownReason::KeyMismatch,
                    ReportedState::Failed => CooldownReason::Failed,
                    state => {
                        standby.is_ready = state == ReportedState::Ready && report.key_commitment == key;
                        standby.next_row = report.next_row;
                        is_work |= standby.is_ready;
                        continue;
                    }
                };
                if cooldowns.start(now, &job, worker, process, reason) {
                    warn!(%worker, %job, shard = report.shard, why = report.message,
                        "this worker can't prepare the shard and gets no shard of the job for now");
                    is_work = true;
                }
            }
        }
        is_work
    }

    /// Returns the shards that this process should prepare.
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
            let pending = view.pending.iter().flat_map(|pending| &pending.shards);
            let pending = pending.map(|it| (it.shard, it.range, &it.standby));
            for (shard, range, standby) in present.chain(pending) {
                let Some(standby) = standby else { continue };
                if standby.worker == *worker && standby.process == process {
                    let next_row = needed_from(view, range);
                    let lease = Lease { shard, range, epoch: standby.number };
                    grants.push(grant(self.ledger, view, lease, next_row, store_url));
                }
            }
        }
        grants
    }

    /// Drops superseded leases whose successors serve, or whose worker is gone.
    pub fn drop_superseded(&mut self, now: Instant) {
        let Self { jobs, members, ownership, .. } = self;
        jobs.values_mut().for_each(|view| drop_superseded_in(view, members, ownership, now));
    }

    /// Drops superseded leases of the jobs that a heartbeat reported. Thousands of heartbeats arrive each second, and
    /// there may be as many jobs, so that looking at all of them would cost too much.
    pub fn drop_superseded_of<'a>(&mut self, now: Instant, reported: impl Iterator<Item = &'a JobId>) {
        let Self { jobs, members, ownership, .. } = self;
        // A worker reports hundreds of shards of one job.
        for job in reported.collect::<BTreeSet<_>>() {
            if let Some(view) = jobs.get_mut(job) {
                drop_superseded_in(view, members, ownership, now);
            }
        }
    }

    /// Sets whether a worker drains. Returns the number of shards that it serves.
    pub fn set_draining(&mut self, worker: &WorkerId, is_draining: bool) -> Result<u32, ServiceError> {
        let unknown = || ServiceError::NotFound { what: "worker".into(), name: worker.to_string() };
        self.members.member_mut(worker).ok_or_else(unknown)?.is_draining = is_draining;
        Ok(self.served_by(worker))
    }

    /// Counts the shards that the worker owns, or still serves until their new owners do.
    pub fn served_by(&mut self, worker: &WorkerId) -> u32 {
        let held = self.ownership.shards_of(&self.jobs, worker);
        let handovers = self.ownership.handovers_of(worker);
        let served = |job: &JobId| self.jobs.get(job).filter(|view| view.is_served());
        let owned = held.iter().filter(|(job, _)| served(job).is_some()).count();
        let superseded = handovers.iter().filter_map(served).flat_map(|view| view.superseded.iter());
        (owned + superseded.filter(|lease| lease.worker == *worker).count()) as u32
    }

    /// Returns whether a worker that is about to end may do so: no other worker could take over what it serves.
    pub fn may_leave(&mut self, worker: &WorkerId, now: Instant) -> bool {
        let is_other = |(name, member): (&WorkerId, &Member)| name != worker && member.takes_shards();
        self.served_by(worker) == 0 || !self.members.all_live(now).any(is_other)
    }
}

fn standbys_of(view: &mut JobView) -> impl Iterator<Item = &mut Standby> {
    let pending = view.pending.iter_mut().flat_map(|pending| &mut pending.shards);
    let pending = pending.filter_map(|shard| shard.standby.as_mut());
    view.shards.iter_mut().filter_map(|shard| shard.standby.as_mut()).chain(pending)
}

fn drop_superseded_in(
    view: &mut JobView,
    members: &Membership,
    ownership: &mut OwnershipIndex,
    now: Instant,
) {
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
        let pending = view.pending.as_mut()?.shards.iter_mut();
        return pending.into_iter().find(|it| it.shard == shard).map(|it| &mut it.standby);
    }
    view.shards.iter_mut().find(|it| it.record.shard == shard).map(|it| &mut it.standby)
}

/// Returns the first row of the range that may still be requested: where its present owners stood in their last
/// reports.
pub fn needed_from(view: &JobView, range: CoordinateRange) -> u64 {
    let owners = view.shards.iter().filter(|shard| shard.record.range.intersection(&range).is_some());
    let released = owners.filter_map(|shard| shard.last_report.as_ref().map(|report| report.released));
    released.filter(|&row| row > 0).fold(view.bound.next_row, u64::min)
}
