//! Copies of a ledger, which are found before anything is bound, and ordinary operations, which raise no alarm.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ledger::{AnchorPlace, BindOutcome, Created, JobState, Ledger, LedgerError};
use proto::{Commitment, Nonce, RowRange, model::OpenBranch};

use super::{id, job, two_shards};

const ID: Nonce = Nonce::from_bytes([1; 32]);
const ADOPTED: Nonce = Nonce::from_bytes([2; 32]);

fn nonce(byte: u8) -> Nonce {
    Nonce::from_bytes([byte; 32])
}

/// A run's folder: ledger and key, whose anchor is beside the key.
struct Run {
    folder: tempfile::TempDir,
}

impl Run {
    fn new() -> Self {
        let run = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(run.path("run")).unwrap();
        Ledger::init(&run.ledger("run"), ID).unwrap();
        run
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn ledger(&self, run: &str) -> PathBuf {
        self.path(run).join("ledger.redb")
    }

    fn key(&self, run: &str) -> AnchorPlace {
        AnchorPlace::of_key(&self.path(run).join("job.key"), &[7; 32])
    }

    /// Opens and takes up the ledger of a run's folder, with the key in it.
    fn open(&self, run: &str, opening: u8) -> Ledger {
        self.open_at(run, &self.key(run), opening)
    }

    fn open_at(&self, run: &str, place: &AnchorPlace, opening: u8) -> Ledger {
        let ledger = Ledger::open(&self.ledger(run)).unwrap();
        ledger.take_up(place, nonce(opening)).unwrap();
        ledger
    }

    /// Copies a folder, as `cp -r` does.
    fn copy(&self, from: &str, to: &str) {
        fs::create_dir(self.path(to)).unwrap();
        for entry in fs::read_dir(self.path(from)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), self.path(to).join(entry.file_name())).unwrap();
        }
    }

    fn anchor(&self, run: &str, ledger: Nonce) -> PathBuf {
        let name = format!("job.key.anchor-{}", hex::encode(&ledger.as_bytes()[..8]));
        self.path(run).join(name)
    }
}

fn bind(ledger: &Ledger, row: u64, text: &str) -> Result<BindOutcome, LedgerError> {
    let rows = RowRange { start: row, end: row + 1 };
    let branch = ledger.job(&id("j"))?.map_or(0, |record| record.branch);
    ledger.bind(&id("j"), branch, rows, &[Commitment::of_text(text)])
}

/// Creates the job and binds its first rows.
fn train(ledger: &Ledger, rows: u64) {
    ledger.create_job(&job("j"), &two_shards()).unwrap();
    for row in 0..rows {
        bind(ledger, row, &format!("step {row}")).unwrap();
    }
}

/// Checks that the ledger binds nothing, says why, and can be read.
#[track_caller]
fn assert_copied(ledger: &Ledger, why: &str) {
    let copied = ledger.copied().expect("a copy is found").to_string();
    assert!(copied.contains(why) && copied.contains("`rustle ledger adopt --file /"), "{copied}");
    let bound = ledger.rows_bound(&id("j")).unwrap();
    let request = OpenBranch { job: id("j"), from_row: 1, expected_branch: 0, parent: None };
    let opened = ledger.open_branch(&request, nonce(99)).err();
    let created = ledger.create_job(&job("another"), &two_shards()).err();
    for refused in [bind(ledger, 2, "other").err(), bind(ledger, 0, "step 0").err(), opened, created] {
        let refused = refused.expect("a copy binds");
        assert!(matches!(refused, LedgerError::Copied { .. }), "{refused}");
    }
    assert_eq!(ledger.rows_bound(&id("j")).unwrap(), bound, "a copy binds, and says that it doesn't");
    assert_eq!(ledger.create_job(&job("j"), &two_shards()).unwrap(), Created::Existing);
    ledger.report(&id("j")).unwrap();
    ledger.cursor(&id("j"), [0; 32], None).unwrap();
}

#[test]
fn a_copy_of_a_folder_binds_nothing_and_the_original_goes_on() {
    let run = Run::new();
    train(&run.open("run", 10), 2);
    run.copy("run", "copy");
    for opening in [11, 12] {
        assert_copied(&run.open("copy", opening), "another file (inode");
    }
    let original = run.open("run", 13);
    assert!(original.copied().is_none());
    bind(&original, 2, "step 2").unwrap();
    drop(original);
    assert_copied(&run.open("copy", 14), "another file (inode");
}

#[test]
fn a_copy_before_the_first_row_binds_nothing() {
    let run = Run::new();
    train(&run.open("run", 10), 0);
    run.copy("run", "copy");
    assert!(run.open("copy", 11).copied().is_some());
}

/// In the same file: its number and birth are what they were.
#[test]
fn an_older_copy_in_its_place_is_found_by_its_opening_or_by_what_it_lacks() {
    let run = Run::new();
    let first = run.open("run", 10);
    train(&first, 1);
    let of_the_same_opening = fs::read(run.ledger("run")).unwrap();
    bind(&first, 1, "step 1").unwrap();
    drop(first);
    let whole = fs::read(run.ledger("run")).unwrap();
    fs::write(run.ledger("run"), &of_the_same_opening).unwrap();
    assert_copied(&run.open("run", 11), "its anchor has seen 3 entries of its chains, and it has 2");
    fs::write(run.ledger("run"), &whole).unwrap();
    assert!(run.open("run", 12).copied().is_none());
    fs::write(run.ledger("run"), &whole).unwrap();
    assert_copied(&run.open("run", 13), "another opening");
}

#[test]
fn a_copy_with_the_key_of_the_original_is_found_and_so_is_the_original_once_the_copy_is_adopted() {
    let run = Run::new();
    fs::create_dir(run.path("secrets")).unwrap();
    let shared = run.key("secrets");
    train(&run.open_at("run", &shared, 10), 2);
    run.copy("run", "copy");
    let copy = run.open_at("copy", &shared, 11);
    assert_copied(&copy, "another file");
    let adopted = copy.for_adoption();
    adopted.take_over(&shared, ADOPTED, nonce(12)).unwrap();
    bind(&adopted, 2, "other").unwrap();
    drop((copy, adopted));
    assert!(run.open_at("copy", &shared, 13).copied().is_none());
    let original = run.open_at("run", &shared, 14);
    assert_copied(&original, &format!("a copy of it was adopted, as ledger {ADOPTED}"));
    // Both go on from here, each with an anchor of its own.
    original.for_adoption().take_over(&shared, nonce(3), nonce(15)).unwrap();
    drop(original);
    for opening in [16, 17] {
        assert!(run.open_at("run", &shared, opening).copied().is_none());
        assert!(run.open_at("copy", &shared, opening + 10).copied().is_none());
    }
}

#[test]
fn a_lost_or_broken_anchor_is_found() {
    let run = Run::new();
    train(&run.open("run", 10), 1);
    let anchor = run.anchor("run", ID);
    fs::write(&anchor, "").unwrap();
    assert_copied(&run.open("run", 11), "its anchor is none");
    fs::remove_file(&anchor).unwrap();
    assert_copied(&run.open("run", 12), "is missing");
    // A new key has no anchor yet: it is another holder.
    let other = AnchorPlace::of_key(&run.path("run/other.key"), &[8; 32]);
    assert!(run.open_at("run", &other, 13).copied().is_none());
}

#[test]
fn an_anchor_that_goes_while_the_ledger_is_open_stops_it() {
    let run = Run::new();
    let ledger = run.open("run", 10);
    train(&ledger, 1);
    fs::remove_file(run.anchor("run", ID)).unwrap();
    // A copy may have bound the row meanwhile, to something else.
    let refused = bind(&ledger, 1, "step 1").expect_err("the change that finds it is granted");
    assert!(matches!(refused, LedgerError::Copied { .. }), "{refused}");
    assert_copied(&ledger, "replaced or removed");
}

#[test]
fn an_adoption_is_in_the_chain_and_in_the_id() {
    let run = Run::new();
    train(&run.open("run", 10), 1);
    run.copy("run", "copy");
    let copy = run.open("copy", 11);
    copy.set_job_state(&id("j"), JobState::Finished).unwrap();
    copy.for_adoption().take_over(&run.key("copy"), ADOPTED, nonce(12)).unwrap();
    let anchor = fs::read_to_string(run.anchor("copy", ADOPTED)).unwrap();
    assert!(anchor.starts_with(r#"{"height":"00000000000000000004""#), "{anchor}");
    drop(copy);
    let adopted = run.open("copy", 13);
    assert!(adopted.copied().is_none());
    assert_eq!(adopted.id().unwrap(), ADOPTED);
    let entries = adopted.entries(&id("j"), 0, 100, 1 << 20).unwrap();
    let last = &entries.last().unwrap().event;
    assert!(last.contains(r#""event":"adopted""#) && last.contains(&ADOPTED.to_string()), "{last}");
    let original = run.open("run", 14);
    assert_eq!(original.id().unwrap(), ID);
    assert!(original.copied().is_none());
}

#[test]
fn ordinary_operations_raise_no_alarm() {
    let run = Run::new();
    train(&run.open("run", 10), 1);
    let calm = |name: &str, opening: u8| {
        let ledger = run.open(name, opening);
        assert!(ledger.copied().is_none(), "{}", ledger.copied().unwrap());
        ledger
    };
    drop(calm("run", 11));
    // A backup is taken while it continues.
    let ledger = calm("run", 12);
    run.copy("run", "backup");
    bind(&ledger, 1, "step 1").unwrap();
    drop(ledger);
    fs::rename(run.path("run"), run.path("moved")).unwrap();
    drop(calm("moved", 13));
    // A program that reads takes nothing up.
    drop(Ledger::open(&run.ledger("moved")).unwrap());
    bind(&calm("moved", 14), 2, "step 2").unwrap();
    // A build without anchors bound a row.
    bind(&Ledger::open(&run.ledger("moved")).unwrap(), 3, "step 3").unwrap();
    bind(&calm("moved", 15), 4, "step 4").unwrap();
}

#[test]
fn a_ledger_from_before_anchors_gets_one() {
    let run = Run::new();
    train(&Ledger::open(&run.ledger("run")).unwrap(), 2);
    let ledger = run.open("run", 10);
    assert!(ledger.copied().is_none() && run.anchor("run", ID).exists());
    drop(ledger);
    run.copy("run", "copy");
    assert_copied(&run.open("copy", 11), "another file");
}

/// A key's folder that can't be written to has no anchor; the file is compared all the same.
#[test]
fn a_key_in_a_read_only_folder_has_no_anchor() {
    let run = Run::new();
    // Not even root creates a file there.
    let place = AnchorPlace::of_key(Path::new("/sys/kernel/job.key"), &[7; 32]);
    train(&run.open_at("run", &place, 10), 1);
    assert!(run.open_at("run", &place, 11).copied().is_none());
    run.copy("run", "copy");
    assert_copied(&run.open_at("copy", &place, 12), "another file");
    assert!(run.open_at("run", &place, 13).copied().is_none());
}

/// A process that ends between the two phases leaves an anchor that announces an opening, and a ledger that may have it.
#[test]
fn an_opening_that_was_cut_short_raises_no_alarm() {
    let run = Run::new();
    train(&run.open("run", 10), 1);
    let anchor = run.anchor("run", ID);
    let settled = fs::read_to_string(&anchor).unwrap();
    let announces = |opening: u8, before: u8| {
        let text = settled.replace(&nonce(before).to_string(), &nonce(opening).to_string());
        let text = text.replace(r#""before":null"#, &format!(r#""before":"{}""#, nonce(before)));
        fs::write(&anchor, text.replace(r#""is_settled":true"#, r#""is_settled":false"#)).unwrap();
    };
    announces(11, 10);
    assert!(run.open("run", 12).copied().is_none());
    // The ledger has the opening already.
    announces(12, 10);
    assert!(run.open("run", 13).copied().is_none());
    // Neither of the two.
    announces(14, 10);
    assert_copied(&run.open("run", 15), "another opening");
}
