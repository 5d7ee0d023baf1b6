//! What is served now, and why the rest is not. It follows the same rule as routing: the process that holds a lease lives,
//! and its lease is fresh. What a worker reported before it died does not count.

use proto::{CoordinateRange, pb};
use tokio::time::Instant;

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
    pub fn reason_unserved(&self, now: Instant, view: &JobView, shard: &ShardView) -> Option<String> {
        if self.is_covered(now, view, shard) {
            return None;
        }
        let others = if self.members.all_live(now).next().is_none() {
            "no worker is registered"
        } else if shard.is_unschedulable {
            "no registered worker can take it: it has another key, too little memory, or failed before"
        } else {
            "another worker takes it"
        };
        let Some(owner) = &shard.record.owner else { return Some(others.to_owned()) };
        let Some(member) = self.members.live(owner, now) else {
            return Some(format!("{owner} is gone: it sent no heartbeat for the time of a lease; {others}"));
        };
        let report = shard.last_report.as_ref().filter(|_| shard.holder == Some(member.incarnation));
        Some(match report {
            Some(report) if report.state == ReportedState::Failed => {
                format!("{owner} failed: {}", report.message)
            }
            Some(_) => format!("{owner} restores it"),
            None => format!("{owner} has not reported it yet"),
        })
    }
}
