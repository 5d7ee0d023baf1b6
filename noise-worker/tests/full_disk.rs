//! The worker's record where an append fails after any of its bytes: the system writes so many and no more.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::{fs, path::Path, sync::Arc};

use noise_worker::release_log::{ReleaseLog, ReleasedRow};
use proto::{
    Commitment, JobId, Nonce, ServiceError,
    model::{JobIdentity, JobMark},
};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};

/// In memory where there is one: some hundred records are written here.
fn folder() -> TempDir {
    let shared = Path::new("/dev/shm");
    let folder = if shared.is_dir() { TempDir::new_in(shared) } else { TempDir::new() };
    folder.unwrap()
}

const LEDGER: Nonce = Nonce::from_bytes([1; 32]);

fn job() -> JobIdentity {
    JobIdentity { ledger: LEDGER, nonce: Nonce::from_bytes([2; 32]), job: JobId::new("j").unwrap() }
}

fn rows(rows: std::ops::Range<u64>, text: &str) -> Vec<ReleasedRow> {
    let commitment = Commitment::of_text(text);
    rows.map(|row| ReleasedRow { branch: 3, row, commitment }).collect()
}

fn next_row(marks: &ReleaseLog) -> u64 {
    let [(LEDGER, JobMark { next_row, branch: 3, .. })] = marks.all()[..] else {
        panic!("{:?}", marks.all())
    };
    next_row
}

/// Files of this process grow no further: a write is cut there, and the next one fails.
fn allow(length: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    setrlimit(Resource::Fsize, Rlimit { current: length.or(maximum), maximum }).unwrap();
}

/// Rows 0 and 1 are on disk.
async fn begun(folder: &Path) -> (Arc<ReleaseLog>, Vec<u8>) {
    let marks = Arc::new(ReleaseLog::open(Some(folder)).unwrap());
    marks.observe_epoch(LEDGER, 5).await.unwrap();
    marks.clone().record(job(), 3, rows(0..2, "a")).await.unwrap();
    (marks, fs::read(folder.join("released.log")).unwrap())
}

/// What rows 2 and 3 add.
async fn an_append() -> Vec<u8> {
    let folder = folder();
    let (marks, before) = begun(folder.path()).await;
    marks.record(job(), 3, rows(2..4, "b")).await.unwrap();
    fs::read(folder.path().join("released.log")).unwrap().split_off(before.len())
}

async fn refuses_everything(marks: &Arc<ReleaseLog>) {
    let is_refused = |result: proto::Result<()>| matches!(result, Err(ServiceError::Store { .. }));
    for (asked, text) in [(0..1, "a"), (2..4, "b"), (4..5, "c")] {
        assert!(is_refused(marks.check(&job(), 3, &rows(asked.clone(), text))), "rows {asked:?}");
        assert!(
            is_refused(marks.clone().record(job(), 3, rows(asked.clone(), text)).await),
            "rows {asked:?}"
        );
    }
    assert!(
        is_refused(marks.observe_epoch(LEDGER, 5).await) && is_refused(marks.observe_epoch(LEDGER, 6).await)
    );
    assert!(is_refused(marks.observe(LEDGER, 5, vec![(job(), 4)]).await));
}

/// Opened again, it has what was acknowledged, and whole lines of what was not.
async fn can_continue(folder: &Path, before: &[u8], added: &[u8], length: usize) {
    let path = folder.join("released.log");
    let marks = Arc::new(ReleaseLog::open(Some(folder)).unwrap());
    let whole = added[..length].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    assert_eq!(fs::read(&path).unwrap(), [before, &added[..whole]].concat(), "at {length}");
    let kept = added[..whole].iter().filter(|byte| **byte == b'\n').count() as u64;
    assert_eq!(next_row(&marks), 2 + kept, "at {length}");
    let other = marks.check(&job(), 3, &rows(0..2, "b")).unwrap_err();
    assert!(matches!(other, ServiceError::AlreadyBound { row: 0, .. }), "{other}");
    // The ledger holds the same bindings as before, so the same rows are requested again.
    marks.clone().record(job(), 3, rows(2..4, "b")).await.unwrap();
    drop(marks);
    assert_eq!(fs::read(&path).unwrap(), [before, added].concat(), "at {length}");
    assert_eq!(next_row(&ReleaseLog::open(Some(folder)).unwrap()), 4);
}

/// One test alone in this file: the limit is the whole process's.
#[tokio::test]
async fn an_append_that_fails_after_any_of_its_bytes_loses_nothing_and_ends_all_releases() {
    // Else the signal that comes with the error would end this process.
    let _caught = signal(SignalKind::from_raw(Signal::XFSZ.as_raw())).unwrap();
    let added = an_append().await;
    for length in 0..added.len() {
        let folder = folder();
        let (marks, before) = begun(folder.path()).await;
        allow(Some((before.len() + length) as u64));
        let failed = marks.clone().record(job(), 3, rows(2..4, "b")).await;
        refuses_everything(&marks).await;
        allow(None);
        let Err(ServiceError::Store { reason }) = failed else { panic!("at {length}: {failed:?}") };
        assert!(reason.contains("record of released rows can't be written"), "{reason}");
        let left = fs::read(folder.path().join("released.log")).unwrap();
        assert_eq!(left, [&before, &added[..length]].concat(), "at {length}");
        // There is room again, but this process does not know what was written: it still refuses.
        refuses_everything(&marks).await;
        assert_eq!(fs::read(folder.path().join("released.log")).unwrap(), left, "at {length}");
        drop(marks);
        can_continue(folder.path(), &before, &added, length).await;
    }
    println!("{} lengths of an append", added.len());
}
