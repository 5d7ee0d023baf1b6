//! Jobs: created once, under one definition, then finished and destroyed.

use proto::{JobId, Lineage, Nonce};
use redb::ReadableTable;
use sha2::{Digest, Sha256};

use crate::{
    Created, JobRecord, JobState, Ledger, LedgerError, Result, ShardRecord, chain,
    chain::event::Event,
    data_set::Reservation,
    store::Outcome,
    tables::{
        self, IDENTITY, JOBS, META, META_EPOCH, PLANS, SHARDS,
        jobs_table::{existing, find, plan_of, put},
    },
};

use super::{adoptions, charges, coverage};

impl Ledger {
    /// Returns the ledger's id: random, and drawn when the ledger was begun, or when a copy of one was adopted.
    pub fn id(&self) -> Result<Nonce> {
        self.store.read(|transaction| tables::current_id(&transaction.open_table(IDENTITY)?))
    }

    /// Returns a number above those of all earlier coordinators on this ledger: workers refuse lower ones.
    pub fn next_coordinator_epoch(&self) -> Result<u64> {
        self.store.write("next_epoch", |transaction| {
            let mut meta = transaction.open_table(META)?;
            let epoch = meta.get(META_EPOCH)?.map_or(0, |value| value.value()) + 1;
            meta.insert(META_EPOCH, epoch)?;
            Ok(Outcome::Commit(epoch))
        })
    }

    /// Returns the number of the latest coordinator on this ledger; 0 before the first one.
    pub fn coordinator_epoch(&self) -> Result<u64> {
        self.store.read(|transaction| {
            Ok(transaction.open_table(META)?.get(META_EPOCH)?.map_or(0, |value| value.value()))
        })
    }

    /// Creates a running job with its shards, under the nonce of its record. The same definition again is no error, and
    /// the job keeps the nonce that it was created with; a destroyed job's name stays in use.
    pub fn create_job(&self, job: &JobRecord, shards: &[ShardRecord]) -> Result<Created> {
        self.create_charged_job(job, shards, None)
    }

    /// Creates a job as [`Ledger::create_job`] does, and reserves its whole plan in a data set.
    ///
    /// # Errors
    /// [`LedgerError::DataSetChanged`] where the reservation was decided on an earlier state: decide again.
    pub fn create_charged_job(
        &self,
        job: &JobRecord,
        shards: &[ShardRecord],
        reservation: Option<&Reservation>,
    ) -> Result<Created> {
        if job.state != JobState::Running {
            return Err(LedgerError::invalid("state", job.state, "running, the state of a new job"));
        }
        if job.branch != 0 || job.lineage != Lineage::of_job(job.nonce) {
            let allowed = "branch 0 alone, under the job's nonce, as of a new job";
            return Err(LedgerError::invalid("lineage", &job.lineage, allowed));
        }
        coverage::check(job, shards)?;
        self.store.write("create_job", |transaction| {
            let mut jobs = transaction.open_table(JOBS)?;
            if let Some(existing) = find(&jobs, &job.job)? {
                same_definition(&existing, job)?;
                charges::check_same(transaction, &job.job, reservation)?;
                return Ok(Outcome::Nothing(Created::Existing));
            }
            self.copies.check()?;
            put(&mut jobs, job)?;
            transaction.open_table(PLANS)?.insert(job.job.as_str(), job.plan_toml.as_str())?;
            let mut table = transaction.open_table(SHARDS)?;
            for shard in shards {
                table.insert((job.job.as_str(), shard.shard), tables::encode(shard)?.as_slice())?;
            }
            let plan_sha256 = Sha256::digest(&job.plan_toml).into();
            let ledger = tables::ledger_id(&transaction.redb().open_table(IDENTITY)?)?;
            chain::append(transaction, &job.job, &Event::created(ledger, job, plan_sha256, shards))?;
            if let Some(reservation) = reservation {
                charges::reserve(transaction, job, reservation)?;
            }
            Ok(Outcome::Commit(Created::New))
        })
    }

    /// Returns the job; `None` where no job has this name.
    pub fn job(&self, job: &JobId) -> Result<Option<JobRecord>> {
        self.store.read(|transaction| {
            let Some(mut record) = find(&transaction.open_table(JOBS)?, job)? else { return Ok(None) };
            record.plan_toml = plan_of(&transaction.open_table(PLANS)?, job)?;
            Ok(Some(record))
        })
    }

    /// Returns all jobs, in order of their names.
    pub fn jobs(&self) -> Result<Vec<JobRecord>> {
        self.store.read(|transaction| {
            let plans = transaction.open_table(PLANS)?;
            let mut records = Vec::new();
            for entry in transaction.open_table(JOBS)?.iter()? {
                let mut record: JobRecord = tables::decode(entry?.1.value())?;
                record.plan_toml = plan_of(&plans, &record.job)?;
                records.push(record);
            }
            Ok(records)
        })
    }

    /// Changes the job's state: from running to finished to destroyed, never back.
    pub fn set_job_state(&self, job: &JobId, state: JobState) -> Result<JobRecord> {
        self.end_job(job, state, false)
    }

    /// Changes the job's state, and settles its charge. `keeps_charge` says that rows may have been released that this
    /// ledger does not know: then nothing is given back.
    pub fn end_job(&self, job: &JobId, state: JobState, keeps_charge: bool) -> Result<JobRecord> {
        self.store.write("set_job_state", |transaction| {
            let mut jobs = transaction.open_table(JOBS)?;
            let mut record = existing(&jobs, job)?;
            record.plan_toml = plan_of(&transaction.open_table(PLANS)?, job)?;
            if record.state == state {
                return Ok(Outcome::Nothing(record));
            }
            let allowed = match record.state {
                JobState::Running => "finish or destroy it",
                JobState::Finished if state == JobState::Destroyed => "destroy it",
                JobState::Finished => "destroy it; a finished job does not run again",
                JobState::Destroyed => "nothing; a destroyed job stays destroyed",
            };
            if (record.state as u8) > (state as u8) {
                return Err(record.wrong_state(allowed).into());
            }
            record.state = state;
            put(&mut jobs, &record)?;
            chain::append(transaction, job, &Event::StateChanged { state })?;
            // A copy may lack rows that were released, before and after its adoption.
            let keeps_charge =
                keeps_charge || self.copied().is_some() || adoptions::is_adopted(transaction, job)?;
            charges::settle(transaction, job, keeps_charge)?;
            Ok(Outcome::Commit(record))
        })
    }
}

/// Checks that two records define the same job. The plan's digest covers all of its meaning but the layout; shards and
/// epochs may have changed since, and are not part of the definition.
fn same_definition(existing: &JobRecord, requested: &JobRecord) -> Result<()> {
    let hex = |digest: &[u8; 32]| hex::encode(digest);
    let pairs = [
        ("plan digest", hex(&existing.plan_digest), hex(&requested.plan_digest)),
        ("layout digest", hex(&existing.layout_digest), hex(&requested.layout_digest)),
        ("dimension", existing.dimension.to_string(), requested.dimension.to_string()),
        ("iterations", existing.iterations.to_string(), requested.iterations.to_string()),
        ("mechanism", existing.mechanism.clone(), requested.mechanism.clone()),
        ("key commitment", hex(&existing.key_commitment), hex(&requested.key_commitment)),
    ];
    if let Some((what, old, new)) = pairs.iter().find(|(_, old, new)| old != new) {
        return Err(LedgerError::AlreadyExists {
            what: "job",
            name: existing.job.to_string(),
            difference: format!("{what} is {old}, requested {new}"),
        });
    }
    match existing.state {
        JobState::Destroyed => Err(existing.wrong_state("a job of another name")),
        _ => Ok(()),
    }
}
