use std::{fs, io};

use tempfile::TempDir;

use super::*;

/// In memory where there is one: thousands of records are opened here.
fn folder() -> TempDir {
    let shared = Path::new("/dev/shm");
    let folder = if shared.is_dir() { TempDir::new_in(shared) } else { TempDir::new() };
    folder.unwrap()
}

fn job() -> JobId {
    JobId::new("j").unwrap()
}

fn row(branch: u64, row: u64, text: &str) -> ReleasedRow {
    ReleasedRow { branch, row, commitment: Commitment::of_text(text) }
}

async fn noted(folder: &Path) {
    let marks = Arc::new(ReleaseLog::open(Some(folder)).unwrap());
    marks.observe_epoch(5).await.unwrap();
    marks.clone().record(job(), 0, vec![row(0, 3, "a"), row(0, 4, "b")]).await.unwrap();
    marks.observe(5, vec![(job(), 2)]).await.unwrap();
    marks.clone().record(job(), 2, vec![row(0, 3, "a"), row(2, 4, "c")]).await.unwrap();
}

#[tokio::test]
async fn what_was_released_is_known_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    noted(folder.path()).await;
    let marks = Arc::new(ReleaseLog::open(Some(folder.path())).unwrap());
    let mark = |branch, next_row| JobMark { job: job(), branch, next_row };
    assert_eq!(
        marks.all(),
        [mark(2, 5), mark(0, 5)],
        "a branch takes back nothing that was released before it"
    );
    assert_eq!(marks.check(&job(), 2, &[row(0, 3, "a"), row(2, 4, "c"), row(2, 5, "d")]), Ok(()));
    let other = marks.check(&job(), 2, &[row(2, 4, "d")]).unwrap_err();
    assert!(matches!(other, ServiceError::AlreadyBound { branch: 2, row: 4, .. }), "{other}");
    let noted = marks.clone().record(job(), 2, vec![row(0, 3, "x")]).await.unwrap_err();
    assert!(matches!(noted, ServiceError::AlreadyBound { branch: 0, row: 3, .. }), "{noted}");
    let old = marks.check(&job(), 1, &[row(0, 3, "a")]).unwrap_err();
    assert!(matches!(old, ServiceError::BranchSuperseded { current: 2, .. }), "{old}");
    let stale = marks.observe_epoch(4).await.unwrap_err();
    assert!(matches!(stale, ServiceError::StaleEpoch { presented: 4, current: 5 }), "{stale}");
    assert_eq!(marks.unreported().len(), 2);
    marks.mark_reported(&marks.unreported());
    assert_eq!(marks.unreported(), []);
    marks.observe(5, vec![(job(), 3)]).await.unwrap();
    assert_eq!(marks.unreported(), [mark(3, 0)]);
    marks.forget_reported();
    assert_eq!(marks.unreported(), [mark(3, 0), mark(2, 5), mark(0, 5)]);
}

#[tokio::test]
async fn a_record_of_any_size_is_reported_in_parts() {
    let folder = folder();
    let marks = Arc::new(ReleaseLog::open(Some(folder.path())).unwrap());
    let name = |number: usize| JobId::new(format!("job-{number}")).unwrap();
    let jobs = MAX_MARKS + 10;
    let lines: Vec<_> = (0..jobs).map(|number| Line::Branch { job: name(number), branch: 1 }).collect();
    marks.clone().blocking(|_| Ok(lines)).await.unwrap();
    let first = marks.unreported();
    marks.mark_reported(&first);
    let second = marks.unreported();
    marks.mark_reported(&second);
    assert_eq!((first.len(), second.len(), marks.unreported().len()), (MAX_MARKS, 10, 0));
}

/// A worker may hold hundreds of shards of one job, each with a lease that names the job's branch.
#[tokio::test]
async fn a_branch_of_many_leases_is_recorded_once() {
    let folder = folder();
    let log = Arc::new(ReleaseLog::open(Some(folder.path())).unwrap());
    let grants = [vec![(job(), 1); 200], vec![(job(), 2); 200]].concat();
    log.observe(1, grants.clone()).await.unwrap();
    log.observe(2, grants).await.unwrap();
    let text = fs::read_to_string(folder.path().join("released.log")).unwrap();
    assert_eq!(text.lines().count(), 3, "two epochs and one branch:\n{text}");
    assert_eq!(text.matches("\"branch\":{").count(), 1, "{text}");
}

/// What `noted` leaves known after each of its lines: an epoch, rows 3 and 4 of branch 0, branch 2, its row 4.
fn known_after(lines: usize) -> Vec<JobMark> {
    let known: [&[(u64, u64)]; 6] = [&[], &[], &[(0, 4)], &[(0, 5)], &[(2, 0), (0, 5)], &[(2, 5), (0, 5)]];
    known[lines].iter().map(|&(branch, next_row)| JobMark { job: job(), branch, next_row }).collect()
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
        assert_eq!(marks.all(), known_after(lines.len()), "cut to {length}");
        assert_eq!(fs::read(&path).unwrap(), lines.concat(), "cut to {length}");
        assert_eq!(marks.observe_epoch(4).await.is_err(), !lines.is_empty(), "cut to {length}");
        // The log continues where it was cut.
        marks.clone().record(job(), 2, vec![row(2, 7, "d")]).await.unwrap();
        drop(marks);
        let marks = ReleaseLog::open(Some(folder.path())).unwrap();
        let mut known = known_after(lines.len());
        known.retain(|mark| mark.branch < 2);
        known.insert(0, JobMark { job: job(), branch: 2, next_row: 8 });
        assert_eq!(marks.all(), known, "cut to {length}");
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
        assert_eq!(marks.all(), known_after(4), "zeros from {written}");
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

#[test]
fn a_folder_has_one_worker() {
    let folder = tempfile::tempdir().unwrap();
    let _held = ReleaseLog::open(Some(folder.path())).unwrap();
    let error = format!("{:#}", ReleaseLog::open(Some(folder.path())).err().unwrap());
    assert!(error.contains("another worker"), "{error}");
}

/// A disk whose delays and failures the test chooses.
struct Slow {
    begun: tokio::sync::mpsc::UnboundedSender<()>,
    outcome: std::sync::mpsc::Receiver<io::Result<()>>,
}

impl LineStore for Slow {
    fn append(&mut self, _: &[Line]) -> io::Result<()> {
        let _ = self.begun.send(());
        self.outcome.recv().unwrap_or_else(|_| Err(io::Error::other("the test is over")))
    }
}

/// What heartbeats and requests ask: the marks, whether a write failed, and whether a row may go. `None`: they wait.
fn asked(marks: &Arc<ReleaseLog>, asks: ReleasedRow) -> Option<(Vec<JobMark>, bool, Result<()>)> {
    let marks = marks.clone();
    let (answer, answered) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        marks.mark_reported(&[]);
        let _ =
            answer.send((marks.unreported(), marks.has_failed(), marks.check(&job(), asks.branch, &[asks])));
    });
    answered.recv_timeout(std::time::Duration::from_secs(10)).ok()
}

/// A heartbeat that waits for a disk of a few seconds loses the lease.
#[tokio::test]
async fn no_reader_waits_for_the_disk() {
    let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
    let (disk, outcome) = std::sync::mpsc::channel();
    let marks = Arc::new(ReleaseLog::with_store(Box::new(Slow { begun, outcome })));
    let other = row(0, 3, "other");
    let noting = tokio::spawn(marks.clone().record(job(), 0, vec![row(0, 3, "a")]));
    begins.recv().await.unwrap();
    // Known only once it is on disk.
    assert_eq!(asked(&marks, other), Some((vec![], false, Ok(()))), "they waited");
    assert!(!noting.is_finished());
    // Who wants to write waits, and is then refused by what was written.
    let refused = tokio::spawn(marks.clone().record(job(), 0, vec![other]));
    tokio::task::yield_now().await;
    disk.send(Ok(())).unwrap();
    noting.await.unwrap().unwrap();
    let error = refused.await.unwrap().unwrap_err();
    assert!(matches!(error, ServiceError::AlreadyBound { row: 3, .. }), "{error}");
    let mark = JobMark { job: job(), branch: 0, next_row: 4 };
    assert_eq!(marks.unreported(), std::slice::from_ref(&mark));
    // A second one waits at a disk that then fails, and writes nothing any more.
    let failing = tokio::spawn(marks.clone().record(job(), 0, vec![row(0, 4, "a")]));
    begins.recv().await.unwrap();
    let behind = tokio::spawn(marks.clone().record(job(), 0, vec![row(0, 5, "a")]));
    tokio::task::yield_now().await;
    disk.send(Err(io::Error::other("broken"))).unwrap();
    drop(disk);
    for noted in [failing, behind] {
        assert_eq!(noted.await.unwrap().unwrap_err().kind(), "store");
    }
    assert!(begins.try_recv().is_err(), "it was written to after it had failed");
    assert!(marks.has_failed());
    assert_eq!(marks.unreported(), [mark]);
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
