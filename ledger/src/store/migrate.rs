//! Migration from format 1 to format 2: commitments get a kind, and every job a chain of events.
//!
//! One durable commit: before it the file is a whole ledger of format 1, after it one of format 2.

use std::path::Path;

use durable_io::fail_point;
use proto::Commitment;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use sha2::{Digest, Sha256};

use crate::{
    JobRecord, JobState, LedgerError, chain,
    chain::event::{BoundRow, Event},
    error::Fail,
    tables::{
        self, BINDINGS, CHECKPOINTS, CURSORS, JOBS, META, META_FORMAT, PLANS, SHARDS,
        branch_cursor::BranchCursor, jobs_table, shards_table,
    },
};

use super::{begin_durable, recording::RecordingTransaction};

/// Format 1: job, branch, row -> commitment.
const OLD_BINDINGS: TableDefinition<(&str, u64, u64), [u8; 32]> = TableDefinition::new("bindings");

/// The most bindings in one event.
const ROWS: usize = 1024;

/// Migrates the ledger. Error: the file is damaged, or the commit failed; the file is unchanged then.
pub fn migrate(db: &Database, path: &Path) -> Result<(), LedgerError> {
    let damaged = |reason: String| LedgerError::Damaged { path: path.to_owned(), reason };
    check_old(db).map_err(|fail| damaged(reason_of(fail)))?;
    let io = |error: redb::Error| LedgerError::Io { path: path.to_owned(), reason: error.to_string() };
    let transaction = begin_durable(db).map_err(io)?;
    move_all(&transaction).map_err(|fail| damaged(reason_of(fail)))?;
    fail_point!("ledger::migrate::before_commit", damaged("a fail point".to_owned()));
    transaction.commit().map_err(|error| io(error.into()))?;
    fail_point!("ledger::migrate::after_commit", damaged("a fail point".to_owned()));
    Ok(())
}

fn reason_of(fail: Fail) -> String {
    match fail {
        Fail::Refused(error) => error.to_string(),
        Fail::Store(error) => error.to_string(),
        Fail::Record(reason) => reason,
    }
}

/// Checks the bindings against their counts, as format 1 had them, so that no damage is carried over.
fn check_old(db: &Database) -> Result<(), Fail> {
    let transaction = db.begin_read().map_err(|error| Fail::Store(error.into()))?;
    let mut walked = std::collections::BTreeMap::<(String, u64), BranchCursor>::new();
    for entry in transaction.open_table(OLD_BINDINGS)?.iter()? {
        let (key, commitment) = entry?;
        let (job, branch, row) = key.value();
        let cursor = walked.entry((job.to_owned(), branch)).or_default();
        cursor.rows_bound += 1;
        cursor.next_row = cursor.next_row.max(row.saturating_add(1));
        let digest = Sha256::new()
            .chain_update(b"rustle binding v1")
            .chain_update((job.len() as u64).to_le_bytes())
            .chain_update(job)
            .chain_update(branch.to_le_bytes())
            .chain_update(row.to_le_bytes())
            .chain_update(commitment.value())
            .finalize();
        cursor.fingerprint.iter_mut().zip(digest).for_each(|(byte, other)| *byte ^= other);
    }
    let mut counted = std::collections::BTreeMap::new();
    for entry in transaction.open_table(CURSORS)?.iter()? {
        let (key, cursor) = entry?;
        counted.insert((key.value().0.to_owned(), key.value().1), BranchCursor::from_stored(cursor.value()));
    }
    if walked == counted {
        Ok(())
    } else {
        Err(Fail::Record("the bindings are not those that were counted when they were made".into()))
    }
}

fn move_all(transaction: &WriteTransaction) -> Result<(), Fail> {
    tables::create_all(transaction)?;
    let names: Vec<String> = {
        let jobs = transaction.open_table(JOBS)?;
        jobs.iter()?
            .map(|entry| Ok(entry?.0.value().to_owned()))
            .collect::<Result<_, redb::StorageError>>()?
    };
    for name in names {
        move_job(&RecordingTransaction::new(transaction, false), &name)?;
    }
    transaction.delete_table(OLD_BINDINGS)?;
    transaction.open_table(META)?.insert(META_FORMAT, tables::FORMAT)?;
    Ok(())
}

fn move_job(transaction: &RecordingTransaction<'_>, name: &str) -> Result<(), Fail> {
    let (record, plan) = {
        let mut table = transaction.open_table(JOBS)?;
        let record: JobRecord = {
            let bytes = table.get(name)?.ok_or_else(|| Fail::Record(format!("job {name} is gone")))?;
            tables::decode(bytes.value())?
        };
        // Written again, so that its lineage is there.
        jobs_table::put(&mut table, &record)?;
        (record.clone(), jobs_table::plan_of(&transaction.open_table(PLANS)?, &record.job)?)
    };
    let job = &record.job;
    let own = shards_table::all_of(&transaction.open_table(SHARDS)?, job)?;
    chain::append(transaction, job, &Event::created(&record, Sha256::digest(plan).into(), &own))?;
    move_bindings(transaction, &record)?;
    let mut listed = Vec::new();
    for entry in transaction.open_table(CHECKPOINTS)?.range((name, 0)..=(name, u64::MAX))? {
        let (key, stored) = entry?;
        listed.push((key.value().1, Sha256::digest(stored.value()).into()));
    }
    for (id, sha256) in listed {
        chain::append(transaction, job, &Event::CheckpointAdded { id, sha256 })?;
    }
    if record.state != JobState::Running {
        chain::append(transaction, job, &Event::StateChanged { state: record.state })?;
    }
    Ok(())
}

/// Converts the bindings. Those older than kinds count as declared: another process can't replay them.
fn move_bindings(transaction: &RecordingTransaction<'_>, record: &JobRecord) -> Result<(), Fail> {
    let name = record.job.as_str();
    let mut old = Vec::new();
    for entry in
        transaction.redb().open_table(OLD_BINDINGS)?.range((name, 0, 0)..=(name, u64::MAX, u64::MAX))?
    {
        let (key, digest) = entry?;
        let (_, branch, row) = key.value();
        if branch != 0 {
            return Err(Fail::Record(format!("job {name} has branch {branch}, which format 1 never had")));
        }
        old.push(BoundRow { row, commitment: Commitment::declared(digest.value()) });
    }
    let mut cursor = BranchCursor::default();
    for rows in old.chunks(ROWS) {
        let mut bindings = transaction.open_table(BINDINGS)?;
        for BoundRow { row, commitment } in rows {
            bindings.insert((name, 0, *row), commitment.to_bytes())?;
            cursor.add(name, 0, *row, &commitment.to_bytes());
        }
        drop(bindings);
        chain::append(transaction, &record.job, &Event::Bound { branch: 0, rows: rows.to_vec() })?;
    }
    if !old.is_empty() {
        transaction.open_table(CURSORS)?.insert((name, 0), cursor.to_stored())?;
    }
    Ok(())
}
