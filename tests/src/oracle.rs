//! The oracle: the rows of a job, computed slowly from what identifies its noise.

use std::{
    ops::Range,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use ledger::{JobRecord, Ledger, LedgerError};
use noise_kernel::JobKey;
use noise_worker::generation_spec::GenerationSpec;
use plan::Plan;
use proto::{JobId, NoiseId, Nonce, pb};

/// The key of every job.
pub const KEY: [u8; 32] = *b"0123456789abcdefghijklmnopqrstuv";

/// A launch that has ended releases its ledger within this time.
const RELEASED: Duration = Duration::from_secs(60);

/// Returns the rows that the oracle computes for the current branch of a job, as a coordinator showed it.
pub fn expected_of_job(job: &pb::Job, plan: &Plan, rows: Range<u64>, range: Range<u64>) -> Vec<Vec<f32>> {
    let noise_id = NoiseId::try_from(job).expect("a job with a nonce and a lineage");
    expected_of(&noise_id, job.dimension, plan, rows, range)
}

/// Returns the rows that the oracle computes for the current branch of a job in the ledger's file, which no process
/// holds any more, or will soon release.
pub fn expected_in(
    ledger: &Path,
    job: &JobId,
    plan: &Plan,
    rows: Range<u64>,
    range: Range<u64>,
) -> Vec<Vec<f32>> {
    let record = record_in(ledger, job);
    expected_of(&record.noise_id(), record.dimension, plan, rows, range)
}

/// Returns a job's record in the ledger's file, which no process holds any more, or will soon release.
pub fn record_in(ledger: &Path, job: &JobId) -> JobRecord {
    opened(ledger).job(job).expect("the ledger is read").expect("the job exists")
}

/// Returns the id of the ledger in the file, which no process holds any more, or will soon release.
pub fn ledger_id(ledger: &Path) -> Nonce {
    opened(ledger).id().expect("the ledger is read")
}

fn opened(ledger: &Path) -> Ledger {
    let deadline = Instant::now() + RELEASED;
    let opened = loop {
        match Ledger::open(ledger) {
            Err(LedgerError::Locked { .. }) if Instant::now() < deadline => {
                thread::sleep(Duration::from_millis(20));
            }
            opened => break opened,
        }
    };
    opened.expect("the ledger opens")
}

/// Returns the rows that the oracle computes of the noise with this id, in a vector of `dimension` coordinates.
pub fn expected_of(
    noise_id: &NoiseId,
    dimension: u64,
    plan: &Plan,
    rows: Range<u64>,
    range: Range<u64>,
) -> Vec<Vec<f32>> {
    let key = JobKey::from_bytes(&KEY).expect("32 bytes");
    let spec = GenerationSpec::new(plan, &key, dimension, noise_id).expect("a generation spec");
    spec.oracle().expect("an oracle").rows(rows, range).expect("rows of the oracle")
}
