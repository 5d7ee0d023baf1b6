//! How long a durable binding takes here: `cargo run --release -p ledger --example bind_time [folder]`; with
//! `--features etcd` in etcd too: `… --example bind_time etcd://127.0.0.1:2379/bind-time`, a prefix that is not in use.
#![allow(clippy::unwrap_used)]

use std::{env, fs, path::PathBuf, thread, time::Instant};

use ledger::{JobRecord, JobState, Ledger, ShardRecord};
use proto::{Commitment, CoordinateRange, JobId, Lineage, RowRange};

const CALLS: u64 = 1000;
const THREADS: u64 = 16;

fn main() {
    let place = Place::named(env::args().nth(1));
    let ledger = place.open();
    for rows_a_call in [1, 32] {
        let job = JobId::new(format!("rows-{rows_a_call}")).unwrap();
        create(&ledger, &job);
        let micros = (0..CALLS).map(|call| bind(&ledger, &job, call * rows_a_call, rows_a_call)).collect();
        println!("{rows_a_call} rows a call: {}", percentiles(micros));
    }
    at_once(&ledger);
    let job = JobId::new("many").unwrap();
    create(&ledger, &job);
    (0..100).for_each(|call| _ = bind(&ledger, &job, call * 1000, 1000));
    let again = Instant::now();
    (0..CALLS).for_each(|row| _ = ledger.bind(&job, 0, one(row), &[commitment(row)]).unwrap());
    println!("a row bound already: {:.1} µs", again.elapsed().as_secs_f64() * 1e6 / CALLS as f64);
    drop(ledger);
    let start = Instant::now();
    place.open();
    println!("opening 149,000 bindings{}: {:.0} ms", place.bytes(), start.elapsed().as_secs_f64() * 1e3);
    place.clear();
}

/// Calls of many jobs, which share commits.
fn at_once(ledger: &Ledger) {
    let begun = Instant::now();
    let micros = thread::scope(|scope| {
        let callers = (0..THREADS).map(|caller| {
            scope.spawn(move || {
                let job = JobId::new(format!("caller-{caller}")).unwrap();
                create(ledger, &job);
                (0..CALLS).map(|row| bind(ledger, &job, row, 1)).collect::<Vec<_>>()
            })
        });
        let callers: Vec<_> = callers.collect();
        callers.into_iter().flat_map(|caller| caller.join().unwrap()).collect()
    });
    let rate = (THREADS * CALLS) as f64 / begun.elapsed().as_secs_f64();
    println!("{THREADS} callers at once: {rate:.0} bindings/s, {}", percentiles(micros));
}

fn percentiles(mut micros: Vec<f64>) -> String {
    micros.sort_by(f64::total_cmp);
    let at = |share: f64| micros[(share * micros.len() as f64) as usize];
    format!("p50 {:.0} µs, p99 {:.0} µs", at(0.5), at(0.99))
}

enum Place {
    File(PathBuf),
    #[cfg(feature = "etcd")]
    Etcd(ledger::etcd::EtcdConfig),
}

impl Place {
    fn named(argument: Option<String>) -> Self {
        #[cfg(feature = "etcd")]
        if let Some(url) = argument.as_ref().filter(|url| url.starts_with("etcd://")) {
            let lease = std::time::Duration::from_secs(5);
            return Self::Etcd(ledger::etcd::EtcdConfig::parse(url, None, lease).unwrap());
        }
        let folder = argument.map_or_else(env::temp_dir, PathBuf::from);
        Self::File(folder.join(format!("bind-time-{}.redb", std::process::id())))
    }

    fn open(&self) -> Ledger {
        match self {
            Self::File(path) => Ledger::open(path).unwrap(),
            #[cfg(feature = "etcd")]
            Self::Etcd(config) => {
                use ledger::etcd::{Election, Standing};
                let election = Election::connect(config).unwrap();
                loop {
                    if let Standing::Elected(term) = election.stand("bind_time").unwrap() {
                        return Ledger::lead(term).unwrap();
                    }
                }
            }
        }
    }

    fn bytes(&self) -> String {
        match self {
            Self::File(path) => format!(", {} bytes", fs::metadata(path).unwrap().len()),
            #[cfg(feature = "etcd")]
            Self::Etcd(_) => String::new(),
        }
    }

    fn clear(&self) {
        match self {
            Self::File(path) => fs::remove_file(path).unwrap(),
            #[cfg(feature = "etcd")]
            Self::Etcd(_) => {}
        }
    }
}

fn one(row: u64) -> RowRange {
    RowRange { start: row, end: row + 1 }
}

fn commitment(row: u64) -> Commitment {
    Commitment::of_text(&row.to_string())
}

/// Microseconds.
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
