//! Damaged, cut, locked and foreign files: refused by name, and left as they are.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use ledger::{Ledger, LedgerError};
use proto::Commitment;

use crate::{Place, commitment, id, rows};

const BOUND: u64 = 40;

/// A ledger's bytes after several commits, and what it must hold.
fn bytes_of_a_ledger(place: &Place) -> (Vec<u8>, Vec<(u64, Commitment)>) {
    let ledger = place.with_job();
    for row in 0..BOUND {
        ledger.bind(&id("j"), 0, rows(row, row + 1), &[commitment(&format!("{row}"))]).unwrap();
    }
    let bound = ledger.bindings(&id("j"), 0, 0..BOUND).unwrap();
    drop(ledger);
    (fs::read(place.path()).unwrap(), bound)
}

fn open_error(path: &Path) -> Option<LedgerError> {
    Ledger::open(path).err()
}

/// Bytes that redb's header uses; they name the newest commit.
const HEADER: usize = 320;

fn flip_bits(bits: impl Fn(usize) -> Vec<(usize, usize)>) {
    let place = Place::new();
    let (bytes, bound) = bytes_of_a_ledger(&place);
    let mut refused = 0;
    for (at, bit) in bits(bytes.len()) {
        let mut flipped = bytes.clone();
        flipped[at] ^= 1 << bit;
        fs::write(place.path(), &flipped).unwrap();
        match Ledger::open(&place.path()) {
            Ok(ledger) => {
                let found = ledger.bindings(&id("j"), 0, 0..BOUND).unwrap();
                assert_eq!(found, bound, "bit {bit} of byte {at} lost a binding");
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("ledger.redb"), "{error}");
                assert!(fs::read(place.path()).unwrap() == flipped, "a refused file was changed: {at}");
            }
        }
    }
    assert!(refused > 100, "only {refused} flips were noticed");
}

#[test]
fn a_flipped_bit_never_loses_a_binding() {
    flip_bits(|len| {
        let flags = (0..8).map(|bit| (9, bit));
        let header = (0..HEADER).map(|at| (at, at % 8));
        flags.chain(header).chain((HEADER..len).step_by(len / 80).map(|at| (at, at % 8))).collect()
    });
}

#[test]
#[ignore = "minutes: every bit of the header, and 2,500 all over the file"]
fn no_flipped_bit_at_all_loses_a_binding() {
    flip_bits(|len| {
        let header = (0..HEADER * 8).map(|bit| (bit / 8, bit % 8));
        header.chain((HEADER..len).step_by(len / 2500).map(|at| (at, at % 8))).collect()
    });
}

#[test]
fn a_cut_file_is_refused_at_any_length() {
    let place = Place::new();
    let (bytes, _) = bytes_of_a_ledger(&place);
    let lengths = (0..bytes.len()).step_by(4096).chain([1, 9, 63, 319, 321, bytes.len() - 1]);
    for length in lengths {
        fs::write(place.path(), &bytes[..length]).unwrap();
        let error = open_error(&place.path()).unwrap_or_else(|| panic!("opened when cut to {length} bytes"));
        assert!(matches!(error, LedgerError::Damaged { .. }), "{length}: {error}");
    }
}

#[test]
fn other_files_are_no_ledgers() {
    let place = Place::new();
    fs::create_dir_all(place.path().parent().unwrap()).unwrap();
    for content in [&b""[..], b"hello", &[0; 100_000]] {
        fs::write(place.path(), content).unwrap();
        let error = open_error(&place.path()).unwrap();
        assert!(matches!(error, LedgerError::Damaged { .. }), "{error}");
        assert!(fs::read(place.path()).unwrap() == content);
    }
    assert!(matches!(open_error(place.path().parent().unwrap()), Some(LedgerError::Io { .. })));
}

#[test]
fn a_second_opening_is_told_that_the_file_is_held() {
    let place = Place::new();
    let ledger = place.with_job();
    let error = open_error(&place.path()).unwrap();
    assert!(matches!(error, LedgerError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("ledger.redb"), "{error}");
    // The one that holds it goes on.
    ledger.bind(&id("j"), 0, rows(0, 1), &[commitment("a")]).unwrap();
    drop(ledger);
    place.open();
}

#[test]
fn what_was_bound_is_there_when_the_process_is_killed() {
    let place = Place::new();
    let ledger = place.with_job();
    let copy = place.path().with_file_name("copy.redb");
    for row in 0..30 {
        ledger.bind(&id("j"), 0, rows(row, row + 1), &[commitment("c")]).unwrap();
        // The file as a killed process leaves it: not closed.
        fs::copy(place.path(), &copy).unwrap();
        let summary = Ledger::open(&copy).unwrap().binding_summary(&id("j"), 0).unwrap();
        assert_eq!(summary.rows_bound, row + 1);
    }
}

#[test]
fn only_the_owner_may_read() {
    let place = Place::new();
    drop(place.with_job());
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&place.path()), 0o600);
    assert_eq!(mode(place.path().parent().unwrap()), 0o700);
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o644)).unwrap();
    place.open();
    assert_eq!(mode(&place.path()), 0o600);
    let left: Vec<_> = fs::read_dir(place.path().parent().unwrap()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}
