//! The harness of the end-to-end tests: real processes on ports that they choose, real gRPC, and the oracle to compare
//! rows with. Run them with `cargo nextest run --release -p tests` after `cargo build --release -p rustle`.

pub mod certificates;
pub mod collector;
pub mod etcd;
pub mod etcd_tls;
mod grid_rows;
mod http;
pub mod json_schema;
pub mod leaks;
mod oracle;
mod plans;
pub mod ports;
pub mod raw_call;
pub mod raw_tls;

use std::{
    borrow::Cow,
    path::PathBuf,
    time::{Duration, Instant},
};

use client::{Client, Connections, FetchRequest};
use node::process::runtime::Runtime;
use node::{auth::Role, tls::ExpectedServer};
use noise_kernel::JobKey;
use plan::Plan;
use proto::{Commitment, CoordinateRange, JobId, NoiseId, Result, RowRange, pb};
use rustle::cluster::{ClusterOptions, LocalCluster};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

pub use grid_rows::{answer_of, integers, made_by_noise};
pub use http::{get, get_any};
pub use oracle::{KEY, expected_in, expected_of, expected_of_job, ledger_id, record_in};
pub use plans::{on_grid, plans, small_plan};

/// The identity that a client over TLS expects of a cluster's first worker.
pub const WORKER: ExpectedServer = ExpectedServer::Worker(Cow::Borrowed("worker-0"));

/// Returns the program under test: `RUSTLE_BIN`, or else the one built beside the tests.
pub fn program() -> PathBuf {
    if let Some(path) = std::env::var_os("RUSTLE_BIN") {
        return path.into();
    }
    let test = std::env::current_exe().expect("the test's own path");
    let profile = test.ancestors().nth(2).expect("target/<profile>/deps/<test>");
    let program = profile.join("rustle");
    assert!(
        program.exists(),
        "{} is missing: build it first (cargo build --release -p rustle)",
        program.display()
    );
    program
}

/// A cluster in a folder of its own, and a client to it.
pub struct TestCluster {
    pub cluster: LocalCluster,
    pub client: Client,
    pub runtime: Runtime,
    pub dir: TempDir,
}

impl std::fmt::Debug for TestCluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.cluster.fmt(f)
    }
}

pub fn start(workers: usize) -> TestCluster {
    start_with(workers, |_| {})
}

pub fn start_with(workers: usize, change: impl FnOnce(&mut ClusterOptions)) -> TestCluster {
    let dir = TempDir::new().expect("a temporary folder");
    let mut options = ClusterOptions::new(program(), dir.path().to_owned(), workers);
    options.coordinator_flags =
        flags(&["--heartbeat", "50ms", "--lease-ttl", "700ms", "--checkpoint-interval", "0s"]);
    change(&mut options);
    let cluster = LocalCluster::start(options, KEY).expect("the cluster starts");
    let runtime = Runtime::new().expect("a runtime");
    let client = client_of(&cluster, &runtime, &Role::Operator);
    TestCluster { cluster, client, runtime, dir }
}

fn client_of(cluster: &LocalCluster, runtime: &Runtime, role: &Role) -> Client {
    let _inside = runtime.enter();
    let connections = Connections::dialing(cluster.dialing(role).expect("certificates"));
    Client::with_connections(&cluster.url(), connections).expect("the coordinator's URL")
}

pub fn flags(flags: &[&str]) -> Vec<String> {
    flags.iter().map(|flag| flag.to_string()).collect()
}

pub fn job(name: &str) -> JobId {
    JobId::new(name).expect("a valid name")
}

impl TestCluster {
    /// Returns a client with the certificate of a role. Without TLS all clients are the same.
    pub fn client_as(&self, role: &Role) -> Client {
        client_of(&self.cluster, &self.runtime, role)
    }

    pub fn create(&self, job: &JobId, plan: &Plan, dimension: u64, shards: u32) -> Result<pb::Job> {
        let request = pb::CreateJobRequest {
            job: job.to_string(),
            plan_toml: plan.to_toml_string().expect("a plan has a text"),
            dimension,
            shards,
            key_commitment: JobKey::from_bytes(&KEY).expect("32 bytes").commitment().to_vec(),
            plan_digest: plan.digest().to_vec(),
            account: None,
        };
        self.runtime.block_on(self.client.jobs().create(request))
    }

    /// Fetches rows, each bound to a commitment of its own number.
    pub fn fetch(
        &self,
        job: &JobId,
        rows: std::ops::Range<u64>,
        range: std::ops::Range<u64>,
    ) -> Result<Vec<Vec<f32>>> {
        let texts = rows.clone().map(|row| format!("step {row}")).collect();
        self.fetch_bound(job, rows, range, texts, Duration::from_secs(20))
    }

    pub fn fetch_bound(
        &self,
        job: &JobId,
        rows: std::ops::Range<u64>,
        range: std::ops::Range<u64>,
        commitments: Vec<String>,
        patience: Duration,
    ) -> Result<Vec<Vec<f32>>> {
        self.fetch_by(&self.client, job, rows, range, commitments, patience)
    }

    pub fn fetch_by(
        &self,
        client: &Client,
        job: &JobId,
        rows: std::ops::Range<u64>,
        range: std::ops::Range<u64>,
        commitments: Vec<String>,
        patience: Duration,
    ) -> Result<Vec<Vec<f32>>> {
        self.fetch_on(client, 0, job, rows, range, commitments, patience)
    }

    /// Fetches rows of a branch.
    #[allow(clippy::too_many_arguments)] // they are the parts of a fetch
    pub fn fetch_on(
        &self,
        client: &Client,
        branch: u64,
        job: &JobId,
        rows: std::ops::Range<u64>,
        range: std::ops::Range<u64>,
        commitments: Vec<String>,
        patience: Duration,
    ) -> Result<Vec<Vec<f32>>> {
        let rows = RowRange::new(rows.start, rows.end)?;
        let range = CoordinateRange::new(range.start, range.end)?;
        let mut out = vec![f32::NAN; (rows.len() * range.len()) as usize];
        let request = FetchRequest {
            job: job.clone(),
            branch,
            rows,
            range,
            commitments: commitments.iter().map(|text| Commitment::of_text(text)).collect(),
            deadline: (Instant::now() + patience).into(),
        };
        self.runtime.block_on(client.fetch(request).into_slice(&mut out))?;
        Ok(out.chunks(range.len() as usize).map(<[f32]>::to_vec).collect())
    }

    /// Returns the rows that the oracle computes for the job's current branch.
    pub fn expected(
        &self,
        job: &JobId,
        plan: &Plan,
        rows: std::ops::Range<u64>,
        range: std::ops::Range<u64>,
    ) -> Vec<Vec<f32>> {
        expected_of_job(&self.job(job), plan, rows, range)
    }

    /// Returns what identifies the noise of the job's current branch.
    pub fn noise_id(&self, job: &JobId) -> NoiseId {
        NoiseId::try_from(&self.job(job)).expect("a job with a nonce and a lineage")
    }

    fn job(&self, job: &JobId) -> pb::Job {
        self.runtime.block_on(self.client.jobs().get(job)).expect("the job exists")
    }

    /// Waits until all shards of the job are served.
    pub fn wait_ready(&self, job: &JobId) {
        self.wait_until("all shards are ready", || {
            let job = self.job(job);
            job.shards == job.shards_ready
        });
    }

    pub fn wait_until(&self, what: &str, mut happened: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !happened() {
            assert!(Instant::now() < deadline, "not within 20 s: {what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Returns one SHA-256 over all values of all rows.
pub fn sha256(rows: &[Vec<f32>]) -> String {
    sha256_of(rows.iter().flatten().map(|value| value.to_le_bytes()))
}

/// Returns one SHA-256 over all integers of all rows on a grid.
pub fn sha256_of_integers(rows: &[Vec<i32>]) -> String {
    sha256_of(rows.iter().flatten().map(|value| value.to_le_bytes()))
}

fn sha256_of(values: impl Iterator<Item = [u8; 4]>) -> String {
    let mut hash = Sha256::new();
    values.for_each(|value| hash.update(value));
    hex::encode(hash.finalize())
}

/// Checks that rows are equal bit for bit, and reports the first difference.
#[track_caller]
pub fn assert_same_bits(got: &[Vec<f32>], expected: &[Vec<f32>]) {
    assert_eq!(got.len(), expected.len(), "rows");
    for (row, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_eq!(got.len(), expected.len(), "coordinates of row {row}");
        for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
            assert_eq!(
                got.to_bits(),
                expected.to_bits(),
                "row {row}, coordinate {i}: {got} is not {expected}"
            );
        }
    }
}
