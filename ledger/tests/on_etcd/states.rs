//! States in the place of the log's records: the ledger is the same, and etcd's room is enough for what it has.

use std::{env, fs, process::Command, time::Duration};

use ledger::{
    Archives, Clock, Head, JobState, Ledger, LedgerError,
    etcd::{Election, EtcdConfig},
};
use proto::{
    CheckpointRecord, RowRange, WorkerId,
    model::{CheckpointPiece, OpenBranch},
    piece_object,
};

use crate::{
    LEASE, Place, commitment, elected, etcd::Etcd, etcdctl, id, job, nonce, range, rows, two_shards,
};

/// Few, so that a state takes the place of every handful of records.
const LOG_BYTES: u64 = 20_000;

fn open(place: &Place) -> Ledger {
    lead(&place.config()).unwrap()
}

fn lead(config: &EtcdConfig) -> Result<Ledger, LedgerError> {
    Ledger::lead_within(elected(&Election::connect(config).unwrap()), LOG_BYTES)
}

fn checkpoint(number: u64, pieces: u64) -> CheckpointRecord {
    let piece = |index| {
        let range = range(index * 2000 / pieces, (index + 1) * 2000 / pieces);
        CheckpointPiece { object: piece_object(&id("j"), number, range), range, next_row: 5, sha256: [3; 32] }
    };
    CheckpointRecord {
        job: id("j"),
        id: number,
        branch: 0,
        plan_digest: [1; 32],
        next_row: 5,
        bytes: 99,
        pieces: (0..pieces).map(piece).collect(),
    }
}

/// Rows, leases, checkpoints and a rewind, by a ledger that is opened anew now and then.
fn life(mut ledger: impl FnMut() -> Ledger) -> Ledger {
    let j = id("j");
    let mut open = ledger();
    open.create_job(&job("j"), &two_shards()).unwrap();
    for round in 0..40u64 {
        if round % 13 == 12 {
            drop(open);
            open = ledger();
        }
        let row = rows(round, round + 1);
        open.bind(&j, u64::from(round > 20), row, &[commitment(&round.to_string())]).unwrap();
        open.set_owners(&j, &[(0, Some(WorkerId::new("w").unwrap()))]).unwrap();
        open.add_checkpoint(&checkpoint(round, 8)).unwrap();
        if round > 1 {
            open.remove_checkpoint(&j, round - 2).unwrap();
        }
        if round == 20 {
            let rewind = OpenBranch { job: j.clone(), from_row: 15, expected_branch: 0, parent: None };
            open.open_branch(&rewind, nonce(1)).unwrap();
        }
    }
    open.next_coordinator_epoch().unwrap();
    drop(open);
    ledger()
}

fn keys(place: &Place, of: &str) -> usize {
    let keys = etcdctl(&["get", "--prefix", "--keys-only", &place.key(of)]);
    keys.lines().filter(|line| !line.is_empty()).count()
}

#[test]
fn a_ledger_read_from_a_state_is_the_same_as_one_in_a_file() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.redb");
    let clock = Clock::new(|| 1_790_000_000_000);
    let in_etcd = open(&place);
    Ledger::init(&path, in_etcd.id().unwrap()).unwrap();
    drop(in_etcd);
    let in_etcd = life(|| open(&place).with_clock(clock.clone()));
    let file = life(|| Ledger::open(&path).unwrap().with_clock(clock.clone()));
    let j = id("j");
    assert_eq!(in_etcd.jobs().unwrap(), file.jobs().unwrap());
    assert_eq!(in_etcd.shards(&j).unwrap(), file.shards(&j).unwrap());
    assert_eq!(in_etcd.released(&j).unwrap(), file.released(&j).unwrap());
    assert_eq!(in_etcd.checkpoints(&j).unwrap(), file.checkpoints(&j).unwrap());
    assert_eq!(in_etcd.coordinator_epoch().unwrap(), file.coordinator_epoch().unwrap());
    for branch in 0..2 {
        assert_eq!(in_etcd.bindings(&j, branch, 0..99).unwrap(), file.bindings(&j, branch, 0..99).unwrap());
    }
    assert_eq!(
        in_etcd.entries(&j, 0, 999, usize::MAX).unwrap(),
        file.entries(&j, 0, 999, usize::MAX).unwrap()
    );
    // What has a state in its place is there no more.
    let records = keys(&place, "log/");
    assert!(records < 100, "{records} records");
    assert_eq!(keys(&place, "state"), 1);
    // And what was bound stays bound.
    let other = in_etcd.bind(&j, 1, rows(3, 4), &[commitment("other")]).unwrap_err();
    assert!(matches!(other, LedgerError::AlreadyBound { .. }), "{other}");
}

#[test]
fn what_was_left_half_written_is_removed_and_what_is_altered_is_refused() {
    let place = Place::new();
    drop(life(|| open(&place)));
    let pieces = || etcdctl(&["get", "--prefix", "--keys-only", &place.key("piece/")]);
    let piece = pieces().lines().next().unwrap().to_owned();
    // As a leader leaves it that ends before its state is whole.
    etcdctl(&["put", &place.key("piece/00000000000000009999/1/00000000"), "[]"]);
    etcdctl(&["put", &place.key("piece/00000000000000000001/1/00000000"), "[]"]);
    drop(open(&place));
    assert_eq!(pieces().lines().filter(|line| !line.is_empty()).count(), 1);
    let text = etcdctl(&["get", "--print-value-only", &piece]);
    let text = text.strip_suffix('\n').unwrap();
    let state = etcdctl(&["get", "--print-value-only", &place.key("state")]);
    let state = state.trim();
    let refused = |what: &str| {
        let error = lead(&place.config()).err().unwrap_or_else(|| panic!("opened: {what}"));
        assert!(matches!(error, LedgerError::Damaged { .. }), "{what}: {error}");
    };
    let altered = text.replacen(r#"next_row\":5"#, r#"next_row\":6"#, 1);
    assert_ne!(altered, text);
    etcdctl(&["put", &piece, &altered]);
    refused("an altered piece");
    etcdctl(&["del", &piece]);
    refused("without a piece");
    etcdctl(&["put", &piece, text]);
    drop(open(&place));
    etcdctl(&["put", &place.key("state"), &state.replace("\"pieces\":1", "\"pieces\":2")]);
    refused("more pieces than there are");
    etcdctl(&["del", &place.key("state")]);
    refused("a log without the state before it");
    etcdctl(&["del", "--prefix", &place.key("log/")]);
    refused("neither a state nor a log");
}

const STORE: &str = "RUSTLE_TEST_STORE";

/// Checkpoints that replace each other, with the heads after each change.
fn changes(ledger: &Ledger) -> Vec<Head> {
    let j = id("j");
    let head = || ledger.head(&j).unwrap();
    ledger.create_job(&job("j"), &two_shards()).unwrap();
    let mut heads = vec![head()];
    for round in 0..20 {
        ledger.add_checkpoint(&checkpoint(round, 8)).unwrap();
        heads.push(head());
        if let Some(before) = round.checked_sub(1) {
            ledger.remove_checkpoint(&j, before).unwrap();
            heads.push(head());
        }
    }
    heads
}

fn clock() -> Clock {
    Clock::new(|| 1_790_000_000_000)
}

#[test]
#[ignore = "it is the process that the test below ends"]
fn leads_and_changes_much() {
    let Ok(url) = env::var(STORE) else { return };
    let ledger = lead(&EtcdConfig::parse(&url, None, LEASE).unwrap()).unwrap().with_clock(clock());
    changes(&ledger);
}

#[test]
fn a_leader_that_ends_as_it_writes_a_state_leaves_the_ledger_as_it_was() {
    if !durable_io::ARE_ARMABLE {
        println!("SKIPPED: built without the feature ledger/failpoints");
        return;
    }
    for (point, before, has_state) in
        [("etcd::state::begin", 0, false), ("etcd::state::end", 0, true), ("etcd::cut::end", 1, true)]
    {
        let place = Place::new();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ledger.redb");
        Ledger::init(&path, open(&place).id().unwrap()).unwrap();
        let expected = changes(&Ledger::open(&path).unwrap().with_clock(clock()));
        let asked = folder.path().join("end");
        fs::write(&asked, format!("{point} {before}")).unwrap();
        let output = Command::new(env::current_exe().unwrap())
            .args(["--exact", "states::leads_and_changes_much", "--ignored", "--nocapture"])
            .env("RUSTLE_CRASH_AT", &asked)
            .env(STORE, place.config().name())
            .output()
            .unwrap();
        assert!(!asked.exists(), "{point}: it ended elsewhere: {}", String::from_utf8_lossy(&output.stderr));
        // No process needs to wait for the lease's end here.
        etcdctl(&["del", &place.key("leader")]);
        assert_eq!(keys(&place, "state"), usize::from(has_state), "{point}");
        let ledger = open(&place);
        let head = ledger.head(&id("j")).unwrap();
        assert!(expected.contains(&head), "{point}: {head:?}");
        // What the end left behind is gone, and the next leader can bind.
        assert_eq!(keys(&place, "piece/"), usize::from(has_state), "{point}");
        ledger.bind(&id("j"), 0, rows(0, 1), &[commitment("a")]).unwrap();
        drop(ledger);
        assert_eq!(open(&place).bindings(&id("j"), 0, 0..9).unwrap(), [(0, commitment("a"))], "{point}");
    }
}

#[test]
fn a_destroyed_job_leaves_etcd_and_what_is_bound_of_others_stays() {
    let place = Place::new();
    drop(life(|| place.open()));
    let ledger = place.open();
    ledger.create_job(&job("k"), &two_shards()).unwrap();
    ledger.bind(&id("k"), 0, rows(0, 1), &[commitment("a")]).unwrap();
    ledger.set_job_state(&id("j"), JobState::Destroyed).unwrap();
    let released = ledger.released(&id("j")).unwrap();
    drop(ledger);
    let bytes = || etcdctl(&["get", "--prefix", &place.key("")]).len();
    let before = bytes();
    let compact =
        || Ledger::compact_led(elected(&Election::connect_to_existing(&place.config()).unwrap())).unwrap();
    let Archives { archived, too_large } = compact();
    assert!(too_large.is_empty() && archived.len() == 1, "{archived:?}");
    assert_eq!((&archived[0].job, archived[0].rows), (&id("j"), 40));
    assert!(bytes() * 2 < before, "{} bytes of {before}", bytes());
    assert!(compact().archived.is_empty());

    let ledger = place.open();
    assert_eq!(ledger.released(&id("j")).unwrap(), released);
    assert!(matches!(ledger.bindings(&id("j"), 0, 0..9), Err(LedgerError::JobState { .. })));
    assert_eq!(ledger.bindings(&id("k"), 0, 0..9).unwrap(), [(0, commitment("a"))]);
    let other = ledger.bind(&id("k"), 0, rows(0, 1), &[commitment("b")]).unwrap_err();
    assert!(matches!(other, LedgerError::AlreadyBound { .. }), "{other}");
}

#[test]
fn what_looks_for_a_ledger_begins_none() {
    let place = Place::new();
    let error = Election::connect_to_existing(&place.config()).err().unwrap();
    assert!(matches!(error, LedgerError::NotFound { what: "ledger", .. }), "{error}");
    assert_eq!(keys(&place, ""), 0);
}

/// Several times the room of etcd is written, of which little is there at any time.
#[test]
fn etcd_has_room_for_what_changes_without_end() {
    const ROOM: u64 = 16 << 20;
    let etcd = Etcd::start_small(1, ROOM);
    let config = EtcdConfig::parse(&etcd.url("small"), None, LEASE.max(Duration::from_secs(10))).unwrap();
    let term = elected(&Election::connect(&config).unwrap());
    let ledger = Ledger::lead_within(term, 2 << 20).unwrap();
    ledger.create_job(&job("j"), &two_shards()).unwrap();
    let j = id("j");
    let mut written = 0;
    let mut number = 0u64;
    while written < 4 * ROOM {
        let record = checkpoint(number, 1_000);
        written += serde_json::to_vec(&record).unwrap().len() as u64;
        ledger.add_checkpoint(&record).unwrap();
        if let Some(before) = number.checked_sub(1) {
            ledger.remove_checkpoint(&j, before).unwrap();
        }
        number += 1;
    }
    let row = RowRange::new(7, 8).unwrap();
    ledger.bind(&j, 0, row, &[commitment("a")]).unwrap();
    drop(ledger);
    let ledger = lead(&config).unwrap();
    assert_eq!(ledger.bindings(&j, 0, 0..99).unwrap(), [(7, commitment("a"))]);
    assert_eq!(ledger.checkpoints(&j).unwrap().len(), 1);
    println!("{written} bytes of {number} checkpoints in {ROOM}");
}
