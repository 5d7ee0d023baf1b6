use std::{fs, io};

use proto::JobId;
use sha2::{Digest, Sha256};
use tempfile::TempDir;

use super::*;

mod slow_disk;

/// In memory where there is one: thousands of records are opened here.
fn folder() -> TempDir {
    let shared = Path::new("/dev/shm");
    let folder = if shared.is_dir() { TempDir::new_in(shared) } else { TempDir::new() };
    folder.unwrap()
}

const LEDGER: Nonce = Nonce::from_bytes([1; 32]);

fn job_in(ledger: Nonce) -> JobIdentity {
    JobIdentity { ledger, nonce: Nonce::from_bytes([2; 32]), job: JobId::new("j").unwrap() }
}

fn job() -> JobIdentity {
    job_in(LEDGER)
}

/// The mark of a job that released up to `next_row`, the last row under the commitment `text`.
fn mark(branch: u64, next_row: u64, text: &str) -> JobMark {
    let commitment = (next_row > 0).then(|| Commitment::of_text(text));
    JobMark { job: job().job, nonce: job().nonce, branch, next_row, commitment }
}

fn all(log: &ReleaseLog) -> Vec<JobMark> {
    log.all().into_iter().filter(|(ledger, _)| *ledger == LEDGER).map(|(_, mark)| mark).collect()
}

fn unreported(log: &ReleaseLog) -> Vec<JobMark> {
    log.unreported(LEDGER).marks
}

fn row(branch: u64, row: u64, text: &str) -> ReleasedRow {
    ReleasedRow { branch, row, commitment: Commitment::of_text(text) }
}

async fn noted(folder: &Path) {
    let marks = Arc::new(ReleaseLog::open(Some(folder)).unwrap());
    marks.observe_epoch(LEDGER, 5).await.unwrap();
    marks.clone().record(job(), 0, vec![row(0, 3, "a"), row(0, 4, "b")]).await.unwrap();
    marks.observe(LEDGER, 5, vec![(job(), 2)]).await.unwrap();
    marks.clone().record(job(), 2, vec![row(0, 3, "a"), row(2, 4, "c")]).await.unwrap();
}

#[tokio::test]
async fn what_was_released_is_known_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    noted(folder.path()).await;
    let marks = Arc::new(ReleaseLog::open(Some(folder.path())).unwrap());
    assert_eq!(
        all(&marks),
        [mark(2, 5, "c"), mark(0, 5, "b")],
        "a branch takes back nothing that was released before it"
    );
    assert_eq!(marks.check(&job(), 2, &[row(0, 3, "a"), row(2, 4, "c"), row(2, 5, "d")]), Ok(()));
    let other = marks.check(&job(), 2, &[row(2, 4, "d")]).unwrap_err();
    assert!(matches!(other, ServiceError::AlreadyBound { branch: 2, row: 4, .. }), "{other}");
    let noted = marks.clone().record(job(), 2, vec![row(0, 3, "x")]).await.unwrap_err();
    assert!(matches!(noted, ServiceError::AlreadyBound { branch: 0, row: 3, .. }), "{noted}");
    let old = marks.check(&job(), 1, &[row(0, 3, "a")]).unwrap_err();
    assert!(matches!(old, ServiceError::BranchSuperseded { current: 2, .. }), "{old}");
    let stale = marks.observe_epoch(LEDGER, 4).await.unwrap_err();
    assert!(matches!(stale, ServiceError::StaleEpoch { presented: 4, current: 5 }), "{stale}");
    assert_eq!(unreported(&marks).len(), 2);
    marks.mark_reported(&marks.unreported(LEDGER));
    assert_eq!(unreported(&marks), []);
    marks.observe(LEDGER, 5, vec![(job(), 3)]).await.unwrap();
    assert_eq!(unreported(&marks), [mark(3, 0, "")]);
    marks.forget_reported();
    assert_eq!(unreported(&marks), [mark(3, 0, ""), mark(2, 5, "c"), mark(0, 5, "b")]);
}

/// A cluster that was begun anew on an old worker's host has jobs of the same names, and epochs that begin again.
#[tokio::test]
async fn what_was_released_for_another_ledger_says_nothing_and_stays() {
    let folder = tempfile::tempdir().unwrap();
    noted(folder.path()).await;
    let other = Nonce::from_bytes([9; 32]);
    let marks = Arc::new(ReleaseLog::open(Some(folder.path())).unwrap());
    assert_eq!(marks.latest_ledger(), Some(LEDGER));
    marks.observe_epoch(other, 1).await.unwrap();
    assert_eq!(
        marks.unreported(other),
        WorkerRecord { ledger: Some(other), highest_epoch: 1, marks: vec![] }
    );
    marks.clone().record(job_in(other), 0, vec![row(0, 3, "x")]).await.unwrap();
    assert_eq!(marks.unreported(other).marks, [mark(0, 4, "x")]);
    drop(marks);
    let marks = Arc::new(ReleaseLog::open(Some(folder.path())).unwrap());
    assert_eq!((marks.latest_ledger(), all(&marks).len()), (Some(other), 2));
    assert_eq!(all(&marks), [mark(2, 5, "c"), mark(0, 5, "b")]);
    assert_eq!(marks.unreported(LEDGER).highest_epoch, 5);
    assert!(marks.check(&job(), 2, &[row(0, 3, "x")]).is_err());
    let stale = marks.observe_epoch(LEDGER, 4).await.unwrap_err();
    assert!(matches!(stale, ServiceError::StaleEpoch { presented: 4, current: 5 }), "{stale}");
    // A job of the same name that this ledger created anew is another, too.
    let anew = JobIdentity { nonce: Nonce::from_bytes([3; 32]), ..job() };
    assert_eq!(marks.check(&anew, 0, &[row(0, 3, "x")]), Ok(()));
}

#[tokio::test]
async fn a_record_of_any_size_is_reported_in_parts() {
    let folder = folder();
    let marks = Arc::new(ReleaseLog::open(Some(folder.path())).unwrap());
    let named = |number: usize| {
        let nonce = Nonce::from_bytes(std::array::from_fn(|at| (number >> (8 * (at % 4))) as u8));
        JobIdentity { nonce, job: JobId::new(format!("job-{number}")).unwrap(), ..job() }
    };
    let branches = (0..MAX_MARKS + 10).map(|number| (named(number), 1)).collect();
    marks.observe(LEDGER, 0, branches).await.unwrap();
    let first = marks.unreported(LEDGER);
    marks.mark_reported(&first);
    let second = marks.unreported(LEDGER);
    marks.mark_reported(&second);
    assert_eq!((first.marks.len(), second.marks.len(), unreported(&marks).len()), (MAX_MARKS, 10, 0));
}

/// A worker may hold hundreds of shards of one job, each with a lease that names the job's branch.
#[tokio::test]
async fn a_branch_of_many_leases_is_recorded_once() {
    let folder = folder();
    let log = Arc::new(ReleaseLog::open(Some(folder.path())).unwrap());
    let grants = [vec![(job(), 1); 200], vec![(job(), 2); 200]].concat();
    log.observe(LEDGER, 1, grants.clone()).await.unwrap();
    log.observe(LEDGER, 2, grants).await.unwrap();
    let text = fs::read_to_string(folder.path().join("released.log")).unwrap();
    assert_eq!(text.lines().count(), 4, "two epochs, a job and one branch:\n{text}");
    assert_eq!(text.matches("\"branch\":{").count(), 1, "{text}");
}

/// What `noted` leaves known after each of its lines: an epoch, the job, rows 3 and 4 of branch 0, branch 2, its row 4.
fn known_after(lines: usize) -> Vec<JobMark> {
    let before = mark(0, 5, "b");
    match lines {
        0 | 1 => vec![],
        2 => vec![mark(0, 0, "")],
        3 => vec![mark(0, 4, "a")],
        4 => vec![before],
        5 => vec![mark(2, 0, ""), before],
        _ => vec![mark(2, 5, "c"), before],
    }
}

#[tokio::test]
async fn of_a_record_cut_at_any_length_the_whole_lines_are_kept_and_nothing_else() {
    let folder = folder();
    noted(folder.path()).await;
    let path = folder.path().join("released.log");
    let whole = fs::read(&path).unwrap();
    for length in 0..=whole.len() {
        let lines: Vec<_> = whole[..length].split_inclusive(|byte| *byte == b'\n').collect();
        let lines: Vec<_> = lines.into_iter().filter(|line| line.ends_with(b"\n")).collect();
        fs::write(&path, &whole[..length]).unwrap();
        let marks = Arc::new(ReleaseLog::open(Some(folder.path())).unwrap());
        assert_eq!(all(&marks), known_after(lines.len()), "cut to {length}");
        assert_eq!(fs::read(&path).unwrap(), lines.concat(), "cut to {length}");
        assert_eq!(marks.observe_epoch(LEDGER, 4).await.is_err(), !lines.is_empty(), "cut to {length}");
        // The log continues where it was cut.
        marks.clone().record(job(), 2, vec![row(2, 7, "d")]).await.unwrap();
        drop(marks);
        let marks = ReleaseLog::open(Some(folder.path())).unwrap();
        let mut known = known_after(lines.len());
        known.retain(|mark| mark.branch < 2 && mark.next_row > 0);
        known.insert(0, mark(2, 8, "d"));
        assert_eq!(all(&marks), known, "cut to {length}");
        assert!(fs::read(&path).unwrap().starts_with(&lines.concat()), "cut to {length}");
    }
    println!("cut at {} lengths", whole.len() + 1);
}

#[tokio::test]
async fn a_record_with_any_bit_flipped_is_refused_and_left_as_it_is() {
    let folder = folder();
    noted(folder.path()).await;
    let path = folder.path().join("released.log");
    let whole = fs::read(&path).unwrap();
    for (at, bit) in (0..whole.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << bit;
        fs::write(&path, &flipped).unwrap();
        let error = format!("{:#}", ReleaseLog::open(Some(folder.path())).err().expect("it is opened"));
        let line = 1 + whole[..at].iter().filter(|byte| **byte == b'\n').count();
        assert!(error.contains(&format!("damaged in line {line};")), "bit {bit} of byte {at}: {error}");
        assert!(fs::read(&path).unwrap() == flipped, "bit {bit} of byte {at}: the record was changed");
    }
    println!("{} bits flipped", whole.len() * 8);
}

/// A disk that had not written its last byte when the power went shows a zero there: as good as cut.
#[tokio::test]
async fn zeros_in_place_of_an_end_are_dropped() {
    let folder = folder();
    noted(folder.path()).await;
    let path = folder.path().join("released.log");
    let whole = fs::read(&path).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    for written in last..whole.len() {
        let mut zeroed = whole.clone();
        zeroed[written..].fill(0);
        fs::write(&path, &zeroed).unwrap();
        let marks = ReleaseLog::open(Some(folder.path())).unwrap();
        assert_eq!(all(&marks), known_after(5), "zeros from {written}");
    }
}

#[tokio::test]
async fn what_a_newer_build_wrote_is_refused_as_that() {
    let folder = tempfile::tempdir().unwrap();
    noted(folder.path()).await;
    let path = folder.path().join("released.log");
    let before = fs::read_to_string(&path).unwrap();
    let last = before.lines().last().unwrap();
    let json = br#"{"moon":{"phase":4}}"#;
    let head = file::chained(&hex::decode(&last[..64]).unwrap().try_into().unwrap(), json);
    let text = format!("{before}{} {}\n", hex::encode(head), std::str::from_utf8(json).unwrap());
    fs::write(&path, &text).unwrap();
    let error = format!("{:#}", ReleaseLog::open(Some(folder.path())).err().unwrap());
    assert!(error.contains("newer build") && error.contains("moon"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), text, "the record was changed");
}

/// The format before has rows of jobs by name: whichever ledger they were of, they must not pass for nothing.
#[test]
fn the_format_before_is_refused_as_that() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("released.log");
    let json = r#"{"row":{"job":"j","branch":0,"row":3,"commitment":"01"}}"#;
    let hash =
        Sha256::new().chain_update(b"rustle mark v1").chain_update([0; 32]).chain_update(json).finalize();
    for end in ["\n", ""] {
        let text = format!("{} {json}{end}", hex::encode(hash));
        fs::write(&path, &text).unwrap();
        let error = format!("{:#}", ReleaseLog::open(Some(folder.path())).err().unwrap());
        assert!(error.contains("format 1") && error.contains("another folder"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "the record was changed");
    }
}

#[test]
fn a_folder_has_one_worker() {
    let folder = tempfile::tempdir().unwrap();
    let _held = ReleaseLog::open(Some(folder.path())).unwrap();
    let error = format!("{:#}", ReleaseLog::open(Some(folder.path())).err().unwrap());
    assert!(error.contains("another worker"), "{error}");
}

/// `rustle plan resources` reckons with 100 bytes a row.
#[tokio::test]
async fn a_row_takes_as_much_memory_as_is_said() {
    const TOGETHER: u64 = 1_000;
    const NOTES: u64 = 1_000;
    let marks = Arc::new(ReleaseLog::open(None).unwrap());
    let before = resident_bytes();
    for note in 0..NOTES {
        let rows = (note * TOGETHER..(note + 1) * TOGETHER).map(|number| row(0, number, "a")).collect();
        marks.clone().record(job(), 0, rows).await.unwrap();
    }
    let taken = resident_bytes().saturating_sub(before) / (NOTES * TOGETHER);
    assert!((48..=100).contains(&taken), "{taken} bytes a row");
}

/// The resident memory of this process. (`tests/schedules` compiles this file too, without `node::process::memory`.)
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}
