//! A whole coordinator over gRPC, with workers that serve a known function.

// Clippy's exemption for tests does not reach helpers of integration tests.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use client::{Client, FetchRequest};
use coordinator::{CoordinatorConfig, Settings};
use node::net::listener::Listener;
use proto::pb::{self, noise_client::NoiseClient};
use proto::{Commitment, CoordinateRange, JobId, RowRange, ServiceError};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

mod fake_worker;

use fake_worker::{FakeWorker, KEY, value};

const PLAN: &str = r#"
format = 1
stream_version = 3
iterations = 8
noise_multiplier = 1.0
clip_norm = 1.0
[participation]
min_sep = 8
max_participations = 1
[mechanism]
name = "identity"
"#;

struct Running {
    url: String,
    shutdown: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

impl Running {
    async fn start(folder: &Path, address: &str) -> Self {
        if !coordinator::ledger_file(folder).exists() {
            coordinator::init_ledger(folder).unwrap();
        }
        let settings = Settings {
            heartbeat: Duration::from_millis(20),
            lease_ttl: Duration::from_millis(400),
            ..Settings::in_folder(folder).unwrap()
        };
        let listener = TcpListener::bind(address).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let listener = Listener::Tcp(listener);
        let metrics_listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let security = node::security::ServerSecurity::default();
        let config = CoordinatorConfig {
            settings,
            listener,
            metrics_listener,
            security,
            ready_file: None,
            store: coordinator::LedgerStore::File,
            advertise: None,
        };
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(coordinator::run(config, shutdown.clone()));
        Self { url, shutdown, task }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}

fn job() -> JobId {
    JobId::new("job").unwrap()
}

async fn create(client: &Client, shards: u32) {
    let request = pb::CreateJobRequest {
        job: "job".into(),
        plan_toml: PLAN.into(),
        dimension: 5000,
        shards,
        key_commitment: KEY.to_vec(),
        plan_digest: vec![],
        account: None,
    };
    client.jobs().create(request).await.unwrap();
}

async fn ready(client: &Client, shards: u32) {
    for _ in 0..500 {
        if client.jobs().get(&job()).await.is_ok_and(|job| job.shards_ready == shards) {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("the shards did not become ready");
}

async fn fetch(client: &Client, rows: std::ops::Range<u64>) -> Result<(), ServiceError> {
    let rows = RowRange { start: rows.start, end: rows.end };
    let range = CoordinateRange { start: 100, end: 4900 };
    let request = FetchRequest {
        job: job(),
        branch: 0,
        rows,
        range,
        commitments: vec![Commitment::of_text("c"); rows.len() as usize],
        deadline: Instant::now() + Duration::from_secs(10),
    };
    let mut out = vec![f32::NAN; (rows.len() * range.len()) as usize];
    client.fetch(request).into_slice(&mut out).await?;
    let expected = rows.as_range().flat_map(|row| range.as_range().map(move |at| value(row, at)));
    assert!(expected.eq(out));
    Ok(())
}

async fn proxied(url: &str, rows: std::ops::Range<u64>) -> Result<usize, ServiceError> {
    let request = pb::FetchRequest {
        element_type: pb::ElementType::F32.into(),
        job: "job".into(),
        branch: 0,
        commitments: vec![Commitment::of_text("c").to_bytes().to_vec(); rows.clone().count()],
        rows: Some(pb::RowRange { start: rows.start, end: rows.end }),
        range: Some(pb::CoordinateRange { start: 0, end: 5000 }),
        deadline_ms: 2000,
    };
    let mut noise = NoiseClient::connect(url.to_owned()).await.unwrap();
    let mut stream = noise.fetch(request).await?.into_inner();
    let mut values = 0;
    while let Some(chunk) = stream.message().await? {
        for (at, bytes) in (chunk.start..).zip(chunk.data.as_chunks::<4>().0) {
            assert_eq!(f32::from_le_bytes(*bytes), value(chunk.row, at));
            values += 1;
        }
    }
    Ok(values)
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_come_from_the_workers_and_through_the_proxy() {
    let folder = TempDir::new().unwrap();
    let running = Running::start(folder.path(), "127.0.0.1:0").await;
    let client = Client::connect(&running.url).unwrap();
    let _workers = [FakeWorker::start("a", &running.url).await, FakeWorker::start("b", &running.url).await];
    create(&client, 4).await;
    ready(&client, 4).await;
    fetch(&client, 0..3).await.unwrap();
    fetch(&client, 0..3).await.unwrap();
    assert_eq!(proxied(&running.url, 2..4).await.unwrap(), 10_000);
    assert!(matches!(fetch(&client, 7..9).await, Err(ServiceError::RowBeyondIterations { .. })));
    assert!(matches!(proxied(&running.url, 7..9).await, Err(ServiceError::RowBeyondIterations { .. })));
    let report: String = client.jobs().report(&job(), 1e-6).await.unwrap();
    assert!(report.contains("\"rows_bound\":4"), "{report}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_outlives_its_worker_and_a_reshard() {
    let folder = TempDir::new().unwrap();
    let running = Running::start(folder.path(), "127.0.0.1:0").await;
    let client = Client::connect(&running.url).unwrap();
    let workers = [FakeWorker::start("a", &running.url).await, FakeWorker::start("b", &running.url).await];
    create(&client, 4).await;
    ready(&client, 4).await;
    fetch(&client, 0..1).await.unwrap();
    workers[0].dead.cancel();
    fetch(&client, 1..2).await.unwrap();
    assert_eq!(workers[1].grants().len(), 4);
    client.jobs().reshard(&job(), 7).await.unwrap();
    fetch(&client, 1..3).await.unwrap();
    ready(&client, 7).await;
    // What reshard stored before it split the shards is what the new ones restore from.
    assert!(workers[1].grants().iter().all(|grant| !grant.pieces.is_empty()));
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fetch_outlives_the_coordinator() {
    let folder = TempDir::new().unwrap();
    let running = Running::start(folder.path(), "127.0.0.1:0").await;
    let address = running.url.trim_start_matches("http://").to_owned();
    let client = Client::connect(&running.url).unwrap();
    let worker = FakeWorker::start("a", &running.url).await;
    create(&client, 2).await;
    ready(&client, 2).await;
    fetch(&client, 0..2).await.unwrap();
    let epochs = |worker: &FakeWorker| worker.grants().iter().map(|grant| grant.epoch).collect::<Vec<_>>();
    let before = epochs(&worker);
    running.stop().await;
    let rows = tokio::spawn({
        let client = client.clone();
        async move { fetch(&client, 1..4).await }
    });
    let running = Running::start(folder.path(), &address).await;
    rows.await.unwrap().unwrap();
    assert_eq!(epochs(&worker), before, "the worker kept its leases");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn checkpoints_are_whole_or_not_there_and_old_ones_go() {
    let folder = TempDir::new().unwrap();
    let running = Running::start(folder.path(), "127.0.0.1:0").await;
    let client = Client::connect(&running.url).unwrap();
    let workers = [FakeWorker::start("a", &running.url).await, FakeWorker::start("b", &running.url).await];
    create(&client, 2).await;
    ready(&client, 2).await;
    let stored = || {
        // The job's folder goes with its last checkpoint.
        let Ok(folders) = std::fs::read_dir(folder.path().join("checkpoints/job")) else { return 0 };
        folders.filter(|folder| folder.as_ref().unwrap().path().join("manifest.json").exists()).count()
    };
    let first = client.jobs().checkpoint(&job()).await.unwrap();
    assert_eq!((first.next_row, first.shards, stored()), (3, 2, 1));
    workers[1].fails_snapshots.store(true, Ordering::Relaxed);
    let error = client.jobs().checkpoint(&job()).await.unwrap_err();
    assert!(error.to_string().contains("the disk is full"), "{error}");
    assert_eq!(stored(), 1);
    workers[1].fails_snapshots.store(false, Ordering::Relaxed);
    for kept in [2, 2, 2] {
        assert!(client.jobs().checkpoint(&job()).await.unwrap().id > first.id);
        assert_eq!(stored(), kept);
    }
    let destroyed = client.jobs().destroy(&job()).await.unwrap();
    assert_eq!((destroyed.checkpoints_deleted, stored()), (2, 0));
    running.stop().await;
}
