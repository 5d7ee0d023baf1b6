//! How long a durable binding takes here: `cargo run --release -p ledger --example bind_time [folder]`.
#![allow(clippy::unwrap_used)]

use std::{env, fs, path::PathBuf, time::Instant};

use ledger::{JobRecord, JobState, Ledger, ShardRecord};
use proto::{Commitment, CoordinateRange, JobId, Lineage, RowRange};

const CALLS: u64 = 1000;

fn main() {
    let folder = env::args().nth(1).map_or_else(env::temp_dir, PathBuf::from);
    let path = folder.join(format!("bind-time-{}.redb", std::process::id()));
    let ledger = Ledger::open(&path).unwrap();
    for rows_a_call in [1, 32] {
        let job = JobId::new(format!("rows-{rows_a_call}")).unwrap();
        create(&ledger, &job);
        let mut micros: Vec<f64> =
            (0..CALLS).map(|call| bind(&ledger, &job, call * rows_a_call, rows_a_call)).collect();
        micros.sort_by(f64::total_cmp);
        let at = |share: f64| micros[(share * CALLS as f64) as usize];
        println!("{rows_a_call} rows a call: p50 {:.0} µs, p99 {:.0} µs", at(0.5), at(0.99));
    }
    let job = JobId::new("many").unwrap();
    create(&ledger, &job);
    (0..100).for_each(|call| _ = bind(&ledger, &job, call * 1000, 1000));
    let again = Instant::now();
    (0..CALLS).for_each(|row| _ = ledger.bind(&job, 0, one(row), &[commitment(row)]).unwrap());
    println!("a row bound already: {:.1} µs", again.elapsed().as_secs_f64() * 1e6 / CALLS as f64);
    drop(ledger);
    let (start, bytes) = (Instant::now(), fs::metadata(&path).unwrap().len());
    Ledger::open(&path).unwrap();
    println!("opening 133,000 bindings, {bytes} bytes: {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    fs::remove_file(&path).unwrap();
}

fn one(row: u64) -> RowRange {
    RowRange { start: row, end: row + 1 }
}

fn commitment(row: u64) -> Commitment {
    Commitment::of_text(&row.to_string())
}

fn bind(ledger: &Ledger, job: &JobId, start: u64, rows: u64) -> f64 {
    let commitments: Vec<_> = (start..start + rows).map(commitment).collect();
    let begun = Instant::now();
    ledger.bind(job, 0, RowRange { start, end: start + rows }, &commitments).unwrap();
    begun.elapsed().as_secs_f64() * 1e6
}

fn create(ledger: &Ledger, job: &JobId) {
    let record = JobRecord {
        job: job.clone(),
        plan_toml: String::new(),
        plan_digest: [1; 32],
        dimension: 512,
        iterations: u64::MAX,
        mechanism: "identity".to_owned(),
        key_commitment: [2; 32],
        branch: 0,
        lineage: Lineage::default(),
        shards: 1,
        layout_epoch: 0,
        state: JobState::Running,
    };
    let range = CoordinateRange { start: 0, end: 512 };
    ledger.create_job(&record, &[ShardRecord { shard: 0, range, epoch: 0, owner: None }]).unwrap();
}
