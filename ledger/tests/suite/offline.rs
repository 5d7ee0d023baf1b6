//! A ledger's file read by tools: nothing is written, and what was altered is found with its entry.

use std::{fs, path::Path};

use ledger::{ChainCheck, Entry, EntryLine, Head, JobState, Ledger, LedgerError, LedgerFile, Principal};
use proto::model::OpenBranch;
use redb::{Database, TableDefinition};

use crate::{Place, commitment, id, job, nonce, rows, two_shards};

const ENTRIES: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("entries");
const BINDINGS: TableDefinition<(&str, u64, u64), [u8; 33]> = TableDefinition::new("commitments");

/// Two jobs, one of which rewound.
fn place() -> Place {
    let place = Place::new();
    let ledger = place.with_job().acting_as(Principal::new("operator token:4fa01b23c4d5"));
    ledger.create_job(&job("k"), &two_shards()).unwrap();
    ledger.bind(&id("j"), 0, rows(0, 3), &["a", "b", "c"].map(commitment)).unwrap();
    ledger.bind(&id("k"), 0, rows(0, 1), &[commitment("a")]).unwrap();
    let rewind = OpenBranch { job: id("j"), from_row: 2, expected_branch: 0, parent: None };
    ledger.open_branch(&rewind, nonce(4)).unwrap();
    ledger.bind(&id("j"), 1, rows(2, 3), &[commitment("d")]).unwrap();
    place
}

fn edit(path: &Path, change: impl FnOnce(&redb::WriteTransaction)) {
    let db = Database::open(path).unwrap();
    let transaction = db.begin_write().unwrap();
    change(&transaction);
    transaction.commit().unwrap();
}

fn entries(file: &LedgerFile, chain: &str, first: u64) -> Vec<Entry> {
    let mut seen = Vec::new();
    file.entries(chain, first, |entry| {
        seen.push(entry);
        Ok::<_, LedgerError>(true)
    })
    .unwrap();
    seen
}

fn lines(file: &LedgerFile) -> Vec<EntryLine> {
    let of_chain = |chain: ledger::Chain| {
        let name = chain.name;
        entries(file, &name, 0).into_iter().map(move |entry| EntryLine::new(&name, entry).unwrap())
    };
    file.chains().unwrap().into_iter().flat_map(of_chain).collect()
}

#[test]
fn a_file_is_read_and_left_as_it_is() {
    let place = place();
    let bytes = fs::read(place.path()).unwrap();
    let file = LedgerFile::read(&place.path()).unwrap();
    assert_eq!(file.verify().unwrap(), None);
    let chains = file.chains().unwrap();
    let summary: Vec<_> =
        chains.iter().map(|chain| (chain.name.as_str(), chain.head.entries, chain.rows_bound)).collect();
    assert_eq!(summary, [("j", 4, 4), ("k", 2, 1)]);
    let seen = entries(&file, "j", 0);
    assert_eq!(entries(&file, "j", 2), seen[2..]);
    assert!(fs::read(place.path()).unwrap() == bytes, "the file was written to");
    // The same entries as an open ledger has, which tools leave alone.
    let ledger = place.open();
    assert_eq!(file.id().unwrap(), ledger.id().unwrap());
    assert_eq!(seen, ledger.entries(&id("j"), 0, 99, usize::MAX).unwrap());
    assert_eq!(chains[0].head, ledger.head(&id("j")).unwrap());
    let error = LedgerFile::read(&place.path()).err().unwrap();
    assert!(matches!(error, LedgerError::Locked { .. }), "{error}");
}

/// Someone edits a byte of any entry with a tool that keeps the file's checksums right.
#[test]
fn an_edited_byte_of_any_entry_is_found_with_its_entry() {
    let place = place();
    let whole = fs::read(place.path()).unwrap();
    let all = lines(&LedgerFile::read(&place.path()).unwrap());
    let mut edits = 0;
    for line in &all {
        let stored = [&line.hash[..], line.event.as_bytes()].concat();
        for at in (0..stored.len()).step_by(29) {
            let mut edited = stored.clone();
            edited[at] ^= 1;
            fs::write(place.path(), &whole).unwrap();
            edit(&place.path(), |transaction| {
                let mut table = transaction.open_table(ENTRIES).unwrap();
                table.insert((line.chain.as_str(), line.index), edited.as_slice()).unwrap();
            });
            let fault = LedgerFile::read(&place.path()).unwrap().verify().unwrap();
            let fault = fault.unwrap_or_else(|| panic!("byte {at} of entry {} was not found", line.index));
            assert_eq!(fault.entry, Some((line.chain.clone(), line.index)), "byte {at}: {}", fault.reason);
            edits += 1;
        }
    }
    assert!(edits > 50, "{edits}");
}

#[test]
fn an_edited_byte_of_any_line_of_an_export_is_found_at_that_line() {
    let place = place();
    let all = lines(&LedgerFile::read(&place.path()).unwrap());
    let texts: Vec<String> = all.iter().map(EntryLine::to_json).collect();
    let first_fault = |texts: &[String]| {
        let mut check = ChainCheck::default();
        texts.iter().position(|text| {
            serde_json::from_str::<EntryLine>(text).is_err()
                || check.take(&serde_json::from_str(text).unwrap()).is_err()
        })
    };
    assert_eq!(first_fault(&texts), None);
    let mut check = ChainCheck::default();
    all.iter().for_each(|line| check.take(line).unwrap());
    let heads = LedgerFile::read(&place.path()).unwrap().chains().unwrap();
    let heads: Vec<(String, Head)> = heads.into_iter().map(|chain| (chain.name, chain.head)).collect();
    assert!(check.heads().clone().into_iter().eq(heads));
    for (number, text) in texts.iter().enumerate() {
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let Ok(edited) = String::from_utf8(bytes) else { continue };
            // Hexadecimal digits in the other case are the same entry.
            let is_same = serde_json::from_str::<EntryLine>(&edited).is_ok_and(|line| line == all[number]);
            let mut edited_texts = texts.clone();
            edited_texts[number].clone_from(&edited);
            let found = first_fault(&edited_texts);
            assert_eq!(found, (!is_same).then_some(number), "byte {at} of line {number}: {edited}");
        }
    }
    // A line that is missing, and two in another order.
    let mut without = texts.clone();
    without.remove(1);
    assert_eq!(first_fault(&without), Some(1));
    let mut swapped = texts;
    swapped.swap(1, 2);
    assert_eq!(first_fault(&swapped), Some(1));
}

#[test]
fn a_missing_last_entry_is_named_by_its_place() {
    let place = place();
    edit(&place.path(), |transaction| {
        transaction.open_table(ENTRIES).unwrap().remove(("k", 1)).unwrap();
    });
    let fault = LedgerFile::read(&place.path()).unwrap().verify().unwrap().unwrap();
    assert_eq!(fault.entry, Some(("k".to_owned(), 1)), "{}", fault.reason);
}

#[test]
fn a_row_with_another_commitment_than_its_chain_says_is_a_fault_of_no_entry() {
    let place = place();
    edit(&place.path(), |transaction| {
        transaction.open_table(BINDINGS).unwrap().insert(("j", 0, 1), [1; 33]).unwrap();
    });
    let fault = LedgerFile::read(&place.path()).unwrap().verify().unwrap().unwrap();
    assert_eq!(fault.entry, None);
    assert!(fault.reason.contains("bindings"), "{}", fault.reason);
}

#[test]
fn what_is_no_ledger_is_an_error_that_names_it() {
    let place = place();
    let error = LedgerFile::read(&place.path().with_file_name("none.redb")).err().unwrap();
    assert!(matches!(error, LedgerError::Missing { .. }), "{error}");
    let bytes = fs::read(place.path()).unwrap();
    fs::write(place.path(), &bytes[..bytes.len() / 2]).unwrap();
    let error = LedgerFile::read(&place.path()).err().unwrap();
    assert!(matches!(error, LedgerError::Damaged { .. }), "{error}");
}

/// A copy, which was never taken up, is read like any other.
#[test]
fn a_copy_is_read_without_being_taken_up() {
    let place = place();
    let copy = place.path().with_file_name("copy.redb");
    fs::copy(place.path(), &copy).unwrap();
    fs::set_permissions(&copy, std::os::unix::fs::PermissionsExt::from_mode(0o400)).unwrap();
    place.open().set_job_state(&id("k"), JobState::Finished).unwrap();
    let [old, new] = [&copy, &place.path()].map(|path| LedgerFile::read(path).unwrap());
    assert_eq!(old.id().unwrap(), new.id().unwrap());
    assert_eq!(entries(&old, "k", 0), entries(&new, "k", 0)[..2]);
    assert_eq!(entries(&new, "k", 0).len(), 3);
    let left = fs::read_dir(copy.parent().unwrap()).unwrap().count();
    assert_eq!(left, 2, "a tool left a file");
    drop(Ledger::open(&copy));
}
