//! Who served what under which lease: a shard has one worker under an epoch, and an epoch is of one branch.

use std::collections::BTreeMap;
use std::time::Duration;

use ledger::Ledger;
use proto::JobId;

use crate::cases::Case;
use crate::history::History;

/// A shard of a job under one epoch.
pub type Lease = (JobId, u32, u64);

#[derive(Debug, Default)]
pub struct Leases {
    /// Endpoints that the coordinator named for a lease.
    served_by: BTreeMap<Lease, String>,
    held: BTreeMap<Lease, Held>,
}

/// A lease in the ledger, or in service for an owner that was not ready yet.
#[derive(Clone, Copy, Debug)]
struct Held {
    /// When it was last seen.
    last: Duration,
    /// What the job was on then.
    branch: u64,
}

impl History {
    pub fn sample(&mut self, ledger: &Ledger, retiring: Vec<Lease>, jobs: &[&'static Case]) {
        for case in jobs {
            let Ok(Some(record)) = ledger.job(&case.job) else { continue };
            for branch in 0..=record.branch {
                if self.branches.lineage(&case.job, branch).is_none_or(|_| branch == record.branch)
                    && let Ok(lineage) = ledger.lineage(&case.job, branch)
                {
                    self.learn(case, &lineage, None);
                }
            }
            let held = Held { last: self.now, branch: record.branch };
            let of_job = retiring.iter().filter(|lease| lease.0 == case.job).cloned();
            of_job.for_each(|lease| self.hold(lease, held));
            for shard in ledger.shards(&case.job).unwrap_or_default() {
                self.hold((case.job.clone(), shard.shard, shard.epoch), held);
            }
        }
    }

    fn hold(&mut self, lease: Lease, held: Held) {
        match self.leases.held.insert(lease.clone(), held) {
            Some(before) if before.branch < held.branch => {
                let (old, new) = (before.branch, held.branch);
                self.violation(format!("{lease:?} was of branch {old}, and goes on with branch {new}"));
            }
            _ => {}
        }
    }

    /// One process serves a shard under an epoch, and no other ever does.
    pub fn routed(&mut self, lease: Lease, endpoint: &str) {
        let before = self.leases.served_by.entry(lease.clone()).or_insert_with(|| endpoint.to_owned());
        if before != endpoint {
            let text = format!("{lease:?} is served by {before} and by {endpoint}");
            self.violation(text);
        }
    }

    /// A worker has served a row of the branch under this epoch, asked at `asked`.
    pub fn served(&mut self, lease: Lease, branch: u64, asked: Duration, ttl: Duration) {
        let held = self.leases.held.get(&lease).copied();
        if held.is_none_or(|held| held.last + ttl < asked) {
            let ended = held.map(|held| held.last);
            self.violation(format!(
                "{lease:?}, asked for at {asked:?}, was served; it was last held at {ended:?}"
            ));
        }
        if let Some(Held { branch: of, .. }) = held.filter(|held| held.branch != branch) {
            self.violation(format!("{lease:?} is of branch {of}, and served branch {branch}"));
        }
        if let Some(left) = self.branches.left_at(&lease.0, branch).filter(|left| *left + ttl < asked) {
            self.violation(format!(
                "{lease:?}, asked for at {asked:?}, served branch {branch}, known as left at {left:?}"
            ));
        }
    }
}
