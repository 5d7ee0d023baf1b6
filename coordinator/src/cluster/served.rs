//! What is served now, and why the rest is not. It follows the same rule as routing: the process that holds a lease lives,
//! and its lease is fresh. What a worker reported before it died does not count.

use proto::{CoordinateRange, pb};
use tokio::time::Instant;

use super::cooldowns::CooldownReason;
use super::unserved::{OwnerAbsence, UnservedReason};
use super::{Cluster, JobView, ReportedState, ShardView};

impl Cluster {
    /// Returns whether every coordinate of the shard is served now, by its owner or still by owners before.
    pub fn is_covered(&self, now: Instant, view: &JobView, shard: &ShardView) -> bool {
        self.is_served(now, shard) || self.is_covered_by_owners_before(now, view, shard.record.range)
    }

    fn is_covered_by_owners_before(&self, now: Instant, view: &JobView, range: CoordinateRange) -> bool {
        let lives = |worker, process| {
            self.members.live(worker, now).is_some_and(|member| member.incarnation == process)
        };
        let served = view.superseded.over(range).filter(|lease| lives(&lease.worker, lease.process));
        let mut parts: Vec<_> = served.filter_map(|lease| lease.range.intersection(&range)).collect();
        parts.sort_unstable();
        let mut next = range.start;
        for part in parts {
            // Of leases that overlap, the first one serves.
            if part.start == next {
                next = part.end;
            }
        }
        next >= range.end
    }

    /// Returns the job as clients see it.
    pub fn message_of(&self, now: Instant, view: &JobView) -> pb::Job {
        let served = view.shards.iter().filter(|shard| self.is_covered(now, view, shard)).count();
        view.to_message(served as u32)
    }

    /// Returns the reason why the shard is not served; `None` if it is.
    pub fn reason_unserved(&self, now: Instant, view: &JobView, shard: &ShardView) -> Option<UnservedReason> {
        (!self.is_covered(now, view, shard)).then(|| self.unserved(now, view, shard))
    }

    /// Returns the reason why the owner of a shard does not serve it.
    fn unserved(&self, now: Instant, view: &JobView, shard: &ShardView) -> UnservedReason {
        let others = || self.takers(now, view, shard);
        let Some(owner) = &shard.record.owner else { return UnservedReason::Unowned { takers: others() } };
        let worker = owner.clone();
        let Some(member) = self.members.live(owner, now) else {
            let absence = match (self.members.absences().of(owner), self.members.awaited_until(owner)) {
                (Some(absence), _) => OwnerAbsence::Known(absence.clone()),
                (None, Some(_)) => OwnerAbsence::Awaited,
                (None, None) => OwnerAbsence::NotSeen,
            };
            return UnservedReason::OwnerAbsent { worker, absence, takers: others() };
        };
        let cooldown = self.cooldowns.active(now, &view.record.job, owner, member.incarnation);
        if cooldown == Some(CooldownReason::KeyMismatch) {
            return UnservedReason::Failed {
                worker,
                message: "its key is another than the job's".to_owned(),
            };
        }
        let report = shard.last_report.as_ref().filter(|_| shard.holder == Some(member.incarnation));
        match report {
            Some(report) if report.state == ReportedState::Failed => {
                UnservedReason::Failed { worker, message: report.message.clone() }
            }
            Some(_) => UnservedReason::Restoring { worker },
            None => UnservedReason::Unreported { worker },
        }
    }

    /// Returns the reason for each shard of a job that is not served.
    pub fn reasons_unserved(&self, now: Instant, view: &JobView) -> Vec<UnservedReason> {
        let shards = view.shards.iter().filter(|_| view.is_served());
        shards.filter_map(|shard| self.reason_unserved(now, view, shard)).collect()
    }
}
