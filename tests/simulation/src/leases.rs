//! Who served what under which lease: a shard has one worker under an epoch, and an epoch is of one branch.

use std::collections::BTreeMap;
use std::time::Duration;

use ledger::Ledger;
use proto::{JobId, NoiseId};

use crate::cases::Case;
use crate::history::History;

/// A shard of a job under one epoch.
pub type Lease = (JobId, u32, u64);

#[derive(Debug, Default)]
pub struct Leases {
    /// Endpoints that a coordinator named for a lease.
    served_by: BTreeMap<Lease, String>,
    held: BTreeMap<Lease, LeaseRecord>,
}

/// A lease in the ledger, or in service for an owner that was not ready yet.
#[derive(Clone, Copy, Debug)]
struct LeaseRecord {
    /// The time at which it was last seen.
    last: Duration,
    /// The branch that it was granted on; `None` where it was first seen when its job may have left that.
    branch: Option<u64>,
}

impl History {
    pub fn sample(&mut self, ledger: &Ledger, retiring: Vec<Lease>, jobs: &[&'static Case]) {
        for case in jobs {
            let Ok(Some(record)) = ledger.job(&case.job) else { continue };
            for branch in 0..=record.branch {
                if self.branches.lineage(&case.job, branch).is_none_or(|_| branch == record.branch)
                    && let Ok(lineage) = ledger.lineage(&case.job, branch)
                {
                    let noise_id = NoiseId { job_nonce: record.nonce, lineage };
                    self.learn(case, &noise_id, None);
                }
            }
            let last = self.now;
            // These may lag behind the ledger for a moment, and then are of the branch that it has left.
            for lease in retiring.iter().filter(|lease| lease.0 == case.job) {
                let branch = self.leases.held.get(lease).and_then(|held| held.branch);
                self.leases.held.insert(lease.clone(), LeaseRecord { last, branch });
            }
            let held = LeaseRecord { last, branch: Some(record.branch) };
            for shard in ledger.shards(&case.job).unwrap_or_default() {
                self.hold((case.job.clone(), shard.shard, shard.epoch), held);
            }
        }
    }

    fn hold(&mut self, lease: Lease, held: LeaseRecord) {
        let before = self.leases.held.insert(lease.clone(), held).and_then(|before| before.branch);
        if let Some((old, new)) = before.zip(held.branch).filter(|(old, new)| old < new) {
            self.violation(format!("{lease:?} was for branch {old} and is now for branch {new}"));
        }
    }

    /// One process serves a shard under an epoch, and no other ever does, also where a clone has taken the original's place.
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
        if let Some(of) = held.and_then(|held| held.branch).filter(|of| *of != branch) {
            self.violation(format!("{lease:?} is of branch {of}, and served branch {branch}"));
        }
        if let Some(left) = self.branches.left_at(&lease.0, branch).filter(|left| *left + ttl < asked) {
            self.violation(format!(
                "{lease:?}, asked for at {asked:?}, served branch {branch}, known as left at {left:?}"
            ));
        }
    }
}
