//! The changes that a heartbeat makes, and the leases that its reply grants.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use ledger::ShardRecord;
use proto::model::LeaseGrant;
use proto::{Incarnation, JobId, Nonce, ServiceError, WorkerId};
use release::grants::Lease;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::cooldowns::CooldownReason;
use super::{Cluster, JobView, LeaseReport, ReportedState, SupersededLease};

impl Cluster {
    /// Applies a worker's complete list of leases: what it does not name, it does not hold. Returns whether placement
    /// has something to do.
    pub fn apply_reports(
        &mut self,
        now: Instant,
        worker: &WorkerId,
        incarnation: Incarnation,
        reports: &[LeaseReport],
    ) -> bool {
        let held = self.ownership.shards_of(&self.jobs, worker);
        let by_lease: HashMap<_, _> = reports.iter().map(|it| ((&it.job, it.shard, it.epoch), it)).collect();
        let proved = self.proved_by(worker, incarnation);
        let Self { jobs, cooldowns, .. } = self;
        let mut is_work = false;
        let mut made_ready = BTreeSet::new();
        let mut failed = BTreeSet::new();
        let mut ready_shards: BTreeMap<JobId, usize> = BTreeMap::new();
        for (job, index) in held {
            let Some(view) = jobs.get_mut(&job).filter(|view| view.is_served()) else { continue };
            let record = &view.shards[index].record;
            let report = by_lease.get(&(&job, record.shard, record.epoch)).copied();
            match apply_report(view, index, incarnation, report, proved.contains(&job)) {
                Verdict::MadeReady => {
                    *ready_shards.entry(job.clone()).or_default() += 1;
                    made_ready.insert(job);
                }
                Verdict::Unchanged => {}
                Verdict::Unclaimed => is_work = true,
                Verdict::Refused(reason, error) => {
                    if cooldowns.start(now, &job, worker, incarnation, reason) {
                        warn!(%worker, %job, shard = view.shards[index].record.shard, %error,
                            "this worker gets no shard of the job for now");
                        is_work = true;
                    }
                    failed.insert(job);
                }
            }
        }
        // One line for each job: a rewind makes each of its shards ready again.
        ready_shards.iter().for_each(|(job, shards)| info!(%job, %worker, shards, "shards ready"));
        // A shard that the worker made ready does not outweigh one that it failed at.
        made_ready.difference(&failed).for_each(|job| cooldowns.clear(job, worker));
        is_work
    }

    /// Resets the shards of a worker that has registered again: it must report what it serves.
    pub fn reset_readiness(&mut self, worker: &WorkerId) {
        for (job, index) in self.ownership.shards_of(&self.jobs, worker) {
            let Some(shard) = self.jobs.get_mut(&job).and_then(|view| view.shards.get_mut(index)) else {
                continue;
            };
            shard.is_ready = false;
            shard.last_report = None;
        }
    }

    /// Returns every lease that this process should hold now.
    pub fn grants(
        &mut self,
        worker: &WorkerId,
        incarnation: Incarnation,
        store_url: &str,
    ) -> Vec<LeaseGrant> {
        let held = self.ownership.shards_of(&self.jobs, worker);
        let owned = held.iter().filter_map(|(job, index)| {
            let view = self.jobs.get(job).filter(|view| view.is_served())?;
            let shard = view.shards.get(*index).filter(|shard| shard.holder == Some(incarnation))?;
            let ShardRecord { shard, range, epoch, .. } = shard.record;
            Some((view, Lease { shard, range, epoch }))
        });
        let mut leases: Vec<_> = owned.collect();
        for job in self.ownership.handovers_of(worker) {
            let Some(view) = self.jobs.get(&job).filter(|view| view.is_served()) else { continue };
            let superseded =
                view.superseded.iter().filter(|it| it.worker == *worker && it.process == incarnation);
            let lease = |it: &SupersededLease| Lease { shard: it.shard, range: it.range, epoch: it.epoch };
            leases.extend(superseded.map(|it| (view, lease(it))));
        }
        let grant = |(view, lease): (&JobView, Lease)| {
            grant(self.ledger, view, lease, view.bound.next_row, store_url)
        };
        leases.into_iter().map(grant).collect()
    }
}

/// The outcome of one report.
enum Verdict {
    /// The shard is ready, and was not before.
    MadeReady,
    /// Nothing has changed.
    Unchanged,
    /// A lease from before this coordinator started, which its owner no longer holds.
    Unclaimed,
    Refused(CooldownReason, ServiceError),
}

fn apply_report(
    view: &mut JobView,
    index: usize,
    incarnation: Incarnation,
    report: Option<&LeaseReport>,
    has_proved_key: bool,
) -> Verdict {
    let JobView { record, shards, .. } = view;
    let shard = &mut shards[index];
    let was_ready = std::mem::replace(&mut shard.is_ready, false);
    shard.last_report = report.cloned();
    let Some(report) = report else {
        return if shard.holder.is_none() { Verdict::Unclaimed } else { Verdict::Unchanged };
    };
    // It holds the lease of this very epoch, so no other process has held the shard since it was given.
    match shard.holder {
        None => shard.holder = Some(incarnation),
        Some(holder) if holder != incarnation => return Verdict::Unchanged,
        Some(_) => {}
    }
    let is_failed = report.state == ReportedState::Failed;
    let has_other_key = lacks_key(report, &record.key_commitment, has_proved_key);
    match report.state {
        _ if has_other_key => Verdict::Refused(
            CooldownReason::KeyMismatch,
            ServiceError::KeyMismatch {
                job: record.job.to_string(),
                expected: first_bytes(&record.key_commitment),
                actual: named_key(report, has_proved_key),
            },
        ),
        _ if is_failed => {
            let what = format!("shard {} ({})", report.shard, report.message);
            Verdict::Refused(CooldownReason::Failed, ServiceError::Unavailable { what })
        }
        ReportedState::Ready => {
            shard.is_ready = true;
            if was_ready {
                return Verdict::Unchanged;
            }
            debug!(job = %record.job, shard = report.shard, epoch = report.epoch, next_row = report.next_row,
                "shard ready");
            Verdict::MadeReady
        }
        _ => Verdict::Unchanged,
    }
}

/// Returns whether the worker has another key for the job, or has not proved that it has the one it names. A worker that
/// names none may be looking for it, as long as it has nothing ready.
pub(super) fn lacks_key(report: &LeaseReport, of_job: &[u8; 32], has_proved_key: bool) -> bool {
    let is_proved = report.key_commitment == of_job && has_proved_key;
    !is_proved && (report.state == ReportedState::Ready || !report.key_commitment.is_empty())
}

/// Returns the key that a worker names, in an error.
fn named_key(report: &LeaseReport, has_proved_key: bool) -> String {
    let named = first_bytes(&report.key_commitment);
    if has_proved_key { named } else { format!("{named} (without a proof that the worker has it)") }
}

/// Returns enough bytes to tell two commitments apart by eye.
fn first_bytes(commitment: &[u8]) -> String {
    match commitment {
        [] => "(none)".to_owned(),
        bytes => format!("{}…", hex::encode(&bytes[..bytes.len().min(6)])),
    }
}

/// Returns a lease, or the preparation of one.
pub fn grant(ledger: Nonce, view: &JobView, lease: Lease, next_row: u64, store_url: &str) -> LeaseGrant {
    release::grants::grant(ledger, &view.record, lease, next_row, store_url, &view.checkpoints)
}
