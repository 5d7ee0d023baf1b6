//! The state that only the first noise rank has: the ledger, which no other process may open at the same time, and the
//! list of checkpoints.

pub mod resume;

use checkpoint_store::CheckpointStore;
use ledger::{AnchorPlace, Created, JobRecord, Ledger, LedgerError, ShardRecord};
use node::process::{rng, runtime::Runtime};
use noise_kernel::JobKey;
use plan::Plan;
use proto::{
    CheckpointRecord, Commitment, CoordinateRange, JobId, Result, RowRange, model::CheckpointPiece, pb,
};
use release::checkpoints::{CheckpointIds, expired};
use release::grants::Lease;
use release::job::define_with_ranges;

use crate::{args::MpiArgs, watermark_exchange::Watermarks};

/// Checkpoints of a job that are kept: the newest, and the one before it in case the newest is damaged.
const CHECKPOINTS_KEPT: usize = 2;

/// The ledger of the first noise rank and the job in it.
pub struct RootLedger {
    ledger: Ledger,
    job: JobRecord,
    /// The epoch of this launch, above that of every coordinator before on this ledger.
    epoch: u64,
    store: Option<CheckpointStore>,
    store_url: String,
    ids: CheckpointIds,
}

impl RootLedger {
    /// Opens the ledger, creates the job or finds it with this definition, and grants all of its shards anew: earlier
    /// owners are fenced off. Fails, and leaves the ledger as it was, where another process holds it, a rank has released
    /// more than it has, the ledger is a copy, the job has another definition, or the checkpoint store can't be opened.
    pub fn open(
        args: &MpiArgs,
        plan: &Plan,
        key: &JobKey,
        ranges: &[CoordinateRange],
        watermarks: &Watermarks,
    ) -> anyhow::Result<Self> {
        let ledger = Ledger::open(&args.ledger)?;
        watermarks.check_against(&ledger, &args.job)?;
        let store_url = args.store_url()?.unwrap_or_default();
        let store = match store_url.as_str() {
            "" => None,
            url => Some(CheckpointStore::open(url)?),
        };
        ledger.take_up(&AnchorPlace::of_ledger(&args.ledger), rng::nonce()?)?;
        if let Some(copied) = ledger.copied() {
            return Err(copied.into());
        }
        let plan_toml = plan.to_toml_string()?;
        let commitment = key.commitment();
        let new = define_with_ranges(args.job.clone(), plan, plan_toml, ranges, commitment, rng::nonce()?)?;
        if ledger.create_job(&new.record, &new.shards)? == Created::Existing {
            ledger.replace_shards(&args.job, ranges)?;
        }
        let epoch = ledger.next_coordinator_epoch()?;
        let job = ledger.job(&args.job)?.ok_or_else(|| anyhow::anyhow!("job {} is gone", args.job))?;
        Ok(Self { ledger, job, ids: CheckpointIds::new(epoch), epoch, store, store_url })
    }

    /// Returns the name of the job.
    pub fn job(&self) -> &JobId {
        &self.job.job
    }

    /// Returns whether checkpoints are written.
    pub fn has_store(&self) -> bool {
        self.store.is_some()
    }

    /// Returns the row after the last that is bound.
    pub fn next_row(&self) -> Result<u64, LedgerError> {
        Ok(self.ledger.binding_summary(&self.job.job, self.job.branch)?.next_row)
    }

    /// Returns the shard of each noise rank, as a heartbeat would grant them. `next_row`: the row at which generation
    /// begins.
    pub fn grants(&self, next_row: u64) -> Result<pb::HeartbeatResponse, LedgerError> {
        let job = &self.job;
        let checkpoints = self.ledger.checkpoints(&job.job)?;
        // Without a store there is nothing to read a checkpoint from.
        let readable = if self.has_store() { &checkpoints[..] } else { &[] };
        let ledger = self.ledger.id()?;
        let grant = |ShardRecord { shard, range, epoch, .. }: ShardRecord| {
            let lease = Lease { shard, range, epoch };
            release::grants::grant(ledger, job, lease, next_row, &self.store_url, readable)
        };
        let shards = self.ledger.shards(&job.job)?;
        let grants = shards.into_iter().map(|shard| grant(shard).into()).collect();
        Ok(pb::HeartbeatResponse { coordinator_epoch: self.epoch, grants, ..Default::default() })
    }

    /// Binds a row, durably when it returns. No byte of the row leaves any rank before.
    pub fn bind(&self, row: u64, branch: u64, commitment: Commitment) -> Result<(), LedgerError> {
        let rows = RowRange { start: row, end: row.saturating_add(1) };
        release::binding::bind(&self.ledger, &self.job.job, branch, rows, &[commitment]).map(|_| ())
    }

    /// Returns the number of a checkpoint to write, which was never used before.
    pub fn new_checkpoint(&self) -> u64 {
        self.ids.next()
    }

    /// Publishes a checkpoint whose pieces are all written: writes the manifest, then the ledger's entry, and deletes older
    /// checkpoints.
    pub fn publish(
        &self,
        runtime: &Runtime,
        id: u64,
        bytes: u64,
        pieces: Vec<CheckpointPiece>,
    ) -> anyhow::Result<CheckpointRecord> {
        let record = release::checkpoints::record(&self.job, id, bytes, pieces);
        if let Some(store) = &self.store {
            runtime.block_on(store.write_manifest(&record))?;
            self.ledger.add_checkpoint(&record)?;
            self.drop_old(runtime, store);
        }
        Ok(record)
    }

    /// Deletes old checkpoints. One that can't be deleted now is tried again next time.
    fn drop_old(&self, runtime: &Runtime, store: &CheckpointStore) {
        let checkpoints = self.ledger.checkpoints(&self.job.job).unwrap_or_default();
        for old in expired(&checkpoints, CHECKPOINTS_KEPT) {
            let delete = || -> anyhow::Result<()> {
                runtime.block_on(store.delete_checkpoint(old))?;
                Ok(self.ledger.remove_checkpoint(&old.job, old.id)?)
            };
            if let Err(error) = delete() {
                tracing::warn!(job = %old.job, id = old.id, %error, "checkpoint could not be deleted");
            }
        }
    }
}

/// Returns whether the ledger itself failed, so that nothing more may be bound by it.
pub fn is_fatal(error: &LedgerError) -> bool {
    use LedgerError::*;
    matches!(
        error,
        Missing { .. } | Locked { .. } | Damaged { .. } | Format { .. } | Io { .. } | Stopped { .. }
    )
}

#[cfg(test)]
mod tests;
