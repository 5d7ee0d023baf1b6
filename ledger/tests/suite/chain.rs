//! The chain of events: what happened, in order, and nothing that can be changed unseen.

use ledger::{
    BoundRow, Clock, Entry, Event, JobState, Ledger, LedgerError, Opened, Opening, Principal, Stamp,
};
use proto::CheckpointRecord;
use proto::model::{CheckpointPiece, OpenBranch};
use redb::{Database, ReadableTable, TableDefinition};
use sha2::{Digest, Sha256};

use crate::{Place, commitment, id, nonce, range, rows};

fn event_of(entry: &Entry) -> Event {
    serde_json::from_str(&Stamp::split(&entry.event).unwrap().1).unwrap()
}

/// Returns an event of every kind.
fn eventful(ledger: &Ledger) {
    let job = id("j");
    ledger.bind(&job, 0, rows(0, 3), &[commitment("a"), commitment("b"), commitment("c")]).unwrap();
    ledger.bind(&job, 0, rows(2, 5), &[commitment("c"), commitment("d"), commitment("e")]).unwrap();
    ledger.set_owners(&job, &[(0, Some(proto::WorkerId::new("w").unwrap()))]).unwrap();
    let piece = |id: u64| CheckpointPiece {
        object: format!("j/{id}/0-2000.shard"),
        range: range(0, 2000),
        next_row: 4,
        sha256: [7; 32],
    };
    let checkpoint = |id| CheckpointRecord {
        job: job.clone(),
        id,
        branch: 0,
        plan_digest: [1; 32],
        next_row: 4,
        bytes: 10,
        pieces: vec![piece(id)],
    };
    ledger.add_checkpoint(&checkpoint(7)).unwrap();
    ledger.add_checkpoint(&checkpoint(8)).unwrap();
    ledger.remove_checkpoint(&job, 7).unwrap();
    let rewind = OpenBranch { job: job.clone(), from_row: 2, expected_branch: 0, parent: None };
    ledger.open_branch(&rewind, nonce(1)).unwrap();
    ledger.replace_shards(&job, &[range(0, 2000)]).unwrap();
    ledger.set_job_state(&job, JobState::Finished).unwrap();
    ledger.set_job_state(&job, JobState::Destroyed).unwrap();
}

#[test]
fn every_event_is_in_the_chain_and_anyone_can_check_it() {
    let place = Place::new();
    let ledger = place.with_job();
    eventful(&ledger);
    let head = ledger.head(&id("j")).unwrap();
    drop(ledger);
    let ledger = place.open();
    assert_eq!(ledger.head(&id("j")).unwrap(), head);
    let entries = ledger.entries(&id("j"), 0, 1000, usize::MAX).unwrap();
    let mut hash: [u8; 32] = Sha256::digest("j").into();
    for (index, entry) in (0u64..).zip(&entries) {
        assert_eq!((entry.index, entry.previous), (index, hash));
        hash = Sha256::new()
            .chain_update("rustle ledger entry v1")
            .chain_update(hash)
            .chain_update(index.to_le_bytes())
            .chain_update(&entry.event)
            .finalize()
            .into();
        assert_eq!(entry.hash, hash);
    }
    assert_eq!((head.entries, head.hash), (entries.len() as u64, hash));
    let events: Vec<Event> = entries.iter().map(event_of).collect();
    let row = |row, text: &str| BoundRow { row, commitment: commitment(text) };
    assert!(matches!(events[0], Event::Created { dimension: 2000, .. }));
    assert_eq!(events[1], Event::Bound { branch: 0, rows: vec![row(0, "a"), row(1, "b"), row(2, "c")] });
    assert_eq!(events[2], Event::Bound { branch: 0, rows: vec![row(3, "d"), row(4, "e")] });
    assert!(matches!(&events[3], Event::Leased { shards } if shards.len() == 1));
    assert!(matches!(
        events[4..7],
        [
            Event::CheckpointAdded { id: 7, .. },
            Event::CheckpointAdded { id: 8, .. },
            Event::CheckpointRemoved { id: 7 }
        ]
    ));
    assert!(matches!(events[7], Event::BranchOpened { branch: 1, parent: 0, from_row: 2, .. }));
    assert!(matches!(events[8], Event::Resharded { layout_epoch: 1, .. }));
    assert_eq!(events[9], Event::StateChanged { state: JobState::Finished });
    assert_eq!(events[10], Event::StateChanged { state: JobState::Destroyed });
    assert_eq!(events.len(), 11);
    // A page begins where the one before ended.
    assert_eq!(ledger.entries(&id("j"), 4, 3, usize::MAX).unwrap(), entries[4..7]);
    assert_eq!(ledger.entries(&id("j"), 11, 3, usize::MAX).unwrap(), []);
    assert_eq!(ledger.entries(&id("j"), 99, 3, usize::MAX).unwrap(), []);
    let two = entries[4].event.len() + entries[5].event.len();
    for (bytes, whole) in [(0, 1), (two - 1, 1), (two, 2), (usize::MAX, 7)] {
        assert_eq!(ledger.entries(&id("j"), 4, 99, bytes).unwrap(), entries[4..4 + whole], "{bytes} bytes");
    }
}

/// Each call is recorded under its own principal, also where several share a commit, and by the clock of its ledger.
#[test]
fn entries_say_who_made_them_and_when() {
    let place = Place::new();
    let ledger = place.with_job().with_clock(Clock::new(|| 1_790_000_000_000));
    let stamps = |ledger: &Ledger| -> Vec<(String, u64)> {
        let entries = ledger.entries(&id("j"), 1, 1000, usize::MAX).unwrap();
        let stamps = entries.iter().map(|entry| Stamp::split(&entry.event).unwrap().0);
        stamps.map(|stamp| (stamp.by.to_string(), stamp.at_ms)).collect()
    };
    let trainers: Vec<Principal> = (0..16).map(|n| Principal::new(&format!("trainer token:{n}"))).collect();
    std::thread::scope(|scope| {
        for (row, trainer) in (0u64..).zip(&trainers) {
            let ledger = ledger.acting_as(trainer.clone());
            scope.spawn(move || ledger.bind(&id("j"), 0, rows(row, row + 1), &[commitment("x")]).unwrap());
        }
    });
    let entries = ledger.entries(&id("j"), 1, 1000, usize::MAX).unwrap();
    assert_eq!(entries.len(), 16);
    for entry in &entries {
        let Event::Bound { rows, .. } = event_of(entry) else { panic!("{}", entry.event) };
        let by = Stamp::split(&entry.event).unwrap().0.by;
        assert_eq!(by, trainers[rows[0].row as usize], "row {}", rows[0].row);
    }
    let operator_name = Principal::new("operator spiffe://here/rustle/operator");
    let operator = ledger.acting_as(operator_name.clone());
    let rewind = OpenBranch { job: id("j"), from_row: 2, expected_branch: 0, parent: None };
    operator.open_branch(&rewind, nonce(1)).unwrap();
    ledger.set_job_state(&id("j"), JobState::Finished).unwrap();
    let found = stamps(&ledger);
    assert!(found.iter().all(|(_, at_ms)| *at_ms == 1_790_000_000_000), "{found:?}");
    assert_eq!(found[16].0, "operator spiffe://here/rustle/operator");
    assert_eq!(found[17].0, "local");
    let openings = ledger.openings(&id("j")).unwrap();
    assert_eq!(openings[0].of, Opened::Created);
    let opened =
        Opening { of: Opened::BranchOpened { branch: 1 }, by: operator_name, at_ms: 1_790_000_000_000 };
    assert_eq!(openings[1..], [opened]);
    drop((ledger, operator));
    assert_eq!(stamps(&place.open()), found, "another opening reads the same");
}

#[test]
fn what_changes_nothing_adds_nothing() {
    let place = Place::new();
    let ledger = place.with_job();
    let bind = |text: &str| ledger.bind(&id("j"), 0, rows(0, 1), &[commitment(text)]);
    bind("a").unwrap();
    let head = ledger.head(&id("j")).unwrap();
    bind("a").unwrap();
    bind("b").unwrap_err();
    ledger.create_job(&crate::job("j"), &crate::two_shards()).unwrap();
    ledger.set_job_state(&id("j"), JobState::Running).unwrap();
    assert_eq!(ledger.head(&id("j")).unwrap(), head);
}

const BINDINGS: TableDefinition<(&str, u64, u64), [u8; 33]> = TableDefinition::new("commitments");
const CURSORS: TableDefinition<(&str, u64), (u64, u64, [u8; 32])> = TableDefinition::new("cursors");
const BRANCHES: TableDefinition<(&str, u64), (u64, u64, [u8; 32])> = TableDefinition::new("branches");
const ENTRIES: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("entries");
const HEADS: TableDefinition<&str, (u64, [u8; 32])> = TableDefinition::new("heads");
const JOBS: TableDefinition<&str, &[u8]> = TableDefinition::new("jobs");
const PLANS: TableDefinition<&str, &str> = TableDefinition::new("plans");
const SHARDS: TableDefinition<(&str, u32), &[u8]> = TableDefinition::new("shards");
const CHECKPOINTS: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("checkpoints");

type Change = fn(&redb::WriteTransaction);

/// Someone edits the file with a tool that keeps its checksums right.
#[test]
fn an_edited_record_is_found_whichever_it_is() {
    let edits: [(&str, Change); 15] = [
        ("a commitment", |t| {
            t.open_table(BINDINGS).unwrap().insert(("j", 0, 1), [1; 33]).unwrap();
        }),
        ("a binding taken out", |t| {
            t.open_table(BINDINGS).unwrap().remove(("j", 0, 4)).unwrap();
        }),
        ("a binding and its count taken out", |t| {
            t.open_table(BINDINGS).unwrap().retain(|_, _| false).unwrap();
            t.open_table(CURSORS).unwrap().retain(|_, _| false).unwrap();
        }),
        ("a count", |t| {
            t.open_table(CURSORS).unwrap().insert(("j", 0), (5, 4, [0; 32])).unwrap();
        }),
        ("a branch's first row", |t| {
            t.open_table(BRANCHES).unwrap().insert(("j", 1), (0, 3, *nonce(1).as_bytes())).unwrap();
        }),
        ("a branch's nonce", |t| {
            t.open_table(BRANCHES).unwrap().insert(("j", 1), (0, 2, *nonce(2).as_bytes())).unwrap();
        }),
        ("a job's nonce", |t| {
            let mut jobs = t.open_table(JOBS).unwrap();
            let text = String::from_utf8(jobs.get("j").unwrap().unwrap().value().to_vec()).unwrap();
            let edited = text.replace(&nonce(0).to_string(), &nonce(3).to_string());
            assert_ne!(text, edited);
            jobs.insert("j", edited.as_bytes()).unwrap();
        }),
        ("the last entry taken out", |t| {
            t.open_table(ENTRIES).unwrap().pop_last().unwrap();
        }),
        ("the last entry and the head", |t| {
            let mut entries = t.open_table(ENTRIES).unwrap();
            entries.pop_last().unwrap();
            let (index, hash) = {
                let (key, stored) = entries.last().unwrap().unwrap();
                (key.value().1, stored.value()[..32].try_into().unwrap())
            };
            t.open_table(HEADS).unwrap().insert("j", (index + 1, hash)).unwrap();
        }),
        ("an entry in the middle", |t| {
            let mut entries = t.open_table(ENTRIES).unwrap();
            let stored = entries.get(("j", 1)).unwrap().unwrap().value().to_vec();
            let (hash, event) = stored.split_at(32);
            let event = std::str::from_utf8(event).unwrap().replace("[0,", "[9,");
            entries.insert(("j", 1), [hash, event.as_bytes()].concat().as_slice()).unwrap();
        }),
        ("who made an entry", |t| {
            let mut entries = t.open_table(ENTRIES).unwrap();
            let stored = entries.get(("j", 1)).unwrap().unwrap().value().to_vec();
            let (hash, event) = stored.split_at(32);
            let event = std::str::from_utf8(event).unwrap().replace("local", "lokal");
            entries.insert(("j", 1), [hash, event.as_bytes()].concat().as_slice()).unwrap();
        }),
        ("a job's state", |t| {
            let mut jobs = t.open_table(JOBS).unwrap();
            let text = String::from_utf8(jobs.get("j").unwrap().unwrap().value().to_vec()).unwrap();
            jobs.insert("j", text.replace("destroyed", "running").as_bytes()).unwrap();
        }),
        ("a plan", |t| {
            t.open_table(PLANS).unwrap().insert("j", "mechanism = \"tree\"\n").unwrap();
        }),
        ("an epoch", |t| {
            let mut shards = t.open_table(SHARDS).unwrap();
            let text = String::from_utf8(shards.get(("j", 0)).unwrap().unwrap().value().to_vec()).unwrap();
            let edited = text.replace("\"epoch\":", "\"epoch\":1");
            shards.insert(("j", 0), edited.as_bytes()).unwrap();
        }),
        ("a checkpoint", |t| {
            t.open_table(CHECKPOINTS).unwrap().pop_last().unwrap();
        }),
    ];
    let place = Place::new();
    eventful(&place.with_job());
    let whole = std::fs::read(place.path()).unwrap();
    for (what, edit) in edits {
        std::fs::write(place.path(), &whole).unwrap();
        {
            let db = Database::open(place.path()).unwrap();
            let transaction = db.begin_write().unwrap();
            edit(&transaction);
            transaction.commit().unwrap();
        }
        let error = Ledger::open(&place.path()).err().unwrap_or_else(|| panic!("{what} was not found"));
        assert!(matches!(error, LedgerError::Damaged { .. }), "{what}: {error}");
    }
}
