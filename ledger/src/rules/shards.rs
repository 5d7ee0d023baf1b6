//! Shards: the owner of each range, under an epoch that never falls.

use std::collections::BTreeSet;

use proto::{CoordinateRange, JobId, WorkerId, tiling};
use redb::ReadableTable;

use crate::{
    JobState, Ledger, LedgerError, Result, ShardRecord, chain,
    chain::event::Event,
    error::Fail,
    store::Outcome,
    tables::{
        self, JOBS, SHARDS, jobs_table,
        shards_table::{all_of, next_epoch},
    },
};

impl Ledger {
    /// Returns the job's shards in order of their ranges.
    pub fn shards(&self, job: &JobId) -> Result<Vec<ShardRecord>> {
        self.store.read(|transaction| {
            jobs_table::existing(&transaction.open_table(JOBS)?, job)?;
            all_of(&transaction.open_table(SHARDS)?, job)
        })
    }

    /// Assigns shards to workers, or removes their owners, all in one transaction. Each named shard gets a new epoch,
    /// even where the owner stays: a restarted worker must not serve under its own old lease.
    pub fn set_owners(&self, job: &JobId, changes: &[(u32, Option<WorkerId>)]) -> Result<Vec<ShardRecord>> {
        let named: BTreeSet<u32> = changes.iter().map(|(shard, _)| *shard).collect();
        if named.len() != changes.len() {
            return Err(LedgerError::invalid("changes", "a shard named twice", "each shard once"));
        }
        self.store.write("set_owners", |transaction| {
            live_job(&transaction.open_table(JOBS)?, job)?;
            let mut table = transaction.open_table(SHARDS)?;
            let mut shards = all_of(&table, job)?;
            for (shard, owner) in changes {
                let record = shards.iter_mut().find(|record| record.shard == *shard).ok_or_else(|| {
                    LedgerError::NotFound { what: "shard", name: format!("{shard} of job {job}") }
                })?;
                record.epoch = next_epoch(record.epoch)?;
                record.owner = owner.clone();
                table.insert((job.as_str(), *shard), tables::encode(record)?.as_slice())?;
            }
            if changes.is_empty() {
                return Ok(Outcome::Nothing(shards));
            }
            let leased = shards.iter().filter(|record| named.contains(&record.shard)).cloned().collect();
            chain::append(transaction, job, &Event::Leased { shards: leased })?;
            Ok(Outcome::Commit(shards))
        })
    }

    /// Replaces all shards: the ranges become shards 0.., without owners, with epochs above all that the job has had.
    pub fn replace_shards(&self, job: &JobId, ranges: &[CoordinateRange]) -> Result<Vec<ShardRecord>> {
        let count = u32::try_from(ranges.len())
            .map_err(|_| LedgerError::invalid("ranges", ranges.len(), format!("at most {}", u32::MAX)))?;
        self.store.write("replace_shards", |transaction| {
            let mut jobs = transaction.open_table(JOBS)?;
            let mut record = live_job(&jobs, job)?;
            tiling::check_ranges(record.dimension, ranges.iter().copied())?;
            let mut table = transaction.open_table(SHARDS)?;
            let old = all_of(&table, job)?;
            // The highest present epoch is the highest there ever was: each replacement starts above it.
            let epoch = next_epoch(old.iter().map(|shard| shard.epoch).max().unwrap_or(0))?;
            for shard in &old {
                table.remove((job.as_str(), shard.shard))?;
            }
            let new = ranges.iter().zip(0..count);
            let new = new.map(|(range, shard)| ShardRecord { shard, range: *range, epoch, owner: None });
            let new: Vec<ShardRecord> = new.collect();
            for shard in &new {
                table.insert((job.as_str(), shard.shard), tables::encode(shard)?.as_slice())?;
            }
            record.shards = count;
            record.layout_epoch = next_epoch(record.layout_epoch)?;
            jobs_table::put(&mut jobs, &record)?;
            let event = Event::Resharded { layout_epoch: record.layout_epoch, shards: new.clone() };
            chain::append(transaction, job, &event)?;
            Ok(Outcome::Commit(new))
        })
    }
}

/// Returns a job that is not destroyed. Finished jobs still serve what is bound, so that their shards need owners.
fn live_job(
    jobs: &impl ReadableTable<&'static str, &'static [u8]>,
    job: &JobId,
) -> Result<crate::JobRecord, Fail> {
    let record = jobs_table::existing(jobs, job)?;
    match record.state {
        JobState::Destroyed => Err(record.wrong_state("running or finished").into()),
        _ => Ok(record),
    }
}
