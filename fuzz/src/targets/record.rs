//! A worker's record of released rows.

use std::{fs, path::Path, sync::Arc};

use noise_worker::release_log::{ReleaseLog, ReleasedRow};
use proto::{
    Commitment, JobId, Nonce,
    model::{JobIdentity, JobMark},
};
use sha2::{Digest, Sha256};

use super::files::{folder, runtime, without};
use crate::Target;

pub fn targets() -> Vec<Target> {
    vec![
        Target { name: "record", seeds, run: opened, slice: 1_000 },
        Target { name: "record-lines", seeds, run: |bytes| opened(&chained(bytes)), slice: 1_000 },
    ]
}

fn seeds() -> Vec<Vec<u8>> {
    let folder = folder();
    let marks = Arc::new(ReleaseLog::open(Some(folder.path())).expect("a new record"));
    let row = |branch, row, text| ReleasedRow { branch, row, commitment: Commitment::of_text(text) };
    let ledger = Nonce::from_bytes([1; 32]);
    let job = |name| JobIdentity {
        ledger,
        nonce: Nonce::from_bytes([2; 32]),
        job: JobId::new(name).expect("a valid name"),
    };
    let other = JobIdentity { nonce: Nonce::from_bytes([3; 32]), ..job("j2") };
    let noted = async {
        marks.observe_epoch(ledger, 5).await?;
        marks.clone().record(job("job-1"), 0, vec![row(0, 3, "a"), row(0, 4, "b")]).await?;
        marks.observe(ledger, 6, vec![(job("job-1"), 2)]).await?;
        marks.clone().record(job("job-1"), 2, vec![row(2, 4, "c")]).await?;
        marks.clone().record(other, 0, vec![row(0, 0, "a")]).await
    };
    runtime().block_on(noted).expect("a record that is written");
    let whole = fs::read(folder.path().join("released.log")).expect("its bytes");
    vec![whole[..whole.len() - 9].to_vec(), whole]
}

/// Corrects the hashes of the lines, so that the code after that check is reached.
fn chained(bytes: &[u8]) -> Vec<u8> {
    let mut head = [0; 32];
    let mut record = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let whole = line.strip_suffix(b"\n").and_then(|line| line.split_at_checked(65));
        let Some((_, json)) = whole else {
            record.extend(line);
            continue;
        };
        let said = Sha256::new().chain_update(b"rustle mark v2").chain_update(head);
        head = said.chain_update(json).finalize().into();
        record.extend(format!("{} ", hex::encode(head)).bytes().chain(json.iter().copied()));
        record.push(b'\n');
    }
    record
}

fn known(folder: &Path) -> anyhow::Result<Vec<(Nonce, JobMark)>> {
    Ok(ReleaseLog::open(Some(folder))?.all())
}

/// A record is refused and left unchanged, or its first whole lines are kept and give the same record when opened again.
fn opened(bytes: &[u8]) -> String {
    let folder = folder();
    let path = folder.path().join("released.log");
    fs::write(&path, bytes).expect("a file");
    match known(folder.path()) {
        Ok(marks) => {
            let kept = fs::read(&path).expect("what was kept");
            assert!(kept.last().is_none_or(|byte| *byte == b'\n'), "half a line was kept");
            let dropped = bytes.strip_prefix(&kept[..]).expect("what was kept is not what was there");
            assert!(!dropped.contains(&b'\n'), "a whole line was dropped");
            assert_eq!(known(folder.path()).ok(), Some(marks), "opened again, it says something else");
            assert!(fs::read(&path).is_ok_and(|left| left == kept), "opened again, it was changed");
            if dropped.is_empty() { "whole".into() } else { "cut".into() }
        }
        Err(error) => {
            assert!(fs::read(&path).is_ok_and(|left| left == bytes), "a refused record was changed");
            without(&folder, error.root_cause())
        }
    }
}
