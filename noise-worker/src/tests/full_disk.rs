//! A worker whose record can't be written serves nothing more; one that is started where there is space does.

use std::{fs, path::Path, process::Command};

use proto::model::JobIdentity;

use super::*;
use crate::release_log::ReleasedRow;

const SIZE: usize = 64 << 10;

/// A file system of [`SIZE`], gone with the test. `None` where the system gives none.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={SIZE},mode=700");
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path()).status();
        mounted.is_ok_and(|status| status.success()).then(|| Self(folder))
    }

    /// To the last page.
    fn fill(&self) {
        let error = fs::write(self.0.path().join("filler"), vec![0; SIZE]).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    }

    fn free(&self) {
        fs::remove_file(self.0.path().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

fn opened(folder: &Path) -> Worker {
    Worker::with_release_log(ReleaseLog::open(Some(folder)).unwrap(), grant(), Duration::ZERO)
}

/// Rows of another job, until the record's page has room for two lines and not for four.
async fn a_page_nearly_full(worker: &Worker, folder: &Path) {
    for row in 0.. {
        let length = fs::metadata(folder.join("released.log")).unwrap().len();
        if length > 4_096 - 600 {
            break;
        }
        let released = ReleasedRow { branch: 0, row, commitment: Commitment::of_text("step") };
        let other = JobIdentity { nonce: Nonce::from_bytes([8; 32]), ..grant().identity() };
        worker.leases.release_log.clone().record(other, 0, vec![released]).await.unwrap();
    }
}

#[tokio::test]
async fn a_full_disk_ends_all_releases_and_loses_none() {
    let Some(disk) = SmallDisk::new() else {
        eprintln!("SKIPPED: a small tmpfs can't be mounted here; it takes root");
        return;
    };
    let folder = disk.0.path().join("state");
    let worker = opened(&folder);
    a_page_nearly_full(&worker, &folder).await;
    disk.fill();
    let mut released = vec![];
    let error = loop {
        let row = released.len() as u64;
        match worker.fetch(request(row)).await {
            Ok(values) => released.push(values),
            Err(error) => break error,
        }
    };
    assert!(!released.is_empty() && released.len() < 4, "{} rows", released.len());
    assert_eq!(error.kind(), "store");
    assert!(error.to_string().contains("No space left"), "{error}");
    let next_row = released.len() as u64;
    disk.free();
    for row in 0..8 {
        assert_eq!(worker.refused(request(row)), "store", "row {row} of a worker that lost its record");
    }

    // Another worker on the same bytes: the lock on the file itself ends with this process.
    let again = disk.0.path().join("again");
    fs::create_dir(&again).unwrap();
    fs::copy(folder.join("released.log"), again.join("released.log")).unwrap();
    let worker = opened(&again);
    let mark = worker.leases.release_log.all().into_iter().find(|(_, mark)| mark.nonce == NONCE).unwrap().1;
    assert_eq!(mark.next_row, next_row, "every row that left, and no other");
    for (row, values) in (0..).zip(&released) {
        let other = ReleasedRow { branch: 0, row, commitment: Commitment::of_text("another") };
        let refused = worker.leases.release_log.check(&grant().identity(), 0, &[other]).unwrap_err();
        assert_eq!(refused.kind(), "already_bound");
        assert_eq!(worker.fetch(request(row)).await.unwrap(), *values);
    }
    assert_eq!(worker.fetch(request(next_row)).await.unwrap(), expected(next_row, RANGE));
}
