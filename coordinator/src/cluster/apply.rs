//! Applies new owners and new layouts once the ledger has recorded them. The owners before continue to serve until the
//! new ones report.

use std::collections::HashMap;

use ledger::{JobRecord, ShardRecord};
use proto::JobId;
use tokio::time::Instant;

use super::desired::{LayoutChange, OwnerChanges};
use super::{Cluster, ShardView, SupersededLease};

impl Cluster {
    /// Applies changes of owners that the ledger has recorded.
    pub fn owners_changed(&mut self, now: Instant, changes: &OwnerChanges, records: Vec<ShardRecord>) {
        let served = self.served_leases(now, &changes.job);
        let Ok(view) = self.job_mut(&changes.job) else { return };
        let records: HashMap<u32, ShardRecord> =
            records.into_iter().map(|record| (record.shard, record)).collect();
        let owners: HashMap<u32, _> = changes.owners.iter().map(|(shard, owner)| (*shard, owner)).collect();
        for held in &mut view.shards {
            let shard = held.record.shard;
            let (Some(record), Some(owner)) = (records.get(&shard), owners.get(&shard)) else { continue };
            *held = ShardView::new(record.clone());
            held.holder = owner.as_ref().map(|(_, process)| *process);
        }
        // A worker must not be made to serve two epochs of the same shard.
        let is_superseded = |it: &SupersededLease| {
            let is_given = records.contains_key(&it.shard);
            let owner = owners.get(&it.shard).filter(|_| is_given);
            owner.is_some_and(|owner| owner.as_ref().is_none_or(|(worker, _)| *worker != it.worker))
        };
        view.superseded.extend(served.into_iter().filter(is_superseded));
        self.drop_superseded(now);
    }

    /// Applies a layout that the ledger has recorded.
    pub fn layout_changed(
        &mut self,
        now: Instant,
        change: &LayoutChange,
        record: JobRecord,
        shards: Vec<ShardRecord>,
    ) {
        let served = self.served_leases(now, &change.job);
        let Ok(view) = self.job_mut(&change.job) else { return };
        view.record = record;
        view.pending = None;
        view.superseded.extend(served);
        view.shards = shards.into_iter().map(ShardView::new).collect();
        let owners: HashMap<u32, _> = change.owners.iter().map(|(shard, owner)| (*shard, owner)).collect();
        for held in &mut view.shards {
            if let Some(owner) = owners.get(&held.record.shard) {
                held.holder = owner.as_ref().map(|(_, process)| *process);
            }
        }
        self.drop_superseded(now);
    }

    /// Returns the leases of the job that its owners serve now.
    fn served_leases(&self, now: Instant, job: &JobId) -> Vec<SupersededLease> {
        let Some(view) = self.jobs.get(job) else { return Vec::new() };
        let served = view.shards.iter().filter(|shard| self.is_served(now, shard));
        let lease = |shard: &ShardView| {
            let record = &shard.record;
            Some(SupersededLease {
                worker: record.owner.clone()?,
                process: shard.holder?,
                shard: record.shard,
                range: record.range,
                epoch: record.epoch,
            })
        };
        served.filter_map(lease).collect()
    }
}
