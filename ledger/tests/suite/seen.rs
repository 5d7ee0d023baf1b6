//! What a data folder has seen of a ledger, and a ledger that is not begun beside what an earlier one left.

use std::{fs, path::Path};

use ledger::{AnchorPlace, Ledger, LedgerError};
use proto::Nonce;

use super::{Place, job, nonce, two_shards};

fn create(ledger: &Ledger, name: &str) {
    ledger.create_job(&job(name), &two_shards()).unwrap();
}

/// Opens the ledger as a coordinator with this file does, and returns why it is refused.
fn refused(path: &Path, seen: &Path) -> Option<String> {
    let ledger = Ledger::open(path).unwrap();
    ledger.compare_with_seen(seen).unwrap();
    if ledger.copied().is_none() {
        ledger.next_coordinator_epoch().unwrap();
        ledger.keep_seen(seen).unwrap();
        return None;
    }
    let refused = ledger.create_job(&job("refused"), &two_shards()).unwrap_err();
    assert!(matches!(refused, LedgerError::Copied { .. }), "{refused}");
    Some(refused.to_string())
}

#[test]
fn a_ledger_of_which_more_was_seen_binds_nothing() {
    let place = Place::new();
    let path = place.path();
    let seen = path.with_file_name("seen");
    drop(place.open());
    let begun = fs::read(&path).unwrap();
    assert_eq!(refused(&path, &seen), None);
    let ledger = place.open();
    ledger.compare_with_seen(&seen).unwrap();
    ledger.keep_seen(&seen).unwrap();
    create(&ledger, "a");
    let before = Ledger::backup(&path).unwrap();
    create(&ledger, "b");
    drop(ledger);
    // Another folder, which has seen less, or nothing.
    assert_eq!(refused(&path, &path.with_file_name("other")), None);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, before).unwrap();
    let said = refused(&path, &seen).expect("an older one is found");
    assert!(
        said.contains("has seen 2 entries of its chains, and it has 1") && said.contains("/seen"),
        "{said}"
    );
    fs::write(&path, begun).unwrap();
    assert!(refused(&path, &seen).is_some());
    // After what was seen, by another process, too.
    fs::write(&path, whole).unwrap();
    create(&place.open(), "c");
    assert_eq!(refused(&path, &seen), None);
}

#[test]
fn an_epoch_that_was_seen_tells_where_nothing_was_bound() {
    let place = Place::new();
    let path = place.path();
    let seen = path.with_file_name("seen");
    drop(place.open());
    assert_eq!(refused(&path, &seen), None);
    let before = fs::read(&path).unwrap();
    assert_eq!(refused(&path, &seen), None);
    fs::write(&path, before).unwrap();
    let said = refused(&path, &seen).expect("an older one is found");
    assert!(said.contains("has seen coordinator epoch 2 on it, and it knows 1"), "{said}");
}

#[test]
fn what_was_seen_is_of_one_ledger_and_whole() {
    let place = Place::new();
    let path = place.path();
    let seen = path.with_file_name("seen");
    drop(place.open());
    assert_eq!(refused(&path, &seen), None);
    fs::remove_file(&path).unwrap();
    Ledger::init(&path, Nonce::from_bytes([0x22; 32])).unwrap();
    assert!(refused(&path, &seen).is_some_and(|said| said.contains("another ledger")));
    fs::write(&seen, "").unwrap();
    assert!(refused(&path, &seen).is_some_and(|said| said.contains("can't be read")));
}

#[test]
fn no_ledger_is_begun_beside_an_anchor_of_an_earlier_one() {
    for (file, beside, is_refused) in [
        ("ledger.redb", "ledger.redb", true),
        ("ledger.redb", "job.key", true),
        ("a.redb", "a.redb", true),
        ("a.redb", "ledger.redb", false),
        // Of another ledger in the same folder, whose key it shares.
        ("a.redb", "job.key", false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = folder.path().join("elsewhere.redb");
        Ledger::init(&elsewhere, nonce(1)).unwrap();
        let place = AnchorPlace::of_ledger(&folder.path().join(beside));
        Ledger::open(&elsewhere).unwrap().take_up(&place, nonce(2)).unwrap();
        let path = folder.path().join(file);
        let begun = Ledger::init(&path, nonce(3));
        assert_eq!(begun.is_err(), is_refused, "{file} beside the anchor of {beside}: {begun:?}");
        if is_refused {
            let said = begun.unwrap_err().to_string();
            assert!(
                said.contains(&format!("{beside}.anchor-")) && said.contains("take an empty folder"),
                "{said}"
            );
            assert!(!path.exists());
        }
    }
    let place = Place::new();
    place.open().take_up(&AnchorPlace::of_ledger(&place.path()), nonce(2)).unwrap();
    let again = Ledger::init(&place.path(), nonce(3)).unwrap_err();
    assert!(matches!(again, LedgerError::Begun { .. }), "{again}");
}
