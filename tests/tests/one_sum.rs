//! Invariant N-3 in one number: a job's rows have one SHA-256, on however many shards, threads and workers they are
//! made, by which instructions, before and after a reshard, a restore and a restart. The numbers are written down
//! here, so that they are those of every build and every machine too; the kernel's golden vectors say the same of a
//! build without optimisation.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use noise_kernel::Backend;
use tests::{TestCluster, expected, flags, job, plans, sha256, start_with};

const DIMENSION: u64 = 3_700;
const SHARDS: [u32; 4] = [1, 2, 4, 7];
const THREADS: [usize; 2] = [1, 2];

/// Number of a plan, and the sum of its 40 rows: a tree, a BLT, a band, a band of the inverse.
const SUMS: [(usize, &str); 4] = [
    (1, "8a8e2728fc07e45d04ef20310599f87e40db877405960427678993de21e9d6a1"),
    (3, "bcb4f5b2e9ff96a97e76aee719a7900af9eb62958cd51893b78ebb272d178107"),
    (4, "9b450ec40a5f5083af3baebed67ee8ab65f38da1be22bafd6251494c8cd6b464"),
    (8, "e6e045af94e44420da20c88450c43552e5bcce393d6db4c31eff4c51f614f27e"),
];

/// What may not change a bit.
#[derive(Clone, Copy, Debug)]
struct Way {
    shards: u32,
    threads: usize,
    backend: Backend,
}

/// All combinations where `RUSTLE_LONG` is set, else some in which each value is.
fn ways() -> Vec<Way> {
    let backends = Backend::available();
    if std::env::var_os("RUSTLE_LONG").is_none() {
        let count = SHARDS.len().max(backends.len() * THREADS.len());
        let way = |at: usize| Way {
            shards: SHARDS[at % SHARDS.len()],
            threads: THREADS[at / backends.len() % THREADS.len()],
            backend: backends[at % backends.len()],
        };
        return (0..count).map(way).collect();
    }
    let with = |shards| {
        let of_threads = THREADS.into_iter().map(move |threads| (shards, threads));
        of_threads.flat_map(|(shards, threads)| {
            let backends = Backend::available().into_iter();
            backends.map(move |backend| Way { shards, threads, backend })
        })
    };
    SHARDS.into_iter().flat_map(with).collect()
}

fn start(way: Way) -> TestCluster {
    start_with(2, |options| {
        options.threads_per_worker = way.threads;
        options.worker_flags = flags(&["--backend", &way.backend.to_string()]);
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

/// A cluster's life, with a job of each plan: the sums of the rows as they came, and of all of them once more.
fn sums(way: Way) -> Vec<[String; 2]> {
    let mut cluster = start(way);
    let all = plans();
    let jobs = SUMS.map(|(plan, _)| (job(&format!("sum-{plan}")), &all[plan]));
    let mut rows = jobs.each_ref().map(|_| Vec::new());
    let fetch = |cluster: &TestCluster, rows: &mut [Vec<Vec<f32>>; 4], to: u64| {
        for ((job, _), rows) in jobs.iter().zip(rows) {
            rows.extend(cluster.fetch(job, rows.len() as u64..to, 0..DIMENSION).unwrap());
        }
    };
    for (job, plan) in &jobs {
        cluster.create(job, plan, DIMENSION, way.shards).unwrap();
    }
    fetch(&cluster, &mut rows, 11);
    let others = SHARDS.into_iter().cycle().skip_while(|shards| *shards != way.shards).nth(1).unwrap();
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
    rows.iter().zip(&again).map(|(rows, again)| [sha256(rows), sha256(again)]).collect()
}

#[test]
fn one_sha_256_for_all() {
    let ways = ways();
    let oracle = SUMS.map(|(plan, _)| {
        let job = job(&format!("sum-{plan}"));
        sha256(&expected(&job, &plans()[plan], 0..40, 0..DIMENSION))
    });
    assert_eq!(oracle, SUMS.map(|(_, sum)| sum), "the oracle's");
    for way in &ways {
        for ((number, sum), found) in SUMS.into_iter().zip(sums(*way)) {
            assert_eq!(found, [sum, sum], "plan {number}, {way:?}");
        }
    }
    let backends: Vec<_> = Backend::available().iter().map(Backend::to_string).collect();
    println!("{} ways of {} plans, by {}: one sum each", ways.len(), SUMS.len(), backends.join(" and "));
}
