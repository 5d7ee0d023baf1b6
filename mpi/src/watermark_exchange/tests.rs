use std::sync::Arc;

use noise_worker::release_log::ReleasedRow;
use proto::model::JobIdentity;

use super::*;

const LEDGER: Nonce = Nonce::from_bytes([1; 32]);
const NONCE: Nonce = Nonce::from_bytes([2; 32]);

fn job(name: &str) -> JobId {
    JobId::new(name).unwrap()
}

async fn release(log: &Arc<ReleaseLog>, job: &JobId, branch: u64, row: u64) {
    let nonce = if job.as_str() == "j" { NONCE } else { Nonce::from_bytes([3; 32]) };
    let job = JobIdentity { ledger: LEDGER, nonce, job: job.clone() };
    let released = ReleasedRow { branch, row, commitment: Commitment::of_text(&format!("step {row}")) };
    log.clone().record(job, branch, vec![released]).await.unwrap();
}

fn of_branch(watermarks: &Watermarks, branch: u64) -> (Release, Rank) {
    watermarks.0[&(LEDGER, NONCE, branch)][0]
}

fn up_to(next_row: u64) -> Release {
    Release { next_row, commitment: Some(Commitment::of_text(&format!("step {}", next_row - 1))) }
}

/// Returns the marks that the ranks of a launch exchange, and the number of parts.
fn exchange(ranks: &[(Rank, &ReleaseLog)], job: &JobId) -> (Watermarks, usize) {
    let mut senders: Vec<_> =
        ranks.iter().map(|(rank, log)| (*rank, WatermarkSender::new(log, job))).collect();
    let mut watermarks = Watermarks::default();
    let mut parts = 1;
    while watermarks.take(senders.iter_mut().map(|(rank, sender)| (*rank, sender.next_part()))) {
        parts += 1;
    }
    (watermarks, parts)
}

#[tokio::test]
async fn every_branch_is_reported_and_the_highest_row_of_each_is_kept() {
    let [one, other] = [(); 2].map(|()| Arc::new(ReleaseLog::open(None).unwrap()));
    for (log, branch, row) in [(&one, 0, 7), (&one, 1, 2), (&other, 0, 5), (&other, 1, 4)] {
        release(log, &job("j"), branch, row).await;
    }
    release(&one, &job("another"), 9, 100).await;
    let (watermarks, parts) = exchange(&[(3, &one), (4, &other)], &job("j"));
    assert_eq!((watermarks.0.len(), parts), (2, 1));
    assert_eq!(of_branch(&watermarks, 0), (up_to(8), 3));
    assert_eq!(of_branch(&watermarks, 1), (up_to(5), 4));
}

#[tokio::test]
async fn of_one_row_every_commitment_is_kept() {
    let [one, same, other] = [(); 3].map(|()| Arc::new(ReleaseLog::open(None).unwrap()));
    release(&one, &job("j"), 0, 7).await;
    release(&same, &job("j"), 0, 7).await;
    let identity = JobIdentity { ledger: LEDGER, nonce: NONCE, job: job("j") };
    let anew = ReleasedRow { branch: 0, row: 7, commitment: Commitment::of_text("anew") };
    other.clone().record(identity, 0, vec![anew]).await.unwrap();
    let (watermarks, _) = exchange(&[(3, &one), (4, &same), (5, &other)], &job("j"));
    let under_another = Release { next_row: 8, commitment: Some(Commitment::of_text("anew")) };
    assert_eq!(watermarks.0[&(LEDGER, NONCE, 0)], [(up_to(8), 3), (under_another, 5)]);
}

#[tokio::test]
async fn a_record_of_any_size_is_reported_to_its_end() {
    let [long, short] = [(); 2].map(|()| Arc::new(ReleaseLog::open(None).unwrap()));
    for (count, parts) in
        [(MARKS_PER_PART as u64, 1), (MARKS_PER_PART as u64 + 1, 2), (2 * MARKS_PER_PART as u64 + 1, 3)]
    {
        let next = long.all().len() as u64;
        for branch in next..count {
            release(&long, &job("j"), branch, branch).await;
        }
        release(&short, &job("j"), 0, 1_000).await;
        let (watermarks, taken) = exchange(&[(0, &short), (1, &long)], &job("j"));
        assert_eq!((watermarks.0.len() as u64, taken), (count, parts));
        assert_eq!(of_branch(&watermarks, 0), (up_to(1_001), 0));
        assert_eq!(of_branch(&watermarks, count - 1), (up_to(count), 1));
    }
    let empty = ReleaseLog::open(None).unwrap();
    assert!(exchange(&[(0, &empty)], &job("j")).0.0.is_empty());
}
