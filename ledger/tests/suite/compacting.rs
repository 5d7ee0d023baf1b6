//! A ledger that is compacted gives room back, and an older copy of it is still found.

use std::fs;

use ledger::{AnchorPlace, JobRecord, JobState, Ledger};

use crate::{Place, commitment, id, job, nonce, rows, two_shards};

#[test]
fn the_room_of_archived_jobs_is_given_back() {
    const ROWS: u64 = 40_000;
    let place = Place::in_memory();
    let ledger = place.open();
    ledger.create_job(&JobRecord { iterations: ROWS, ..job("j") }, &two_shards()).unwrap();
    for start in (0..ROWS).step_by(1_000) {
        let commitments: Vec<_> = (0..1_000).map(|row| commitment(&format!("{row}"))).collect();
        ledger.bind(&id("j"), 0, rows(start, start + 1_000), &commitments).unwrap();
    }
    ledger.set_job_state(&id("j"), JobState::Destroyed).unwrap();
    drop(ledger);
    let before = fs::metadata(place.path()).unwrap().len();
    let archived = Ledger::compact(&place.path()).unwrap();
    assert_eq!(archived.archived[0].rows, ROWS);
    let after = fs::metadata(place.path()).unwrap().len();
    println!("{before} bytes became {after}");
    assert!(after < before / 2, "{before} bytes became {after}");
    let ledger = place.open();
    assert_eq!(ledger.released(&id("j")).unwrap()[0].released, [rows(0, ROWS)]);
}

/// Each archive is one more entry: enough of them would make up for those that the older copy lacks.
#[test]
fn an_older_copy_is_found_once_its_jobs_are_archived() {
    let place = Place::new();
    let anchor = AnchorPlace::of_ledger(&place.path());
    let ledger = place.open();
    ledger.take_up(&anchor, nonce(60)).unwrap();
    for name in ["a", "b", "c"] {
        ledger.create_job(&job(name), &two_shards()).unwrap();
        ledger.set_job_state(&id(name), JobState::Destroyed).unwrap();
    }
    ledger.create_job(&job("j"), &two_shards()).unwrap();
    let older = Ledger::backup(&place.path()).unwrap();
    ledger.bind(&id("j"), 0, rows(0, 1), &[commitment("x")]).unwrap();
    drop(ledger);
    let newer = fs::read(place.path()).unwrap();
    // In place, so that the file is the same one.
    fs::write(place.path(), older).unwrap();
    assert_eq!(Ledger::compact(&place.path()).unwrap().archived.len(), 3);
    let ledger = place.open();
    ledger.take_up(&anchor, nonce(61)).unwrap();
    let copied = ledger.copied().expect("an older copy").to_string();
    assert!(copied.contains("its anchor has seen 8 entries of its chains, and it has 7"), "{copied}");
    drop(ledger);
    // The ledger itself raises no alarm, archived while it is closed or open.
    fs::write(place.path(), newer).unwrap();
    Ledger::compact(&place.path()).unwrap();
    for opening in 62..65 {
        let ledger = place.open();
        ledger.take_up(&anchor, nonce(opening)).unwrap();
        assert!(ledger.copied().is_none(), "{:?}", ledger.copied());
        let name = format!("of {opening}").replace(' ', "-");
        ledger.create_job(&job(&name), &two_shards()).unwrap();
        ledger.set_job_state(&id(&name), JobState::Destroyed).unwrap();
        assert_eq!(ledger.archive_destroyed().unwrap().archived.len(), 1);
    }
}
