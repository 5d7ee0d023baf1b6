//! Bindings that vanish or change in a file whose checksums all hold: only our own count of them can tell.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::path::Path;

use ledger::{JobRecord, JobState, Ledger, LedgerError, ShardRecord};
use proto::{Commitment, CoordinateRange, JobId, RowRange};
use redb::{Database, TableDefinition};

type Bindings = TableDefinition<'static, (&'static str, u64, u64), [u8; 32]>;
const BINDINGS: Bindings = TableDefinition::new("bindings");

fn ledger_of_five_rows(path: &Path) {
    let job = JobId::new("j").unwrap();
    let record = JobRecord {
        job: job.clone(),
        plan_toml: "mechanism = \"blt\"\n".to_owned(),
        plan_digest: [1; 32],
        dimension: 2_000,
        iterations: 100,
        mechanism: "blt".to_owned(),
        key_commitment: [2; 32],
        branch: 0,
        shards: 1,
        layout_epoch: 0,
        state: JobState::Running,
    };
    let range = CoordinateRange { start: 0, end: 2_000 };
    let ledger = Ledger::open(path).unwrap();
    ledger.create_job(&record, &[ShardRecord { shard: 0, range, epoch: 0, owner: None }]).unwrap();
    ledger.bind(&job, 0, RowRange { start: 0, end: 5 }, &[Commitment::of_text("c"); 5]).unwrap();
}

#[test]
fn bindings_that_were_taken_out_altered_or_put_in_are_missed() {
    type Change = fn(&mut redb::Table<(&'static str, u64, u64), [u8; 32]>);
    let changes: [(&str, Change); 3] = [
        ("taken out", |table| drop(table.remove(("j", 0, 4)).unwrap().unwrap())),
        ("altered", |table| drop(table.insert(("j", 0, 4), [9; 32]).unwrap().unwrap())),
        ("put in", |table| assert!(table.insert(("j", 0, 7), [9; 32]).unwrap().is_none())),
    ];
    for (what, change) in changes {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.redb");
        ledger_of_five_rows(&path);
        let db = Database::open(&path).unwrap();
        let transaction = db.begin_write().unwrap();
        change(&mut transaction.open_table(BINDINGS).unwrap());
        transaction.commit().unwrap();
        drop(db);
        let error = Ledger::open(&path).err().unwrap_or_else(|| panic!("opened with a binding {what}"));
        assert!(matches!(error, LedgerError::Damaged { .. }), "{what}: {error}");
    }
}
