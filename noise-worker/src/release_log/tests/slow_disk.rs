//! Requests and heartbeats while the disk is slow, and after it has failed.

use super::*;

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
        marks.mark_reported(&WorkerRecord::default());
        let _ =
            answer.send((unreported(&marks), marks.has_failed(), marks.check(&job(), asks.branch, &[asks])));
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
    let mark = mark(0, 4, "a");
    assert_eq!(unreported(&marks), std::slice::from_ref(&mark));
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
    assert_eq!(unreported(&marks), [mark]);
}
