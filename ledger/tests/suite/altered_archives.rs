//! An archive that was altered, moved or made up is refused as damage, by anyone who keeps the file's checksums right.

use std::fs;

use ledger::{Clock, Head, JobState, Ledger, LedgerError, LedgerFile};
use proto::model::OpenBranch;
use redb::{Database, ReadableTable, TableDefinition, WriteTransaction};

use crate::{Place, commitment, id, job, nonce, rows, two_shards};

const ENTRIES: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("entries");
const HEADS: TableDefinition<&str, (u64, [u8; 32])> = TableDefinition::new("heads");
const JOBS: TableDefinition<&str, &[u8]> = TableDefinition::new("jobs");
const BINDINGS: TableDefinition<(&str, u64, u64), [u8; 33]> = TableDefinition::new("commitments");

/// `j` is archived, `k` runs.
fn place() -> Place {
    let place = Place::new();
    let ledger = place.with_job().with_clock(Clock::new(|| 7));
    ledger.create_job(&job("k"), &two_shards()).unwrap();
    for name in ["j", "k"] {
        ledger.bind(&id(name), 0, rows(0, 3), &["a", "b", "c"].map(commitment)).unwrap();
        ledger.bind(&id(name), 0, rows(5, 6), &[commitment("f")]).unwrap();
    }
    let rewind = OpenBranch { job: id("j"), from_row: 2, expected_branch: 0, parent: None };
    ledger.open_branch(&rewind, nonce(1)).unwrap();
    ledger.set_job_state(&id("j"), JobState::Destroyed).unwrap();
    ledger.archive_destroyed().unwrap();
    place
}

fn edit(place: &Place, change: impl FnOnce(&WriteTransaction)) {
    let db = Database::open(place.path()).unwrap();
    let transaction = db.begin_write().unwrap();
    change(&transaction);
    transaction.commit().unwrap();
}

/// Replaces a text in the archive, hashes it anew, and says so in the table of heads.
fn alter(transaction: &WriteTransaction, old: &str, new: &str) {
    let mut entries = transaction.open_table(ENTRIES).unwrap();
    let (index, stored) = {
        let (key, stored) = entries.range(("j", 0)..=("j", u64::MAX)).unwrap().next().unwrap().unwrap();
        (key.value().1, stored.value()[32..].to_vec())
    };
    let text = String::from_utf8(stored).unwrap();
    assert!(text.contains(old), "{text}");
    let altered = text.replacen(old, new, 1);
    let archive: serde_json::Value = serde_json::from_str(&altered).unwrap();
    let before = Head {
        entries: archive["entries"].as_u64().unwrap(),
        hash: hex::decode(archive["head"].as_str().unwrap()).unwrap().try_into().unwrap(),
    };
    let after = before.next(altered.as_bytes());
    let stored = [&after.hash[..], altered.as_bytes()].concat();
    entries.insert(("j", index), stored.as_slice()).unwrap();
    transaction.open_table(HEADS).unwrap().insert("j", (after.entries, after.hash)).unwrap();
}

fn assert_refused(place: &Place, what: &str) {
    let bytes = fs::read(place.path()).unwrap();
    let error = Ledger::open(&place.path()).err().unwrap_or_else(|| panic!("opened: {what}"));
    assert!(matches!(error, LedgerError::Damaged { .. }), "{what}: {error}");
    assert!(fs::read(place.path()).unwrap() == bytes, "{what}: the file was changed");
    assert!(LedgerFile::read(&place.path()).unwrap().verify().unwrap().is_some(), "{what}");
}

#[test]
fn an_archive_that_disagrees_with_the_tables_or_with_itself_is_refused() {
    let altered = [
        // Counts, which the table of counts has too.
        (r#""rows_bound":4"#, r#""rows_bound":3"#),
        (r#""next_row":6"#, r#""next_row":7"#),
        // Rows, of which a report would then leave one out, or name another.
        (r#""released":[[0,3],[5,6]]"#, r#""released":[[0,2],[5,6]]"#),
        (r#""released":[[0,3],[5,6]]"#, r#""released":[[0,4]]"#),
        (r#""released":[[0,3],[5,6]]"#, r#""released":[[0,3],[2,3]]"#),
        (r#""from_row":2"#, r#""from_row":1"#),
        (r#""parent":0"#, r#""parent":1"#),
        (r#""layout_epoch":0"#, r#""layout_epoch":1"#),
        (r#"\"dimension\":2000"#, r#"\"dimension\":2001"#),
        (r#"\"event\":\"created\""#, r#"\"event\":\"creating\""#),
        (r#""epoch":1"#, r#""epoch":2"#),
        (r#""event":"archived""#, r#""event":"adopted""#),
        (r#""entries":5"#, r#""entries":4"#),
        // Openings, which the entries that are gone had.
        (
            r#""began":{"event":"branch_opened","branch":1}"#,
            r#""began":{"event":"branch_opened","branch":2}"#,
        ),
        (r#""began":{"event":"branch_opened","branch":1}"#, r#""began":{"event":"created"}"#),
        (r#""openings":[{"entry":3,"#, r#""openings":[{"entry":5,"#),
        (r#""by":"local","at_ms":7,"began""#, r#""by":" local","at_ms":7,"began""#),
    ];
    for (old, new) in altered {
        let place = place();
        edit(&place, |transaction| alter(transaction, old, new));
        assert_refused(&place, new);
    }
}

#[test]
fn openings_of_an_archive_name_every_branch() {
    let place = place();
    edit(&place, |transaction| {
        let openings = {
            let entries = transaction.open_table(ENTRIES).unwrap();
            let stored = entries.get(("j", 5)).unwrap().unwrap().value().to_vec();
            let text = String::from_utf8(stored[32..].to_vec()).unwrap();
            text[text.find(r#""openings":"#).unwrap()..].to_owned()
        };
        alter(transaction, &openings, r#""openings":[]}"#);
    });
    assert_refused(&place, "without openings");
}

#[test]
fn what_an_archive_stands_for_can_neither_be_less_nor_come_back() {
    type Edit = (&'static str, fn(&WriteTransaction));
    let edits: [Edit; 6] = [
        ("without its archive", |transaction| {
            transaction.open_table(ENTRIES).unwrap().remove(("j", 5)).unwrap();
        }),
        ("bound again", |transaction| {
            transaction.open_table(BINDINGS).unwrap().insert(("j", 1, 7), [1; 33]).unwrap();
        }),
        ("destroyed no more", |transaction| {
            let mut jobs = transaction.open_table(JOBS).unwrap();
            let record = String::from_utf8(jobs.get("j").unwrap().unwrap().value().to_vec()).unwrap();
            let running = record.replace("destroyed", "running");
            assert_ne!(record, running);
            jobs.insert("j", running.as_bytes()).unwrap();
        }),
        ("gone", |transaction| {
            transaction.open_table(JOBS).unwrap().remove("j").unwrap();
        }),
        ("the archive of another job", |transaction| {
            let mut entries = transaction.open_table(ENTRIES).unwrap();
            let archive = entries.get(("j", 5)).unwrap().unwrap().value().to_vec();
            entries.retain(|(chain, _), _| chain != "k").unwrap();
            entries.insert(("k", 5), archive.as_slice()).unwrap();
            let mut heads = transaction.open_table(HEADS).unwrap();
            let head = heads.get("j").unwrap().unwrap().value();
            heads.insert("k", head).unwrap();
            transaction.open_table(BINDINGS).unwrap().retain(|(job, ..), _| job != "k").unwrap();
        }),
        ("a chain cut at its front without an archive", |transaction| {
            transaction.open_table(ENTRIES).unwrap().remove(("k", 0)).unwrap();
        }),
    ];
    for (what, change) in edits {
        let place = place();
        edit(&place, change);
        assert_refused(&place, what);
    }
}
