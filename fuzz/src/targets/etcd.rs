//! The ledger's log in etcd: a record from bytes to changes of tables, and a log as a new leader reads it.

mod seeds;
mod tables_in_memory;

use std::sync::LazyLock;

use ledger::{
    Ledger, LedgerError,
    tables::{FORMAT, META, META_FORMAT},
    wire::{
        Fail,
        change::{self, Change},
        log_record::{self, Record},
    },
};
use redb::{Database, ReadableDatabase};
use sha2::{Digest, Sha256};

use crate::{Target, words};
use seeds::{JOB, made, records};
use tables_in_memory::{Disk, open, rows, rows_of};

pub fn targets() -> Vec<Target> {
    vec![
        Target { name: "etcd-record", seeds: records, run: record, slice: 500 },
        Target { name: "etcd-log", seeds: || vec![WHOLE.clone()], run: log, slice: 200 },
    ]
}

/// The whole log: one record per line.
static WHOLE: LazyLock<Vec<u8>> = LazyLock::new(|| records().join(&b'\n'));

/// The tables after the records of the seeds.
static TABLES: LazyLock<Database> = LazyLock::new(|| {
    let tables = Disk::begun().database();
    let transaction = tables.begin_write().expect("tables in memory");
    for record in records() {
        let changes = changes_in(&record).expect("a valid record");
        change::apply(&transaction, changes).expect("valid changes");
    }
    transaction.commit().expect("tables in memory");
    tables
});

/// The ledger as a new leader reads it from that log.
pub(super) static LEDGER: LazyLock<Ledger> = LazyLock::new(|| {
    let disk = Disk::begun();
    replay(&disk, &WHOLE).expect("a valid log");
    open(&disk).expect("a valid ledger")
});

/// Returns the changes in a record; the error says what is there instead.
fn changes_in(record: &[u8]) -> Result<Vec<Change>, String> {
    match serde_json::from_slice(record) {
        Ok(Record::Whole { changes, .. }) => Ok(changes),
        Ok(Record::InParts { .. }) => Err("in parts".into()),
        Err(error) => Err(words(error)),
    }
}

/// A refused record leaves the tables unchanged. An accepted one is the same after being written and read, in one piece
/// or in several, and both times the tables have all of it.
fn record(bytes: &[u8]) -> String {
    let changes = match changes_in(bytes) {
        Ok(changes) => changes,
        Err(instead) => return instead,
    };
    let before = rows_of(&TABLES);
    let transaction = TABLES.begin_write().expect("tables in memory");
    let said = match change::apply(&transaction, changes.clone()) {
        Ok(()) => {
            let encoded = log_record::encode(7, &changes).expect("changes are JSON");
            assert_eq!(
                changes_in(&encoded.record).as_ref(),
                Ok(&changes),
                "another record once it was written"
            );
            in_pieces(bytes, &changes);
            let made = rows(&transaction);
            is_there(&changes, &made);
            change::apply(&transaction, made.clone()).expect("the tables' own rows are changes");
            assert_eq!(rows(&transaction), made, "other tables once they were written");
            if made == before { "nothing new" } else { "taken" }
        }
        Err(Fail::Record(reason)) => {
            assert!(reason.ends_with("this build knows"), "{reason}");
            "none of this build"
        }
        Err(Fail::Store(error)) => panic!("the tables: {error}"),
        Err(Fail::Refused(error)) => panic!("a rule spoke: {error}"),
    };
    transaction.abort().expect("tables in memory");
    assert_eq!(rows_of(&TABLES), before, "a record that was not kept changed the tables");
    said.into()
}

/// Checks that the tables have the last change of each key.
fn is_there(changes: &[Change], made: &[Change]) {
    for (at, Change(table, key, value)) in changes.iter().enumerate() {
        let is_of_it = |change: &Change| change.0 == *table && change.1 == *key;
        if !changes[at + 1..].iter().any(is_of_it) {
            let is_made = made.iter().any(is_of_it);
            assert_eq!(
                is_made,
                value.is_some(),
                "table {table}, key {key}: a change that was taken is not there"
            );
        }
    }
}

/// Checks a record in pieces, as one that is too large for one request is stored.
fn in_pieces(bytes: &[u8], changes: &[Change]) {
    let pieces: Vec<_> = bytes.chunks(bytes.len().div_ceil(3).max(1)).map(<[u8]>::to_vec).collect();
    let digest: [u8; 32] = Sha256::digest(bytes).into();
    let joined = log_record::join(&pieces, pieces.len(), digest);
    assert_eq!(joined.as_deref(), Some(changes), "the joined pieces are another record");
    assert!(
        log_record::join(&pieces[1..], pieces.len(), digest).is_none(),
        "a record with a missing piece was accepted"
    );
    assert!(
        log_record::join(&pieces, pieces.len(), [0; 32]).is_none(),
        "a record with another digest was accepted"
    );
}

/// A log is refused, or all its records are applied in order and without a gap. The seed's own log is applied whole.
fn log(bytes: &[u8]) -> String {
    let said = led(bytes);
    assert!(bytes != *WHOLE || said == "[3, 2]", "a whole log is read as {said}");
    said
}

fn led(log: &[u8]) -> String {
    let disk = Disk::begun();
    if let Err(instead) = replay(&disk, log) {
        return instead;
    }
    match open(&disk) {
        Ok(ledger) => format!("{:?}", [0, 1].map(|branch| is_what_was_made(&ledger, branch))),
        Err(LedgerError::Damaged { reason, .. }) => words(reason),
        Err(error) => words(error),
    }
}

/// Applies all records to new tables, as a new leader does.
fn replay(disk: &Disk, log: &[u8]) -> Result<(), String> {
    let tables = disk.database();
    let transaction = tables.begin_write().expect("tables in memory");
    for record in log.split(|byte| *byte == b'\n') {
        change::apply(&transaction, changes_in(record)?).map_err(|fail| match fail {
            Fail::Record(_) => "none of this build".to_owned(),
            Fail::Store(error) => panic!("the tables: {error}"),
            Fail::Refused(error) => panic!("a rule spoke: {error}"),
        })?;
    }
    transaction.commit().expect("tables in memory");
    let reading = tables.begin_read().expect("tables in memory");
    let meta = reading.open_table(META).expect("a table");
    let format = meta.get(META_FORMAT).expect("a table").map(|format| format.value());
    (format == Some(FORMAT)).then_some(()).ok_or_else(|| "of another format".into())
}

/// Returns the number of bound rows on the branch.
fn is_what_was_made(ledger: &Ledger, branch: u64) -> usize {
    let (job, whole) = made(branch);
    for found in ledger.jobs().expect("a checked ledger") {
        let of =
            |record: &ledger::JobRecord| (record.plan_toml.clone(), record.key_commitment, record.dimension);
        assert_eq!((found.job.as_str(), of(&found)), (JOB, of(&job)), "a job that was not created");
    }
    let bound = ledger.bindings(&job.job, branch, 0..job.iterations).unwrap_or_default();
    assert!(whole.starts_with(&bound), "{bound:?} on branch {branch} was never bound");
    bound.len()
}
