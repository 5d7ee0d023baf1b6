//! Tests invariant N-3 by one number: a job's rows have the SHA-256 of the oracle's, whatever the number of shards,
//! threads and workers and whatever the instruction set, before and after a reshard, a restore and a restart. For a
//! noise id that is given here the oracle's digests are constants, so that every build and every machine must reproduce
//! them; the kernel's golden vectors do the same for a build without optimisation.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use noise_kernel::Backend;
use proto::{NoiseId, Nonce};
use tests::{TestCluster, expected_of, flags, job, plans, sha256, start_with};

const DIMENSION: u64 = 3_700;
const SHARDS: [u32; 4] = [1, 2, 4, 7];
const THREADS: [usize; 2] = [1, 2];

/// The number of a plan, and the digest of its 40 rows under [`NONCE`]: a tree, a BLT, a band, a band of the inverse.
const DIGESTS: [(usize, &str); 4] = [
    (1, "0288948f17809f4036869d35bbcaaaff62e7d6189240d995d3fdba629dc03b74"),
    (3, "f95adb8904eef83d695c6e1db2ab1a7f12b4e984fff3317d791942fb902842b6"),
    (4, "c418958937c6909fd92e78b423a998eebd974e91600891b9a47142292e3a9f5b"),
    (8, "e5af3de162cb2c94919da8ee3c6f21aa8a6159f83a6ec4ace8d761b39fc62d80"),
];

/// The nonce of the job whose digests are constants. A coordinator draws others.
const NONCE: [u8; 32] = [0x5a; 32];

/// One setup of a cluster; none may change a bit.
#[derive(Clone, Copy, Debug)]
struct Setup {
    shards: u32,
    threads: usize,
    backend: Backend,
}

/// All combinations where `RUSTLE_LONG` is set, else some in which each value is.
fn setups() -> Vec<Setup> {
    let backends = Backend::available();
    if std::env::var_os("RUSTLE_LONG").is_none() {
        let count = SHARDS.len().max(backends.len() * THREADS.len());
        let setup = |at: usize| Setup {
            shards: SHARDS[at % SHARDS.len()],
            threads: THREADS[at / backends.len() % THREADS.len()],
            backend: backends[at % backends.len()],
        };
        return (0..count).map(setup).collect();
    }
    let with = |shards| {
        let of_threads = THREADS.into_iter().map(move |threads| (shards, threads));
        of_threads.flat_map(|(shards, threads)| {
            let backends = Backend::available().into_iter();
            backends.map(move |backend| Setup { shards, threads, backend })
        })
    };
    SHARDS.into_iter().flat_map(with).collect()
}

fn start(setup: Setup) -> TestCluster {
    start_with(2, |options| {
        options.threads_per_worker = setup.threads;
        options.worker_flags = flags(&["--backend", &setup.backend.to_string()]);
    })
}

fn restart(cluster: &mut TestCluster) {
    for worker in 0..2 {
        cluster.cluster.kill_worker(worker).unwrap();
    }
    cluster.cluster.kill_coordinator().unwrap();
    cluster.cluster.start_coordinator().unwrap();
    for worker in 0..2 {
        cluster.cluster.start_worker(worker).unwrap();
    }
}

/// A cluster's life, with a job of each plan: the digests of the rows as they came, of all of them fetched again, and of
/// the oracle's.
fn digests(setup: Setup) -> Vec<[String; 3]> {
    let mut cluster = start(setup);
    let all = plans();
    let jobs = DIGESTS.map(|(plan, _)| (job(&format!("sum-{plan}")), &all[plan]));
    let mut rows = jobs.each_ref().map(|_| Vec::new());
    let fetch = |cluster: &TestCluster, rows: &mut [Vec<Vec<f32>>; 4], to: u64| {
        for ((job, _), rows) in jobs.iter().zip(rows) {
            rows.extend(cluster.fetch(job, rows.len() as u64..to, 0..DIMENSION).unwrap());
        }
    };
    for (job, plan) in &jobs {
        cluster.create(job, plan, DIMENSION, setup.shards).unwrap();
    }
    fetch(&cluster, &mut rows, 11);
    let others = SHARDS.into_iter().cycle().skip_while(|shards| *shards != setup.shards).nth(1).unwrap();
    for (job, _) in &jobs {
        cluster.runtime.block_on(cluster.client.jobs().reshard(job, others)).unwrap();
    }
    fetch(&cluster, &mut rows, 19);
    for (job, _) in &jobs {
        cluster.runtime.block_on(cluster.client.jobs().checkpoint(job)).unwrap();
    }
    restart(&mut cluster);
    fetch(&cluster, &mut rows, 30);
    // And from the key alone.
    std::fs::remove_dir_all(cluster.dir.path().join("coordinator/checkpoints")).unwrap();
    restart(&mut cluster);
    fetch(&cluster, &mut rows, 40);
    let mut again = jobs.each_ref().map(|_| Vec::new());
    fetch(&cluster, &mut again, 40);
    let oracle = jobs.each_ref().map(|(job, plan)| cluster.expected(job, plan, 0..40, 0..DIMENSION));
    let all = rows.iter().zip(&again).zip(&oracle);
    all.map(|((rows, again), oracle)| [rows, again, oracle].map(|rows| sha256(rows))).collect()
}

#[test]
fn one_digest_for_all_setups() {
    let setups = setups();
    let noise_id = NoiseId::of_job(Nonce::from_bytes(NONCE));
    let oracle = DIGESTS
        .map(|(plan, _)| sha256(&expected_of(&noise_id, DIMENSION, &plans()[plan], 0..40, 0..DIMENSION)));
    assert_eq!(oracle, DIGESTS.map(|(_, sum)| sum), "the oracle's");
    for setup in &setups {
        for ((number, _), [rows, again, oracle]) in DIGESTS.into_iter().zip(digests(*setup)) {
            assert_eq!([rows, again], [oracle.clone(), oracle], "plan {number}, {setup:?}");
        }
    }
    let backends: Vec<_> = Backend::available().iter().map(Backend::to_string).collect();
    println!(
        "{} setups of {} plans, by {}: the oracle's sums",
        setups.len(),
        DIGESTS.len(),
        backends.join(" and ")
    );
}
