//! Tests every transport of rows: all deliver the same bytes, and none bypasses a check.
#![allow(clippy::unwrap_used)] // a test says best where it stands

mod by_hand;

use std::{
    os::unix::fs::PermissionsExt,
    time::{Duration, Instant},
};

use client::{FetchRequest, Region};
use plan::Plan;
use proto::{Commitment, CoordinateRange, ElementType, JobId, Result, RowRange};
use rustix::process::{Pid, Signal, kill_process};
use tests::{TestCluster, assert_same_bits, flags, job, plans, start_with};

const DIMENSION: u64 = 3_700;
const ROWS: std::ops::Range<u64> = 0..9;

fn plan() -> Plan {
    plans().swap_remove(3)
}

fn request(job: &JobId, rows: std::ops::Range<u64>, range: std::ops::Range<u64>) -> FetchRequest {
    FetchRequest {
        job: job.clone(),
        branch: 0,
        rows: RowRange { start: rows.start, end: rows.end },
        range: CoordinateRange { start: range.start, end: range.end },
        commitments: rows.map(|row| Commitment::of_text(&format!("step {row}"))).collect(),
        deadline: (Instant::now() + Duration::from_secs(20)).into(),
    }
}

fn region(cluster: &TestCluster, range: std::ops::Range<u64>, slots: u32, element: ElementType) -> Region {
    cluster.client.lend(CoordinateRange { start: range.start, end: range.end }, slots, element).unwrap()
}

fn fetch_region(cluster: &TestCluster, request: FetchRequest, region: &mut Region, slot: u32) -> Result<()> {
    cluster.runtime.block_on(cluster.client.fetch(request).into_region(region, slot))
}

fn rows_of(region: &Region, slots: std::ops::Range<u32>) -> Vec<Vec<f32>> {
    slots.map(|slot| region.row(slot).unwrap().to_vec()).collect()
}

/// The nearer of the two neighbours, the even one between them: said otherwise than the code says it.
fn bf16(value: f32) -> u16 {
    let below = value.to_bits() >> 16;
    let down = f32::from_bits(below << 16) as f64;
    let up = f32::from_bits((below + 1) << 16) as f64;
    let to_down = (value as f64 - down).abs();
    let to_up = (up - value as f64).abs();
    let is_up = to_up < to_down || (to_up == to_down && below % 2 == 1);
    (below + u32::from(is_up)) as u16
}

fn rounded(rows: &[Vec<f32>]) -> Vec<u16> {
    rows.iter().flatten().map(|value| bf16(*value)).collect()
}

/// Bytes that workers of all of the cluster say they have written to shared memory.
fn placed(cluster: &TestCluster, workers: usize) -> u64 {
    let of = |worker: usize| {
        let page = tests::get(cluster.cluster.worker(worker).unwrap().metrics(), "/metrics");
        let line = page.lines().find(|line| line.starts_with("rustle_worker_placed_bytes_total"));
        line.and_then(|line| line.split_whitespace().last()?.parse().ok()).unwrap_or(0)
    };
    (0..workers).map(of).sum()
}

#[test]
fn every_transport_brings_the_oracles_bytes() {
    let plan = plan();
    for (unix, shared_memory) in [(false, false), (true, false), (false, true), (true, true)] {
        let cluster = start_with(2, |options| {
            options.unix = unix;
            options.shared_memory = shared_memory;
        });
        assert_eq!(cluster.cluster.url().starts_with("unix:///"), unix);
        let job = job("ways");
        cluster.create(&job, &plan, DIMENSION, 3).unwrap();
        let good = cluster.expected(&job, &plan, ROWS, 0..DIMENSION);
        assert_same_bits(&cluster.fetch(&job, ROWS, 0..DIMENSION).unwrap(), &good);

        let mut halves = vec![0u16; (ROWS.end * DIMENSION) as usize];
        let asked = request(&job, ROWS, 0..DIMENSION);
        cluster.runtime.block_on(cluster.client.fetch(asked).into_bf16(&mut halves)).unwrap();
        assert_eq!(halves, rounded(&good));

        let mut lent = region(&cluster, 0..DIMENSION, 12, ElementType::F32);
        fetch_region(&cluster, request(&job, ROWS, 0..DIMENSION), &mut lent, 2).unwrap();
        assert_same_bits(&rows_of(&lent, 2..11), &good);
        assert!(rows_of(&lent, 0..2).iter().flatten().all(|value| *value == 0.0), "another slot was written");
        let written = 9 * DIMENSION * 4;
        let expected_bytes = if shared_memory { written } else { 0 };
        assert_eq!(placed(&cluster, 2), expected_bytes, "unix: {unix}, shared memory: {shared_memory}");

        let mut lent = region(&cluster, 500..2_000, 9, ElementType::Bf16);
        fetch_region(&cluster, request(&job, ROWS, 600..1_900), &mut lent, 0).unwrap();
        for (slot, row) in good.iter().enumerate() {
            let got = &lent.row_bf16(slot as u32).unwrap()[100..1_400];
            assert_eq!(got, rounded(&[row[600..1_900].to_vec()]));
        }
    }
}

#[test]
fn rows_that_have_left_the_window_reach_a_region_too() {
    let plan = plan();
    let cluster = start_with(1, |options| options.shared_memory = true);
    let job = job("replayed");
    cluster.create(&job, &plan, DIMENSION, 1).unwrap();
    cluster.fetch(&job, 30..31, 0..DIMENSION).unwrap();
    let mut lent = region(&cluster, 0..DIMENSION, 3, ElementType::F32);
    fetch_region(&cluster, request(&job, 3..6, 0..DIMENSION), &mut lent, 0).unwrap();
    assert_same_bits(&rows_of(&lent, 0..3), &cluster.expected(&job, &plan, 3..6, 0..DIMENSION));
}

#[test]
fn a_client_on_the_workers_host_prefers_its_socket() {
    let cluster = start_with(1, |options| {
        let socket = options.dir.join("own/worker.sock").display().to_string();
        // No process listens at the advertised address: only the socket reaches the worker.
        options.worker_flags = flags(&["--unix-socket", &socket, "--advertise", "http://127.0.0.1:1"]);
    });
    let job = job("near");
    let plan = plan();
    cluster.create(&job, &plan, DIMENSION, 1).unwrap();
    assert_same_bits(
        &cluster.fetch(&job, 0..2, 0..DIMENSION).unwrap(),
        &cluster.expected(&job, &plan, 0..2, 0..DIMENSION),
    );
    let mode =
        |path: &str| std::fs::metadata(cluster.dir.path().join(path)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("own"), mode("own/worker.sock")), (0o700, 0o600));
}

#[test]
fn a_socket_that_is_gone_is_no_reason_to_fail() {
    let cluster = start_with(1, |options| {
        let socket = options.dir.join("own/worker.sock").display().to_string();
        options.worker_flags = flags(&["--unix-socket", &socket]);
    });
    let job = job("far");
    let plan = plan();
    cluster.create(&job, &plan, DIMENSION, 1).unwrap();
    cluster.wait_ready(&job);
    std::fs::remove_file(cluster.dir.path().join("own/worker.sock")).unwrap();
    assert_same_bits(
        &cluster.fetch(&job, 0..2, 0..DIMENSION).unwrap(),
        &cluster.expected(&job, &plan, 0..2, 0..DIMENSION),
    );
}

#[test]
fn a_worker_killed_in_mid_fetch_costs_a_region_no_byte() {
    let mut cluster = start_with(3, |options| options.shared_memory = true);
    let job = job("killed");
    let plan = plan();
    cluster.create(&job, &plan, DIMENSION, 5).unwrap();
    let mut lent = region(&cluster, 0..DIMENSION, 40, ElementType::F32);
    fetch_region(&cluster, request(&job, 0..4, 0..DIMENSION), &mut lent, 0).unwrap();
    let client = cluster.client.clone();
    let asked = request(&job, 4..40, 0..DIMENSION);
    let fetching = cluster
        .runtime
        .spawn(async move { client.fetch(asked).into_region(&mut lent, 4).await.map(|()| lent) });
    cluster.cluster.kill_worker(1).unwrap();
    let mut lent = cluster.runtime.block_on(fetching).unwrap().unwrap();
    cluster.cluster.start_worker(1).unwrap();
    let good = cluster.expected(&job, &plan, 0..40, 0..DIMENSION);
    assert_same_bits(&rows_of(&lent, 0..40), &good);
    fetch_region(&cluster, request(&job, 7..9, 0..DIMENSION), &mut lent, 0).unwrap();
    assert_same_bits(&rows_of(&lent, 0..2), &good[7..9]);
    assert_same_bits(&rows_of(&lent, 2..40), &good[2..]);
}

#[test]
fn a_frozen_worker_keeps_memory_that_nobody_reads_any_more() {
    let cluster = start_with(2, |options| options.shared_memory = true);
    let job = job("frozen");
    let plan = plan();
    cluster.create(&job, &plan, DIMENSION, 2).unwrap();
    let mut lent = region(&cluster, 0..DIMENSION, 1, ElementType::F32);
    fetch_region(&cluster, request(&job, 0..1, 0..DIMENSION), &mut lent, 0).unwrap();
    let first = lent.layout().id;
    let pid = Pid::from_raw(cluster.cluster.worker(0).unwrap().pid() as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    // Its lease moves to the other worker, which brings the rest of the row.
    fetch_region(&cluster, request(&job, 1..2, 0..DIMENSION), &mut lent, 0).unwrap();
    assert_same_bits(&rows_of(&lent, 0..1), &cluster.expected(&job, &plan, 1..2, 0..DIMENSION));
    fetch_region(&cluster, request(&job, 2..3, 0..DIMENSION), &mut lent, 0).unwrap();
    assert_ne!(lent.layout().id, first, "memory with an unanswered request was used again");
    kill_process(pid, Signal::CONT).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert_same_bits(&rows_of(&lent, 0..1), &cluster.expected(&job, &plan, 2..3, 0..DIMENSION));
}

#[test]
fn two_jobs_lend_regions_to_the_same_worker() {
    let cluster = start_with(1, |options| options.shared_memory = true);
    let a = job("a");
    let b = job("b");
    let plan = plan();
    cluster.create(&a, &plan, DIMENSION, 2).unwrap();
    cluster.create(&b, &plan, DIMENSION, 1).unwrap();
    let mut first = region(&cluster, 0..DIMENSION, 1, ElementType::F32);
    let mut second = region(&cluster, 0..DIMENSION, 1, ElementType::F32);
    let other = {
        let _inside = cluster.runtime.enter();
        client::Client::connect(&cluster.cluster.url()).unwrap()
    };
    for row in 0..15 {
        let ask_a = request(&a, row..row + 1, 0..DIMENSION);
        let ask_b = request(&b, row..row + 1, 0..DIMENSION);
        let both = async {
            tokio::join!(
                cluster.client.fetch(ask_a).into_region(&mut first, 0),
                other.fetch(ask_b).into_region(&mut second, 0)
            )
        };
        let (got_a, got_b) = cluster.runtime.block_on(both);
        got_a.and(got_b).unwrap();
        assert_same_bits(&rows_of(&first, 0..1), &cluster.expected(&a, &plan, row..row + 1, 0..DIMENSION));
        assert_same_bits(&rows_of(&second, 0..1), &cluster.expected(&b, &plan, row..row + 1, 0..DIMENSION));
    }
}

#[test]
fn a_region_too_small_for_the_request_is_refused() {
    let cluster = start_with(1, |options| options.shared_memory = true);
    let job = job("small");
    let plan = plan();
    cluster.create(&job, &plan, DIMENSION, 1).unwrap();
    let mut lent = region(&cluster, 100..600, 2, ElementType::F32);
    for (rows, range, slot) in
        [(0..1, 99..600, 0), (0..1, 100..601, 0), (0..1, 100..600, 2), (0..2, 100..600, 1)]
    {
        let error = fetch_region(&cluster, request(&job, rows, range), &mut lent, slot).unwrap_err();
        assert_eq!(error.kind(), "invalid_argument", "{error}");
    }
    assert_eq!(placed(&cluster, 1), 0);
}
