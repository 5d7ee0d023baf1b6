//! Measures the time of a durable binding: `cargo run --release -p ledger --example bind_time [folder]`, on the
//! folder's own disk (redb, with fsync) and on the same with 5 ms more for every fsync; with `--features etcd` in etcd
//! instead: `… --example bind_time etcd://127.0.0.1:2379/bind-time`, a prefix that is not in use.
#![allow(clippy::unwrap_used)]

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use ledger::{JobRecord, JobState, Ledger, ShardRecord};
use proto::{Commitment, CoordinateRange, JobId, Lineage, Nonce, RowRange};
use redb::{StorageBackend, backends::FileBackend};

const CALLS: u64 = 1000;
const THREADS: u64 = 16;

/// The extra time of an fsync on the slow disk.
const SLOWER: Duration = Duration::from_millis(5);

fn main() {
    for place in Place::named(env::args().nth(1)) {
        println!("{}:", place.title());
        measure(&place);
        place.clear();
    }
}

fn measure(place: &Place) {
    let ledger = place.open();
    for rows_a_call in [1, 32] {
        let job = JobId::new(format!("rows-{rows_a_call}")).unwrap();
        create(&ledger, &job);
        let begun = Instant::now();
        let micros = (0..CALLS).map(|call| bind(&ledger, &job, call * rows_a_call, rows_a_call)).collect();
        println!("  one caller, {rows_a_call} rows a call: {}", summary(begun, CALLS * rows_a_call, micros));
    }
    at_once(&ledger);
    let job = JobId::new("many").unwrap();
    create(&ledger, &job);
    (0..100).for_each(|call| _ = bind(&ledger, &job, call * 1000, 1000));
    let again = Instant::now();
    (0..CALLS).for_each(|row| _ = ledger.bind(&job, 0, one(row), &[commitment(row)]).unwrap());
    println!("  a row bound already: {:.1} µs", again.elapsed().as_secs_f64() * 1e6 / CALLS as f64);
    drop(ledger);
    let start = Instant::now();
    place.open();
    println!("  opening 149,000 bindings{}: {:.0} ms", place.bytes(), start.elapsed().as_secs_f64() * 1e3);
}

/// Measures concurrent calls of many jobs, which share commits.
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
    println!("  {THREADS} callers at once, 1 row a call: {}", summary(begun, THREADS * CALLS, micros));
}

/// Describes the rate of bindings and the times of calls, `micros` in microseconds.
fn summary(begun: Instant, bindings: u64, mut micros: Vec<f64>) -> String {
    let rate = bindings as f64 / begun.elapsed().as_secs_f64();
    micros.sort_by(f64::total_cmp);
    let at = |share: f64| micros[(share * micros.len() as f64) as usize];
    format!("{rate:.0} bindings/s, a call p50 {:.0} µs, p99 {:.0} µs", at(0.5), at(0.99))
}

/// A file whose every fsync takes longer.
#[derive(Debug)]
struct SlowDisk(FileBackend);

impl SlowDisk {
    fn open(path: &Path) -> Self {
        let file =
            fs::File::options().read(true).write(true).create(true).truncate(false).open(path).unwrap();
        Self(FileBackend::new(file).unwrap())
    }
}

impl StorageBackend for SlowDisk {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn sync_data(&self) -> io::Result<()> {
        thread::sleep(SLOWER);
        self.0.sync_data()
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}

enum Place {
    File(PathBuf),
    Slow(PathBuf),
    #[cfg(feature = "etcd")]
    Etcd(ledger::etcd::EtcdConfig),
}

impl Place {
    fn named(argument: Option<String>) -> Vec<Self> {
        #[cfg(feature = "etcd")]
        if let Some(url) = argument.as_ref().filter(|url| url.starts_with("etcd://")) {
            let lease = std::time::Duration::from_secs(5);
            return vec![Self::Etcd(ledger::etcd::EtcdConfig::parse(url, None, lease).unwrap())];
        }
        let folder = argument.map_or_else(env::temp_dir, PathBuf::from);
        let file = |what: &str| folder.join(format!("bind-time-{what}{}.redb", std::process::id()));
        vec![Self::File(file("")), Self::Slow(file("slow-"))]
    }

    fn title(&self) -> String {
        match self {
            Self::File(path) => format!("redb with fsync, {}", path.display()),
            Self::Slow(_) => format!("the same with {SLOWER:?} more for every fsync"),
            #[cfg(feature = "etcd")]
            Self::Etcd(_) => "etcd".to_owned(),
        }
    }

    fn open(&self) -> Ledger {
        match self {
            Self::File(path) => {
                if !path.exists() {
                    Ledger::init(path, Nonce::from_bytes([2; 32])).unwrap();
                }
                Ledger::open(path).unwrap()
            }
            Self::Slow(path) => {
                Ledger::open_on(SlowDisk::open(path), path, Nonce::from_bytes([2; 32])).unwrap()
            }
            #[cfg(feature = "etcd")]
            Self::Etcd(config) => {
                use ledger::etcd::{Candidacy, Election};
                let election = Election::connect(config).unwrap();
                loop {
                    if let Candidacy::Elected(term) = election.campaign("bind_time").unwrap() {
                        return Ledger::lead(term).unwrap();
                    }
                }
            }
        }
    }

    fn bytes(&self) -> String {
        match self {
            Self::File(path) | Self::Slow(path) => format!(", {} bytes", fs::metadata(path).unwrap().len()),
            #[cfg(feature = "etcd")]
            Self::Etcd(_) => String::new(),
        }
    }

    fn clear(&self) {
        match self {
            Self::File(path) | Self::Slow(path) => fs::remove_file(path).unwrap(),
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

/// Binds rows, and returns the time that it took, in microseconds.
fn bind(ledger: &Ledger, job: &JobId, start: u64, rows: u64) -> f64 {
    let commitments: Vec<_> = (start..start + rows).map(commitment).collect();
    let begun = Instant::now();
    ledger.bind(job, 0, RowRange { start, end: start + rows }, &commitments).unwrap();
    begun.elapsed().as_secs_f64() * 1e6
}

fn create(ledger: &Ledger, job: &JobId) {
    let nonce = Nonce::from_bytes([1; 32]);
    let record = JobRecord {
        job: job.clone(),
        nonce,
        plan_toml: String::new(),
        plan_digest: [1; 32],
        dimension: 512,
        layout_digest: [3; 32],
        iterations: u64::MAX,
        mechanism: "identity".to_owned(),
        key_commitment: [2; 32],
        branch: 0,
        lineage: Lineage::of_job(nonce),
        shards: 1,
        layout_epoch: 0,
        state: JobState::Running,
    };
    let range = CoordinateRange { start: 0, end: 512 };
    ledger.create_job(&record, &[ShardRecord { shard: 0, range, epoch: 0, owner: None }]).unwrap();
}
