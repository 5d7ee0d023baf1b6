//! The list of complete checkpoints. The objects themselves are in the checkpoint store.

use proto::{CheckpointRecord, JobId, check_pieces, tiling};
use redb::ReadableTable;
use sha2::{Digest, Sha256};

use crate::{
    Ledger, LedgerError, Result, chain,
    chain::event::Event,
    store::Outcome,
    tables::{self, CHECKPOINTS, JOBS, jobs_table},
};

impl Ledger {
    /// Records a checkpoint whose objects are all written. The same record again is no error.
    ///
    /// # Errors
    ///
    /// The pieces do not cover the vector, have names of another checkpoint, or the id has another record.
    pub fn add_checkpoint(&self, record: &CheckpointRecord) -> Result<()> {
        check_pieces(record)?;
        self.store.write("add_checkpoint", |transaction| {
            let job = jobs_table::existing(&transaction.open_table(JOBS)?, &record.job)?;
            if record.plan_digest != job.plan_digest {
                let allowed = format!("{}, the job's", hex::encode(job.plan_digest));
                return Err(
                    LedgerError::invalid("plan_digest", hex::encode(record.plan_digest), allowed).into()
                );
            }
            check_covered(job.dimension, record)?;
            let mut table = transaction.open_table(CHECKPOINTS)?;
            let key = (record.job.as_str(), record.id);
            let existing = table.get(key)?.map(|bytes| tables::decode::<CheckpointRecord>(bytes.value()));
            if let Some(existing) = existing {
                return if existing? == *record {
                    Ok(Outcome::Nothing(()))
                } else {
                    Err(id_in_use(record).into())
                };
            }
            let stored = tables::encode(record)?;
            table.insert(key, stored.as_slice())?;
            let event = Event::CheckpointAdded { id: record.id, sha256: Sha256::digest(&stored).into() };
            chain::append(transaction, &record.job, &event)?;
            Ok(Outcome::Commit(()))
        })
    }

    /// Returns the job's checkpoints, oldest first.
    pub fn checkpoints(&self, job: &JobId) -> Result<Vec<CheckpointRecord>> {
        self.store.read(|transaction| {
            jobs_table::existing(&transaction.open_table(JOBS)?, job)?;
            let table = transaction.open_table(CHECKPOINTS)?;
            let mut records = Vec::new();
            for entry in table.range((job.as_str(), 0)..=(job.as_str(), u64::MAX))? {
                records.push(tables::decode(entry?.1.value())?);
            }
            Ok(records)
        })
    }

    /// Removes a checkpoint's record; a missing one is no error. Delete its objects first: the deletion of a checkpoint
    /// that is still listed is tried again.
    pub fn remove_checkpoint(&self, job: &JobId, id: u64) -> Result<()> {
        self.store.write("remove_checkpoint", |transaction| {
            jobs_table::existing(&transaction.open_table(JOBS)?, job)?;
            let removed = transaction.open_table(CHECKPOINTS)?.remove((job.as_str(), id))?;
            if !removed {
                return Ok(Outcome::Nothing(()));
            }
            chain::append(transaction, job, &Event::CheckpointRemoved { id })?;
            Ok(Outcome::Commit(()))
        })
    }
}

fn id_in_use(record: &CheckpointRecord) -> LedgerError {
    LedgerError::AlreadyExists {
        what: "checkpoint",
        name: format!("{} of job {}", record.id, record.job),
        difference: "its pieces, rows or digests differ".to_owned(),
    }
}

/// Checks that the pieces cover the vector: a checkpoint without some part can't restore a job.
fn check_covered(dimension: u64, record: &CheckpointRecord) -> Result<()> {
    let mut ranges: Vec<_> = record.pieces.iter().map(|piece| piece.range).collect();
    ranges.sort_unstable();
    Ok(tiling::check_ranges(dimension, ranges.into_iter())?)
}
