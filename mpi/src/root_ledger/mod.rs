//! The state that only the first noise rank has: the ledger, which no other process may open at the same time, and the
//! list of checkpoints.

pub mod resume;

use checkpoint_store::CheckpointStore;
use ledger::{Created, JobRecord, JobState, Ledger, LedgerError, ShardRecord};
use node::process::runtime::Runtime;
use noise_kernel::JobKey;
use plan::Plan;
use proto::{CheckpointRecord, pieces_for};
use proto::{
    Commitment, CoordinateRange, JobId, Lineage, Result, RowRange,
    model::{CheckpointPiece, LeaseGrant},
    pb,
};

use crate::{args::MpiArgs, watermark_exchange::Watermarks};

/// Checkpoints of a job that are kept: the newest, and the one before it in case the newest is damaged.
const CHECKPOINTS_KEPT: usize = 2;

/// Room for the numbers of checkpoints within one epoch. Numbers of a later epoch are above all of an earlier one.
const CHECKPOINTS_PER_EPOCH: u64 = 1 << 24;

/// The ledger of the first noise rank and the job in it.
pub struct RootLedger {
    ledger: Ledger,
    job: JobRecord,
    /// The epoch of this launch, above that of every coordinator before on this ledger.
    epoch: u64,
    store: Option<CheckpointStore>,
    store_url: String,
    checkpoints_begun: u64,
}

impl RootLedger {
    /// Opens the ledger, creates the job or finds it with this definition, and grants all of its shards anew: earlier
    /// owners are fenced off. Fails, and leaves the ledger as it was, where another process holds it, a rank has released
    /// more than it has, the job has another definition, or the checkpoint store can't be opened.
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
        let new = new_job(&args.job, plan, key, ranges)?;
        let shards = ranges.iter().zip(0..);
        let shards: Vec<_> = shards
            .map(|(range, shard)| ShardRecord { shard, range: *range, epoch: 0, owner: None })
            .collect();
        if ledger.create_job(&new, &shards)? == Created::Existing {
            ledger.replace_shards(&args.job, ranges)?;
        }
        let epoch = ledger.next_coordinator_epoch()?;
        let job = ledger.job(&args.job)?.ok_or_else(|| anyhow::anyhow!("job {} is gone", args.job))?;
        Ok(Self { ledger, job, epoch, store, store_url, checkpoints_begun: 0 })
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
        let usable: Vec<_> = checkpoints.iter().filter(|checkpoint| self.is_usable(checkpoint)).collect();
        let grant = |shard: ShardRecord| LeaseGrant {
            job: job.job.clone(),
            lineage: job.lineage.clone(),
            shard: shard.shard,
            range: shard.range,
            epoch: shard.epoch,
            dimension: job.dimension,
            plan_digest: job.plan_digest,
            key_commitment: job.key_commitment,
            next_row,
            store_url: self.store_url.clone(),
            pieces: usable.iter().flat_map(|checkpoint| pieces_for(checkpoint, shard.range)).collect(),
        };
        let shards = self.ledger.shards(&job.job)?;
        let grants = shards.into_iter().map(|shard| grant(shard).into()).collect();
        Ok(pb::HeartbeatResponse { coordinator_epoch: self.epoch, grants, ..Default::default() })
    }

    /// Returns whether there is a store to read the checkpoint from and it holds no row of a branch that the job has left.
    fn is_usable(&self, checkpoint: &CheckpointRecord) -> bool {
        let continues =
            |piece: &CheckpointPiece| self.job.lineage.continues(checkpoint.branch, piece.next_row);
        self.has_store() && checkpoint.pieces.iter().all(continues)
    }

    /// Binds a row, durably when it returns. No byte of the row leaves any rank before.
    pub fn bind(&self, row: u64, branch: u64, commitment: Commitment) -> Result<(), LedgerError> {
        let rows = RowRange { start: row, end: row.saturating_add(1) };
        self.ledger.bind(&self.job.job, branch, rows, &[commitment]).map(|_| ())
    }

    /// Returns the number of a checkpoint to write, which was never used before.
    pub fn new_checkpoint(&mut self) -> u64 {
        self.checkpoints_begun += 1;
        self.epoch.saturating_mul(CHECKPOINTS_PER_EPOCH).saturating_add(self.checkpoints_begun)
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
        let record = CheckpointRecord {
            job: self.job.job.clone(),
            id,
            branch: self.job.branch,
            plan_digest: self.job.plan_digest,
            next_row: pieces.iter().map(|piece| piece.next_row).min().unwrap_or(0),
            bytes,
            pieces,
        };
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
        for old in &checkpoints[..checkpoints.len().saturating_sub(CHECKPOINTS_KEPT)] {
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

/// Returns the record of a job that the ledger does not have yet.
fn new_job(job: &JobId, plan: &Plan, key: &JobKey, ranges: &[CoordinateRange]) -> anyhow::Result<JobRecord> {
    Ok(JobRecord {
        job: job.clone(),
        plan_toml: plan.to_toml_string()?,
        plan_digest: plan.digest(),
        dimension: ranges.last().map_or(0, |range| range.end),
        iterations: plan.iterations(),
        mechanism: plan.mechanism().name().to_owned(),
        key_commitment: key.commitment(),
        branch: 0,
        lineage: Lineage::default(),
        shards: ranges.len() as u32,
        layout_epoch: 0,
        state: JobState::Running,
    })
}

/// Returns whether the ledger itself failed, so that nothing more may be bound by it.
pub fn is_fatal(error: &LedgerError) -> bool {
    use LedgerError::*;
    matches!(error, Locked { .. } | Damaged { .. } | Format { .. } | Io { .. } | Stopped { .. })
}

#[cfg(test)]
mod tests;
