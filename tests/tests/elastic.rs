//! Tests changes of the cluster while a job runs: workers join, leave, die and slow down, and shards are split and
//! merged. Every row is the oracle's, and during planned changes every coordinate is served without a gap.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::{
    collections::BTreeMap,
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use client::{Client, FetchRequest};
use plan::{Mechanism, Plan};
use proto::{Commitment, CoordinateRange, JobId, RowRange, WorkerId, pb};
use rustix::process::{Pid, Signal, kill_process};
use tests::{TestCluster, assert_same_bits, flags, job, small_plan, start_with};
use tokio::runtime::Handle;

const ITERATIONS: u64 = 100_000;
/// A lease that expires because the machine is busy would look like a coordinate without a worker.
const PATIENT: [&str; 6] = ["--heartbeat", "50ms", "--lease-ttl", "5s", "--checkpoint-interval", "0s"];

/// Time from one row to the next.
const PACE: Duration = Duration::from_millis(10);
/// Longest wait, on however slow a machine.
const TIMEOUT: Duration = Duration::from_secs(120);

fn plan() -> Plan {
    small_plan(Mechanism::Blt { theta: vec![0.99, 0.5], omega: vec![0.1, 0.2] }, ITERATIONS)
}

/// A job that takes one row after the other for as long as it is let.
struct Trainer {
    rows: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    task: JoinHandle<Vec<Vec<f32>>>,
}

impl Trainer {
    /// Keeps those coordinates of each row.
    fn start(cluster: &TestCluster, job: &JobId, dimension: u64, kept: Range<u64>, pause: Duration) -> Self {
        let rows = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let client = cluster.client.clone();
        let runtime = cluster.runtime.handle().clone();
        let job = job.clone();
        let taken = rows.clone();
        let stopped = stop.clone();
        let task = thread::spawn(move || {
            let mut got: Vec<Vec<f32>> = vec![];
            let kept = kept.start as usize..kept.end as usize;
            while !stopped.load(Ordering::Relaxed) {
                let row = take(&client, &runtime, &job, got.len() as u64, dimension);
                got.push(row[kept.clone()].to_vec());
                taken.store(got.len() as u64, Ordering::Relaxed);
                thread::sleep(pause);
            }
            got
        });
        Self { rows, stop, task }
    }

    /// Waits for so many rows more.
    fn go_on(&self, rows: u64) {
        let until = self.rows.load(Ordering::Relaxed) + rows;
        wait("the job makes progress", || self.rows.load(Ordering::Relaxed) >= until);
    }

    fn end(self) -> Vec<Vec<f32>> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.join().unwrap()
    }
}

fn wait(what: &str, mut happened: impl FnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !happened() {
        assert!(Instant::now() < deadline, "after {TIMEOUT:?} not yet: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

fn take(client: &Client, runtime: &Handle, job: &JobId, row: u64, dimension: u64) -> Vec<f32> {
    let mut out = vec![f32::NAN; dimension as usize];
    let request = FetchRequest {
        job: job.clone(),
        branch: 0,
        rows: RowRange { start: row, end: row + 1 },
        range: CoordinateRange { start: 0, end: dimension },
        commitments: vec![Commitment::of_text(&format!("step {row}"))],
        deadline: (Instant::now() + TIMEOUT).into(),
    };
    runtime.block_on(client.fetch(request).into_slice(&mut out)).unwrap();
    out
}

/// Polls the routing until it is stopped, and counts the polls and those in which some coordinate had no worker.
struct Watcher {
    stop: Arc<AtomicBool>,
    task: JoinHandle<(u64, u64)>,
}

impl Watcher {
    fn start(cluster: &TestCluster, job: &JobId) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let client = cluster.client.clone();
        let runtime = cluster.runtime.handle().clone();
        let job = job.clone();
        let stopped = stop.clone();
        let task = thread::spawn(move || {
            let mut looks = 0;
            let mut gaps = 0;
            while !stopped.load(Ordering::Relaxed) {
                let routing = runtime.block_on(client.routing(&job)).unwrap();
                gaps += u64::from(routing.routes.iter().any(|route| route.endpoint.is_none()));
                looks += 1;
                thread::sleep(Duration::from_millis(2));
            }
            (looks, gaps)
        });
        Self { stop, task }
    }

    fn assert_no_gaps(self) {
        self.stop.store(true, Ordering::Relaxed);
        let (looks, gaps) = self.task.join().unwrap();
        assert!(looks > 20, "looked {looks} times");
        assert_eq!(gaps, 0, "of {looks} polls found a range without a worker");
    }
}

fn served_by(cluster: &TestCluster, job: &JobId, worker: usize) -> usize {
    let endpoint = cluster.cluster.worker(worker).unwrap().grpc().to_owned();
    let routes = cluster.runtime.block_on(cluster.client.routing(job)).unwrap().routes;
    routes.iter().filter(|route| route.endpoint.as_ref() == Some(&endpoint)).count()
}

fn serves_from(cluster: &TestCluster, job: &JobId, worker: usize, start: u64) -> bool {
    let endpoint = cluster.cluster.worker(worker).unwrap().grpc().to_owned();
    let routes = cluster.runtime.block_on(cluster.client.routing(job)).unwrap().routes;
    routes.iter().any(|route| route.range.start == start && route.endpoint.as_ref() == Some(&endpoint))
}

/// Invariant N-1, from the job's own chain of durable events: no epoch of a shard has had two owners, and none fell.
fn assert_one_owner(cluster: &TestCluster, job: &JobId) {
    let entries = cluster.runtime.block_on(cluster.client.jobs().entries(job)).unwrap();
    let mut owners: BTreeMap<(u64, u64), String> = BTreeMap::new();
    let mut newest: BTreeMap<u64, u64> = BTreeMap::new();
    for entry in entries {
        let event: serde_json::Value = serde_json::from_str(&entry.event).unwrap();
        for shard in event["shards"].as_array().into_iter().flatten() {
            let number = shard["shard"].as_u64().unwrap();
            let epoch = shard["epoch"].as_u64().unwrap();
            let before = newest.insert(number, epoch).unwrap_or(0);
            assert!(epoch >= before, "epoch {epoch} of shard {number} after {before}");
            let owner = shard["owner"].to_string();
            let first = owners.entry((number, epoch)).or_insert_with(|| owner.clone());
            assert_eq!(*first, owner, "shard {number} under epoch {epoch}");
        }
    }
    assert!(owners.len() > 3, "nothing has changed hands: {owners:?}");
}

#[test]
fn rows_go_on_while_workers_come_and_leave_and_shards_are_cut_anew() {
    const DIMENSION: u64 = 8_192;
    let mut cluster = start_with(2, |options| {
        options.coordinator_flags = flags(&PATIENT);
        options.worker_flags = flags(&["--drain-deadline", "25s"]);
    });
    let job = job("elastic");
    let plan = plan();
    cluster.create(&job, &plan, DIMENSION, 4).unwrap();
    cluster.wait_ready(&job);
    let trainer = Trainer::start(&cluster, &job, DIMENSION, 0..DIMENSION, PACE);
    trainer.go_on(5);
    let watcher = Watcher::start(&cluster, &job);

    // Two more take a part each.
    let third = cluster.cluster.add_worker().unwrap();
    let fourth = cluster.cluster.add_worker().unwrap();
    wait("the new workers serve", || {
        served_by(&cluster, &job, third) > 0 && served_by(&cluster, &job, fourth) > 0
    });
    trainer.go_on(5);

    // One is drained by an operator, and one is terminated.
    let drained = WorkerId::new("worker-0").unwrap();
    wait("worker 0 is drained", || {
        cluster.runtime.block_on(cluster.client.drain_worker(&drained, false)).unwrap() == 0
    });
    assert_eq!(served_by(&cluster, &job, 0), 0);
    cluster.cluster.stop_worker(1).unwrap();
    trainer.go_on(5);

    // Split, and merged.
    for shards in [7, 3] {
        let job = cluster.runtime.block_on(cluster.client.jobs().reshard(&job, shards)).unwrap();
        assert_eq!((job.shards, job.shards_ready), (shards, shards));
        trainer.go_on(5);
    }
    watcher.assert_no_gaps();

    // A loss is no planned change: rows wait, and come.
    cluster.cluster.kill_worker(third).unwrap();
    trainer.go_on(5);
    cluster.runtime.block_on(cluster.client.drain_worker(&drained, true)).unwrap();
    wait("worker 0 serves again", || served_by(&cluster, &job, 0) > 0);
    cluster.cluster.start_worker(third).unwrap();
    trainer.go_on(5);

    let got = trainer.end();
    assert_same_bits(&got, &cluster.expected(&job, &plan, 0..got.len() as u64, 0..DIMENSION));
    assert_one_owner(&cluster, &job);
}

/// Lets the process run for 10 ms of every 200 until it is stopped.
fn slow_down(pid: u32, stop: Arc<AtomicBool>) -> JoinHandle<()> {
    let pid = Pid::from_raw(pid as i32).unwrap();
    thread::spawn(move || {
        while !stop.load(Ordering::Relaxed) {
            kill_process(pid, Signal::STOP).unwrap();
            thread::sleep(Duration::from_millis(190));
            kill_process(pid, Signal::CONT).unwrap();
            thread::sleep(Duration::from_millis(10));
        }
    })
}

#[test]
fn a_worker_slowed_down_is_relieved_serves_again_when_it_is_well_and_rows_go_on() {
    const DIMENSION: u64 = 400_000;
    let cluster = start_with(2, |options| {
        options.coordinator_flags = flags(&PATIENT);
        options.coordinator_flags.extend(flags(&["--straggler-timeout", "1s"]));
        // Rows are generated on request, so that slowing the worker slows their generation.
        options.worker_flags = flags(&["--ahead-rows", "2"]);
    });
    let job = job("slow");
    let plan = plan();
    cluster.create(&job, &plan, DIMENSION, 2).unwrap();
    cluster.wait_ready(&job);
    wait("both serve", || (0..2).all(|worker| served_by(&cluster, &job, worker) == 1));
    let part = 199_950..200_050;
    let trainer = Trainer::start(&cluster, &job, DIMENSION, part.clone(), Duration::ZERO);
    trainer.go_on(5);
    let stop = Arc::new(AtomicBool::new(false));
    let slowing = slow_down(cluster.cluster.worker(1).unwrap().pid(), stop.clone());
    wait("the slow worker is relieved", || served_by(&cluster, &job, 1) == 0);
    trainer.go_on(5);
    stop.store(true, Ordering::Relaxed);
    slowing.join().unwrap();
    wait("the worker is well and serves again", || served_by(&cluster, &job, 1) == 1);
    trainer.go_on(5);
    let got = trainer.end();
    assert_same_bits(&got, &cluster.expected(&job, &plan, 0..got.len() as u64, part));
    assert_one_owner(&cluster, &job);
}

#[test]
fn shards_go_near_who_uses_them_while_rows_go_on() {
    const DIMENSION: u64 = 4_096;
    let cluster = start_with(2, |options| options.coordinator_flags = flags(&PATIENT));
    let job = job("near");
    let plan = plan();
    cluster.create(&job, &plan, DIMENSION, 2).unwrap();
    cluster.wait_ready(&job);
    wait("both serve", || (0..2).all(|worker| served_by(&cluster, &job, worker) == 1));
    let trainer = Trainer::start(&cluster, &job, DIMENSION, 0..DIMENSION, PACE);
    trainer.go_on(5);
    let watcher = Watcher::start(&cluster, &job);
    // Each way once: one of the two is an exchange.
    for (left, right) in [(0, 1), (1, 0)] {
        let half = DIMENSION / 2;
        let hint = |start, end, worker: usize| pb::PlacementHint {
            range: Some(pb::CoordinateRange { start, end }),
            near: format!("worker-{worker}"),
        };
        let hints = vec![hint(0, half, left), hint(half, DIMENSION, right)];
        cluster.runtime.block_on(cluster.client.jobs().place(&job, hints)).unwrap();
        wait("the first half is served where it is wished", || serves_from(&cluster, &job, left, 0));
        wait("and the second", || serves_from(&cluster, &job, right, half));
        trainer.go_on(5);
    }
    watcher.assert_no_gaps();
    let got = trainer.end();
    assert_same_bits(&got, &cluster.expected(&job, &plan, 0..got.len() as u64, 0..DIMENSION));
}
