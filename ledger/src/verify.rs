//! Our own records against each other: what the store's checksums can't know.
//!
//! Each job's branch has a cursor with the number, the end and a fingerprint of its bindings. Walking all bindings
//! must give the same; any difference means that a binding was lost, added or altered.

use std::{collections::BTreeMap, path::Path};

use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable};
use sha2::{Digest, Sha256};

use crate::{
    JobRecord, LedgerError, ShardRecord,
    store::Fail,
    tables::{self, BINDINGS, CHECKPOINTS, CURSORS, JOBS, META, META_FORMAT, SHARDS},
    tiling,
};

/// What a cursor holds.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Cursor {
    pub rows_bound: u64,
    pub next_row: u64,
    /// XOR of a digest of each binding: independent of the order, kept up in constant time. It finds accidents; whoever
    /// can write the file can also write this.
    pub fingerprint: [u8; 32],
}

impl Cursor {
    pub fn from_stored((rows_bound, next_row, fingerprint): (u64, u64, [u8; 32])) -> Self {
        Self { rows_bound, next_row, fingerprint }
    }

    pub fn to_stored(self) -> (u64, u64, [u8; 32]) {
        (self.rows_bound, self.next_row, self.fingerprint)
    }

    pub fn add(&mut self, job: &str, branch: u64, row: u64, commitment: &[u8; 32]) {
        let digest = Sha256::new()
            .chain_update(b"rustle binding v1")
            .chain_update((job.len() as u64).to_le_bytes())
            .chain_update(job)
            .chain_update(branch.to_le_bytes())
            .chain_update(row.to_le_bytes())
            .chain_update(commitment)
            .finalize();
        self.rows_bound += 1;
        self.next_row = self.next_row.max(row.saturating_add(1));
        self.fingerprint.iter_mut().zip(digest).for_each(|(byte, other)| *byte ^= other);
    }
}

pub fn verify(db: &Database, path: &Path) -> Result<(), LedgerError> {
    let damaged = |reason: String| LedgerError::Damaged { path: path.to_owned(), reason };
    let transaction = db.begin_read().map_err(|error| damaged(error.to_string()))?;
    let checked = check_format(&transaction, path)
        .and_then(|()| check_jobs(&transaction))
        .and_then(|()| check_bindings(&transaction))
        .and_then(|()| check_checkpoints(&transaction));
    checked.map_err(|fail| match fail {
        Fail::Refused(error) => error,
        Fail::Store(error) => damaged(error.to_string()),
        Fail::Record(reason) => damaged(reason),
    })
}

fn check_format(transaction: &ReadTransaction, path: &Path) -> Result<(), Fail> {
    let format = transaction.open_table(META)?.get(META_FORMAT)?.map(|value| value.value());
    match format {
        Some(tables::FORMAT) => Ok(()),
        found => Err(Fail::Refused(LedgerError::Format {
            path: path.to_owned(),
            found: found.unwrap_or(0),
            supported: tables::FORMAT,
        })),
    }
}

fn check_jobs(transaction: &ReadTransaction) -> Result<(), Fail> {
    let shards = transaction.open_table(SHARDS)?;
    let plans = transaction.open_table(tables::PLANS)?;
    for entry in transaction.open_table(JOBS)?.iter()? {
        let (name, bytes) = entry?;
        let (name, record) = (name.value(), tables::decode::<JobRecord>(bytes.value())?);
        let mut own: Vec<ShardRecord> = Vec::new();
        for shard in shards.range((name, 0)..=(name, u32::MAX))? {
            own.push(tables::decode(shard?.1.value())?);
        }
        tiling::check(&record, &own)
            .map_err(|error| Fail::Record(format!("the shards of job {name}: {error}")))?;
        if record.job.as_str() != name || plans.get(name)?.is_none() {
            return Err(Fail::Record(format!("job {name} lies under another name, or its plan is missing")));
        }
    }
    Ok(())
}

fn check_bindings(transaction: &ReadTransaction) -> Result<(), Fail> {
    let jobs = transaction.open_table(JOBS)?;
    let mut walked = BTreeMap::<(String, u64), Cursor>::new();
    for entry in transaction.open_table(BINDINGS)?.iter()? {
        let (key, commitment) = entry?;
        let (job, branch, row) = key.value();
        walked.entry((job.to_owned(), branch)).or_default().add(job, branch, row, &commitment.value());
    }
    let mut cursors = BTreeMap::<(String, u64), Cursor>::new();
    for entry in transaction.open_table(CURSORS)?.iter()? {
        let (key, cursor) = entry?;
        let (job, branch) = key.value();
        if jobs.get(job)?.is_none() {
            return Err(Fail::Record(format!("rows are bound for job {job}, which is not there")));
        }
        cursors.insert((job.to_owned(), branch), Cursor::from_stored(cursor.value()));
    }
    if walked != cursors {
        return Err(Fail::Record(
            "the bindings are not those that were counted when they were made".to_owned(),
        ));
    }
    Ok(())
}

fn check_checkpoints(transaction: &ReadTransaction) -> Result<(), Fail> {
    for entry in transaction.open_table(CHECKPOINTS)?.iter()? {
        tables::decode::<crate::CheckpointRecord>(entry?.1.value())?;
    }
    Ok(())
}
