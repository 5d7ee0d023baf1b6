//! Tests jobs whose plans are on a grid: their rows are the integers that `rustle noise` makes, whatever serves them, and
//! are never handed out as floats.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::{
    fs,
    ops::Range,
    time::{Duration, Instant},
};

use client::FetchRequest;
use plan::Plan;
use proto::{Commitment, CoordinateRange, ElementType, JobId, Result, RowRange, ServiceError, pb};
use tests::{TestCluster, answer_of, integers, job, made_by_noise, on_grid, plans, start, start_with};
use tokio_stream::StreamExt;

const DIMENSION: u64 = 3_700;
const PATIENCE: Duration = Duration::from_secs(60);

fn request(job: &JobId, branch: u64, rows: Range<u64>, range: Range<u64>) -> FetchRequest {
    FetchRequest {
        job: job.clone(),
        branch,
        rows: rows.clone().into(),
        range: CoordinateRange { start: range.start, end: range.end },
        commitments: rows.map(|row| Commitment::of_text(&format!("step {row} of branch {branch}"))).collect(),
        deadline: (Instant::now() + PATIENCE).into(),
    }
}

fn fetch(cluster: &TestCluster, request: FetchRequest) -> Result<Vec<Vec<i32>>> {
    let width = request.range.len() as usize;
    let mut out = vec![i32::MIN; width * request.rows.len() as usize];
    cluster.runtime.block_on(cluster.client.fetch(request).into_integers(&mut out))?;
    Ok(out.chunks(width).map(<[i32]>::to_vec).collect())
}

/// Checks rows that were served against those that `rustle noise` makes.
#[track_caller]
fn assert_made(cluster: &TestCluster, job: &JobId, plan: &Plan, request: FetchRequest) {
    let RowRange { start, end } = request.rows;
    let CoordinateRange { start: from, end: to } = request.range;
    let got = fetch(cluster, request).unwrap();
    let made = made_by_noise(cluster.dir.path(), &cluster.noise_id(job), plan, start..end, from..to);
    assert!(got == made, "rows {start}..{end} of {job}, coordinates {from}..{to}, are others");
}

#[test]
fn rows_of_every_mechanism_are_those_that_noise_makes() {
    let mut cluster = start(2);
    let jobs: Vec<_> = plans()
        .iter()
        .enumerate()
        .map(|(i, plan)| (job(&format!("grid-{i}")), on_grid(plan, DIMENSION)))
        .collect();
    let all = |job: &JobId, branch, rows| request(job, branch, rows, 0..DIMENSION);
    for ((name, plan), shards) in jobs.iter().zip([1, 2, 3].into_iter().cycle()) {
        cluster.create(name, plan, DIMENSION, shards).unwrap();
        assert_made(&cluster, name, plan, all(name, 0, 0..9));
        cluster.runtime.block_on(cluster.client.jobs().checkpoint(name)).unwrap();
    }
    for worker in [0, 1] {
        cluster.cluster.kill_worker(worker).unwrap();
        cluster.cluster.start_worker(worker).unwrap();
    }
    for (name, plan) in &jobs {
        assert_made(&cluster, name, plan, all(name, 0, 9..17));
        // Out of the window, and made once more.
        assert_made(&cluster, name, plan, all(name, 0, 2..4));
    }
    let log = |worker: usize| fs::read_to_string(cluster.cluster.worker(worker).unwrap().log()).unwrap();
    let restored = [0, 1].map(|worker| log(worker).matches("restored from a checkpoint").count());
    assert!(restored.iter().sum::<usize>() >= jobs.len(), "{restored:?} shards were restored");
    for ((name, plan), shards) in jobs.iter().zip([4, 1, 2].into_iter().cycle()) {
        cluster.runtime.block_on(cluster.client.jobs().reshard(name, shards)).unwrap();
        assert_made(&cluster, name, plan, request(name, 0, 17..20, 500..3_650));
        cluster.runtime.block_on(cluster.client.jobs().rewind(name, 15, 0)).unwrap();
        assert_made(&cluster, name, plan, all(name, 1, 15..19));
    }
}

#[test]
fn what_is_fetched_by_the_program_is_int32_and_verified() {
    let cluster = start(2);
    let name = job("files");
    let plan = on_grid(&plans()[3], DIMENSION);
    cluster.create(&name, &plan, DIMENSION, 2).unwrap();
    let folder = cluster.dir.path();
    let at = format!("--coordinator {} --job files", cluster.cluster.url());
    let fetched =
        answer_of(folder, &format!("fetch {at} --commitment a --steps 3..6 --range 100..3700 --out got.npy"));
    assert_eq!((&fetched["element"], &fetched["rows"]), (&"int32".into(), &3.into()));
    let noise_id = cluster.noise_id(&name);
    let made = made_by_noise(folder, &noise_id, &plan, 3..6, 100..3_700);
    assert_eq!(integers(&folder.join("got.npy"), 3_600), made);
    let named = format!("--plan made.toml --key-file made.key --noise-id {noise_id}");
    let verified = answer_of(folder, &format!("verify {named} --step 5 --range 100..3700 --row 2 got.npy"));
    assert_eq!(verified["equal"], true);
}

#[test]
fn rows_are_never_handed_out_as_floats() {
    let cluster = start(1);
    let name = job("never");
    cluster.create(&name, &on_grid(&plans()[0], DIMENSION), DIMENSION, 1).unwrap();
    cluster.wait_ready(&name);
    let asked = || request(&name, 0, 0..1, 0..DIMENSION);
    let is_refused = |outcome: Result<()>| {
        let error = outcome.unwrap_err();
        assert!(matches!(error, ServiceError::GridRowsAreIntegers { .. }), "{error}");
        assert!(error.to_string().contains("i32") && !error.retry_safe(), "{error}");
    };
    let mut floats = vec![0f32; DIMENSION as usize];
    let mut halves = vec![0u16; DIMENSION as usize];
    let client = &cluster.client;
    is_refused(cluster.runtime.block_on(client.fetch(asked()).into_slice(&mut floats)));
    is_refused(cluster.runtime.block_on(client.fetch(asked()).into_bf16(&mut halves)));
    let mut lent = client.lend(asked().range, 1, ElementType::F32).unwrap();
    is_refused(cluster.runtime.block_on(client.fetch(asked()).into_region(&mut lent, 0)));
    // By the coordinator, and of a caller that says nothing of types.
    for element in [pb::ElementType::Unspecified, pb::ElementType::F32, pb::ElementType::Bf16] {
        is_refused(through_coordinator(&cluster, &name, element).map(|_| ()));
    }
    let bound = || cluster.runtime.block_on(client.jobs().get(&name)).unwrap().rows_bound;
    assert_eq!(bound(), 0, "a request that is refused used a row up");
    // By the worker itself, of rows that are bound.
    let released =
        cluster.runtime.block_on(client.bind(&name, 0, asked().rows, &asked().commitments)).unwrap();
    let of_released = || client.fetch(asked()).of_released(released.clone());
    is_refused(cluster.runtime.block_on(of_released().into_slice(&mut floats)));
    is_refused(cluster.runtime.block_on(of_released().into_bf16(&mut halves)));
    assert!(floats.iter().all(|value| *value == 0.0) && halves.iter().all(|value| *value == 0));

    let row = fetch(&cluster, asked()).unwrap().remove(0);
    let chunks = through_coordinator(&cluster, &name, pb::ElementType::I32).unwrap();
    let bytes: Vec<u8> = row.iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(chunks.iter().flat_map(|chunk| chunk.data.to_vec()).collect::<Vec<_>>(), bytes);
    // Nor does a job of floats hand out integers.
    let floats = job("floats");
    cluster.create(&floats, &plans()[0], DIMENSION, 1).unwrap();
    let error = fetch(&cluster, request(&floats, 0, 0..1, 0..DIMENSION)).unwrap_err();
    assert_eq!(error.kind(), "invalid_argument", "{error}");
}

fn through_coordinator(
    cluster: &TestCluster,
    job: &JobId,
    element: pb::ElementType,
) -> Result<Vec<pb::Chunk>> {
    let request = pb::FetchRequest {
        job: job.to_string(),
        rows: Some(pb::RowRange { start: 0, end: 1 }),
        range: Some(pb::CoordinateRange { start: 0, end: DIMENSION }),
        commitments: vec![Commitment::of_text("step 0 of branch 0").to_bytes().to_vec()],
        deadline_ms: 20_000,
        element_type: element.into(),
        branch: 0,
    };
    cluster.runtime.block_on(async {
        let mut noise = pb::noise_client::NoiseClient::connect(cluster.cluster.url()).await.unwrap();
        let mut stream = noise.fetch(request).await.map_err(ServiceError::from)?.into_inner();
        let mut chunks = vec![];
        while let Some(chunk) = stream.next().await {
            chunks.push(chunk.map_err(ServiceError::from)?);
        }
        chunks.sort_by_key(|chunk| chunk.start);
        Ok(chunks)
    })
}

#[test]
fn integers_reach_a_region_of_shared_memory() {
    let cluster = start_with(2, |options| options.shared_memory = true);
    let name = job("lent");
    let plan = on_grid(&plans()[3], DIMENSION);
    cluster.create(&name, &plan, DIMENSION, 3).unwrap();
    let asked = || request(&name, 0, 0..5, 100..3_600);
    let mut lent = cluster.client.lend(asked().range, 5, ElementType::I32).unwrap();
    cluster.runtime.block_on(cluster.client.fetch(asked()).into_region(&mut lent, 0)).unwrap();
    assert!(lent.row(0).is_err(), "integers were read as floats");
    let rows: Vec<_> = (0..5).map(|slot| lent.row_integers(slot).unwrap().to_vec()).collect();
    assert_eq!(rows, fetch(&cluster, asked()).unwrap());
    assert_made(&cluster, &name, &plan, asked());
    let placed = |worker: usize| {
        let page = tests::get(cluster.cluster.worker(worker).unwrap().metrics(), "/metrics");
        let line = page.lines().find(|line| line.starts_with("rustle_worker_placed_bytes_total"));
        line.and_then(|line| line.split_whitespace().last()?.parse::<u64>().ok()).unwrap_or(0)
    };
    assert_eq!(placed(0) + placed(1), 5 * 3_500 * 4);
}
