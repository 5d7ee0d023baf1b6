//! Tests the worker's record of released rows under concurrent requests for the same rows.

#![allow(clippy::unwrap_used)]

use std::{io, sync::Arc};

use proto::{Commitment, JobId, Nonce, Result, ServiceError, model::JobIdentity};
use schedules::{
    each_schedule,
    release_log::{Line, LineStore, ReleaseLog, ReleasedRow},
};
use shuttle::{
    future::{self, JoinHandle, block_on},
    sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    thread,
};

const LEDGER: Nonce = Nonce::from_bytes([1; 32]);

fn job() -> JobIdentity {
    JobIdentity { ledger: LEDGER, nonce: Nonce::from_bytes([2; 32]), job: JobId::new("j").unwrap() }
}

/// Branch and next row of all marks.
fn heights(log: &ReleaseLog) -> Vec<(u64, u64)> {
    log.all().into_iter().map(|(_, mark)| (mark.branch, mark.next_row)).collect()
}

fn record() -> Arc<ReleaseLog> {
    Arc::new(ReleaseLog::open(None).unwrap())
}

fn released(branch: u64, rows: &[u64], text: &str) -> Vec<ReleasedRow> {
    let commitment = Commitment::of_text(text);
    rows.iter().map(|&row| ReleasedRow { branch, row, commitment }).collect()
}

fn note(
    marks: &Arc<ReleaseLog>,
    rows: &'static [u64],
    text: &'static str,
) -> JoinHandle<(&'static str, Result<()>)> {
    let noting = marks.clone().record(job(), 0, released(0, rows, text));
    future::spawn(async move { (text, noting.await) })
}

/// Asks for both commitments in turn. One that was refused once is refused for ever, and they never both are.
fn watch(marks: &ReleaseLog) {
    let mut refused = None;
    for _ in 0..4 {
        for text in ["a", "b"] {
            let is_refused = marks.check(&job(), 0, &released(0, &[3, 4], text)).is_err();
            assert!(is_refused || refused != Some(text), "{text} was refused, and is allowed");
            if is_refused {
                assert_eq!(*refused.get_or_insert(text), text, "both are refused");
            }
        }
    }
}

#[test]
fn of_two_commitments_for_the_same_rows_one_is_noted() {
    each_schedule(|| {
        let marks = record();
        let noting = [note(&marks, &[3, 4], "a"), note(&marks, &[4, 3], "b"), note(&marks, &[3, 4], "a")];
        let watched = marks.clone();
        let watcher = thread::spawn(move || watch(&watched));
        let noted = noting.map(|noting| block_on(noting).unwrap());
        watcher.join().unwrap();
        let taken = noted.iter().find(|(_, noted)| noted.is_ok()).unwrap().0;
        for (text, noted) in noted {
            match noted {
                Ok(()) => assert_eq!(text, taken, "both were noted"),
                Err(ServiceError::AlreadyBound { branch: 0, row: 3 | 4, .. }) => assert_ne!(text, taken),
                Err(other) => panic!("{other}"),
            }
        }
        assert_eq!(heights(&marks), [(0, 5)]);
    });
}

#[test]
fn nothing_is_noted_on_a_branch_once_the_next_was_seen() {
    each_schedule(|| {
        let marks = record();
        let was_seen = Arc::new(AtomicBool::new(false));
        let seeing = marks.clone();
        let seen = was_seen.clone();
        let next = future::spawn(async move {
            seeing.observe(LEDGER, 2, vec![(job(), 1)]).await.unwrap();
            seen.store(true, SeqCst);
            seeing.record(job(), 1, released(1, &[2], "c")).await
        });
        let noting = marks.clone();
        let old = future::spawn(async move {
            for row in [5, 6, 7] {
                let came_late = was_seen.load(SeqCst);
                match noting.clone().record(job(), 0, released(0, &[row], "a")).await {
                    Ok(()) => assert!(!came_late, "row {row} was noted on the branch that was left"),
                    Err(ServiceError::BranchSuperseded { current: 1, .. }) => {}
                    Err(other) => panic!("{other}"),
                }
                let came_late = was_seen.load(SeqCst);
                match noting.observe_epoch(LEDGER, 1).await {
                    Ok(()) => assert!(!came_late, "an old coordinator was believed"),
                    Err(ServiceError::StaleEpoch { presented: 1, current: 2 }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        });
        block_on(old).unwrap();
        block_on(next).unwrap().unwrap();
        // And before it what was noted of the branch that was left, if anything was.
        let heights = heights(&marks);
        assert_eq!(heights[0], (1, 3));
        assert!(heights[1..].iter().all(|(branch, next_row)| *branch == 0 && *next_row >= 6));
    });
}

/// A disk at which others go on meanwhile, and which fails the second time.
#[derive(Clone, Default)]
struct Disk {
    writes: Arc<AtomicU64>,
    is_written: Arc<AtomicBool>,
}

impl LineStore for Disk {
    fn append(&mut self, _: &[Line]) -> io::Result<()> {
        let before = self.writes.fetch_add(1, SeqCst);
        thread::yield_now();
        match before {
            0 => self.is_written.store(true, SeqCst),
            _ => return Err(io::Error::other("broken")),
        }
        Ok(())
    }
}

#[test]
fn a_row_is_known_once_it_is_written_and_nothing_is_written_after_a_failure() {
    each_schedule(|| {
        let disk = Disk::default();
        let marks = Arc::new(ReleaseLog::with_store(Box::new(disk.clone())));
        let noting = [note(&marks, &[3], "a"), note(&marks, &[4], "a"), note(&marks, &[5], "a")];
        let asked = marks.clone();
        let is_written = disk.is_written.clone();
        let watcher = thread::spawn(move || {
            for _ in 0..4 {
                let known = asked.unreported(LEDGER).marks;
                assert!(known.is_empty() || is_written.load(SeqCst), "{known:?} before it was written");
            }
        });
        let noted = noting.map(|noting| block_on(noting).unwrap().1);
        watcher.join().unwrap();
        assert_eq!(disk.writes.load(SeqCst), 2, "the disk was written to after it had failed");
        let rows: Vec<_> = (3..).zip(&noted).filter(|(_, noted)| noted.is_ok()).collect();
        assert_eq!(rows.len(), 1, "{noted:?}");
        assert_eq!(heights(&marks), [(0, rows[0].0 + 1)]);
        assert!(marks.has_failed());
    });
}
