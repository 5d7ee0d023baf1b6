//! Damaged, cut, locked and foreign files: refused by name, and left as they are.

use std::{fs, os::unix::fs::PermissionsExt, panic, path::Path, thread};

use ledger::{Ledger, LedgerError};
use proto::Commitment;

use crate::{Place, commitment, id, is_long, processors, rows};

const BOUND: u64 = 40;

/// A ledger's bytes, and what it must hold.
type Held = (Vec<u8>, Vec<(u64, Commitment)>);

/// Returns the file of a ledger after several commits.
fn bytes_of_a_ledger(place: &Place) -> Held {
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

/// Runs `work` on shares of `all`, one for each processor, each with a folder of its own. Gives the sum.
fn spread<T: Sync>(all: &[T], work: impl Fn(&Place, &[T]) -> usize + Sync) -> usize {
    thread::scope(|scope| {
        let shares = all.chunks(all.len().div_ceil(processors()).max(1));
        let work = |share| {
            let place = Place::in_memory();
            drop(place.open());
            work(&place, share)
        };
        let running: Vec<_> = shares.map(|share| scope.spawn(move || work(share))).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

/// The store panics where it finds damage, which is caught and becomes an error: a million times its words are too
/// many.
fn be_quiet_about_the_store() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if info.location().is_none_or(|at| !at.file().contains("/redb-")) {
            hook(info);
        }
    }));
}

/// Flips each bit alone: the file is refused and left as it is, or all bindings are there. Returns the number refused.
fn flip_each(place: &Place, (bytes, bound): &Held, bits: &[(usize, u8)]) -> usize {
    let mut refused = 0;
    let mut flipped = bytes.clone();
    for &(at, bit) in bits {
        flipped[at] ^= 1 << bit;
        fs::write(place.path(), &flipped).unwrap();
        match Ledger::open(&place.path()) {
            Ok(ledger) => {
                let found = ledger.bindings(&id("j"), 0, 0..BOUND).unwrap();
                assert_eq!(found, *bound, "bit {bit} of byte {at} lost a binding");
            }
            Err(error) => {
                refused += 1;
                assert!(error.to_string().contains("ledger.redb"), "{error}");
                assert!(fs::read(place.path()).unwrap() == flipped, "a refused file was changed: {at}");
            }
        }
        flipped[at] ^= 1 << bit;
    }
    refused
}

/// With RUSTLE_LONG every bit of the header, and one bit of each byte behind it.
#[test]
fn a_flipped_bit_never_loses_a_binding() {
    be_quiet_about_the_store();
    let held = bytes_of_a_ledger(&Place::new());
    let len = held.0.len();
    let step = if is_long() { 1 } else { len / 80 };
    let one_bit = |at: usize| (at, (at % 8) as u8);
    let header: Vec<_> = if is_long() {
        (0..HEADER).flat_map(|at| (0..8).map(move |bit| (at, bit))).collect()
    } else {
        (0..8).map(|bit| (9, bit)).chain((0..HEADER).map(one_bit)).collect()
    };
    let bits: Vec<_> = header.into_iter().chain((HEADER..len).step_by(step).map(one_bit)).collect();
    let refused = spread(&bits, |place, bits| flip_each(place, &held, bits));
    println!("{} bits of {len} bytes: {refused} refused, the others harmless", bits.len());
    assert!(refused > 100, "only {refused} flips were noticed");
}

/// With RUSTLE_LONG every length.
#[test]
fn a_cut_file_is_refused_at_any_length() {
    be_quiet_about_the_store();
    let (bytes, _) = bytes_of_a_ledger(&Place::new());
    let slice = (0..bytes.len()).step_by(4096).chain([1, 9, 63, 319, 321, bytes.len() - 1]);
    let mut lengths: Vec<_> = if is_long() { (0..bytes.len()).collect() } else { slice.collect() };
    // Longest first: what was refused is as it was, and is cut again.
    lengths.sort_unstable_by(|one, other| other.cmp(one));
    let refused = spread(&lengths, |place, lengths| {
        fs::write(place.path(), &bytes).unwrap();
        for &length in lengths {
            fs::File::options().write(true).open(place.path()).unwrap().set_len(length as u64).unwrap();
            let error = open_error(&place.path());
            let error = error.unwrap_or_else(|| panic!("opened when cut to {length} bytes"));
            assert!(matches!(error, LedgerError::Damaged { .. }), "{length}: {error}");
            assert!(
                fs::read(place.path()).unwrap() == bytes[..length],
                "a refused file was changed: {length}"
            );
        }
        lengths.len()
    });
    println!("{refused} lengths refused, of a file of {} bytes", bytes.len());
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
fn a_second_opening_reports_that_the_file_is_held() {
    let place = Place::new();
    let ledger = place.with_job();
    let error = open_error(&place.path()).unwrap();
    assert!(matches!(error, LedgerError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("ledger.redb"), "{error}");
    // The one that has it open continues.
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
