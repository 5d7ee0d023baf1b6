//! What lies in etcd: the same chain as in a file, in records of any size, and nothing that can be changed unseen.

use ledger::{
    Clock, JobRecord, JobState, Ledger, LedgerError,
    etcd::{Election, EtcdConfig},
};
use proto::{Commitment, WorkerId, model::OpenBranch};

use crate::{
    ITERATIONS, LEASE, Place, commitment, elected, etcd::Etcd, etcdctl, id, job, nonce, range, rows,
    two_shards,
};

/// Calls of every kind but checkpoints.
fn eventful(ledger: &Ledger) {
    let j = id("j");
    ledger.create_job(&job("j"), &two_shards()).unwrap();
    ledger.bind(&j, 0, rows(0, 3), &[commitment("a"), commitment("b"), commitment("c")]).unwrap();
    ledger.set_owners(&j, &[(0, Some(WorkerId::new("w").unwrap()))]).unwrap();
    let rewind = OpenBranch { job: j.clone(), from_row: 2, expected_branch: 0, parent: None };
    ledger.open_branch(&rewind, nonce(1)).unwrap();
    ledger.bind(&j, 1, rows(2, 4), &[commitment("d"), commitment("e")]).unwrap();
    ledger.replace_shards(&j, &[range(0, 2000)]).unwrap();
    ledger.set_job_state(&j, JobState::Finished).unwrap();
}

#[test]
fn the_same_calls_make_the_same_chain_as_in_a_file() {
    let place = Place::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.redb");
    let clock = Clock::new(|| 1_790_000_000_000);
    let in_etcd = place.open().with_clock(clock.clone());
    Ledger::init(&path, in_etcd.id().unwrap()).unwrap();
    let file = Ledger::open(&path).unwrap().with_clock(clock);
    [&file, &in_etcd].into_iter().for_each(eventful);
    drop(in_etcd);
    let in_etcd = place.open();
    assert_eq!(in_etcd.head(&id("j")).unwrap(), file.head(&id("j")).unwrap());
    assert_eq!(
        in_etcd.entries(&id("j"), 0, 99, usize::MAX).unwrap(),
        file.entries(&id("j"), 0, 99, usize::MAX).unwrap()
    );
    assert_eq!(in_etcd.jobs().unwrap(), file.jobs().unwrap());
    assert_eq!(in_etcd.released(&id("j")).unwrap(), file.released(&id("j")).unwrap());
}

#[test]
fn what_is_larger_than_a_request_is_there_whole() {
    let place = Place::new();
    let ledger = place.open();
    let plan = "# a plan of megabytes\n".repeat(150_000);
    let large = JobRecord { plan_toml: plan.clone(), iterations: 100_000, ..job("large") };
    ledger.create_job(&large, &two_shards()).unwrap();
    let many: Vec<Commitment> = (0..20_000).map(|row| commitment(&format!("{row}"))).collect();
    ledger.bind(&id("large"), 0, rows(0, 20_000), &many).unwrap();
    drop(ledger);
    assert!(etcdctl(&["get", "--prefix", "--keys-only", &place.key("part/")]).lines().count() > 3);
    let ledger = place.open();
    assert_eq!(ledger.job(&id("large")).unwrap().unwrap().plan_toml, plan);
    let bound = ledger.bindings(&id("large"), 0, 0..100_000).unwrap();
    assert!(bound.iter().map(|(_, commitment)| *commitment).eq(many));
    ledger.bind(&id("large"), 0, rows(20_000, 20_001), &[commitment("next")]).unwrap();
}

#[test]
fn people_can_read_it() {
    let place = Place::new();
    place.with_job().bind(&id("j"), 0, rows(7, 8), &[commitment("seven")]).unwrap();
    let record = etcdctl(&["get", "--print-value-only", &place.key("log/00000000000000000001")]);
    let record: serde_json::Value = serde_json::from_str(&record).unwrap();
    let commitment = hex::encode(commitment("seven").to_bytes());
    assert_eq!(record["changes"][0], serde_json::json!(["commitments", ["j", 0, 7], commitment]));
}

fn open_error(place: &Place) -> String {
    let election = Election::connect(&place.config()).unwrap();
    Ledger::lead(elected(&election)).err().expect("a damaged log was opened").to_string()
}

/// The key of a log's last record, and that record.
type Edit = fn(&Place, &str, &str);

#[test]
fn a_log_that_was_cut_or_edited_is_refused() {
    let last = "log/00000000000000000003";
    let edits: [(&str, Edit); 3] = [
        ("is missing", |place, _, _| {
            etcdctl(&["del", &place.key("log/00000000000000000002")]);
        }),
        ("not what the chain", |place, key, record| {
            let other = record.replace(&hex::encode(commitment("c").to_bytes()), &hex::encode([1; 33]));
            etcdctl(&["put", &place.key(key), &other]);
        }),
        ("can't be read", |place, key, record| {
            etcdctl(&["put", &place.key(key), &record[..record.len() / 2]]);
        }),
    ];
    for (what, edit) in edits {
        let place = Place::new();
        let ledger = place.with_job();
        for (row, text) in [(0, "a"), (1, "b"), (2, "c")] {
            ledger.bind(&id("j"), 0, rows(row, row + 1), &[commitment(text)]).unwrap();
        }
        drop(ledger);
        edit(&place, last, etcdctl(&["get", "--print-value-only", &place.key(last)]).trim());
        let error = open_error(&place);
        assert!(error.contains("damaged") && error.contains(what), "{what}: {error}");
    }
}

#[test]
fn a_ledger_of_another_build_is_refused_by_name() {
    let place = Place::new();
    drop(place.with_job());
    for other in [2, 3, 6, 9] {
        let identity = format!(r#"{{"format":{other},"ledger":"aa"}}"#);
        etcdctl(&["put", &place.key("ledger"), &identity]);
        let error = Election::connect(&place.config()).err().unwrap();
        assert!(matches!(error, LedgerError::Format { found, .. } if found == other), "{error}");
    }
    etcdctl(&["put", &place.key("ledger"), "someone else's"]);
    let error = Election::connect(&place.config()).err().unwrap();
    assert!(matches!(error, LedgerError::OtherStore { .. }), "{error}");
}

#[test]
fn members_of_two_clusters_are_no_store() {
    let one = Etcd::start(1);
    let other = Etcd::start(1);
    let url = format!("etcd://{},{}/x", one.address(0), other.address(0));
    let error = Election::connect(&EtcdConfig::parse(&url, None, LEASE).unwrap()).err().unwrap();
    assert!(error.to_string().contains("different etcd clusters"), "{error}");
    drop(other);
    // One that does not answer is no obstacle; where none does, each is named.
    Election::connect(&EtcdConfig::parse(&url, None, LEASE).unwrap()).unwrap();
    let address = one.address(0);
    drop(one);
    let error = Election::connect(&EtcdConfig::parse(&url, None, LEASE).unwrap()).err().unwrap();
    assert!(matches!(error, LedgerError::Unreachable { .. }), "{error}");
    assert!(error.to_string().contains(&address), "{error}");
}

#[test]
fn rows_that_do_not_exist_are_refused_as_in_a_file() {
    let place = Place::new();
    let error =
        place.with_job().bind(&id("j"), 0, rows(ITERATIONS, ITERATIONS + 1), &[commitment("x")]).unwrap_err();
    assert!(matches!(error, LedgerError::RowBeyondIterations { .. }), "{error}");
}
