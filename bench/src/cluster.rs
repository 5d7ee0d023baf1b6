//! A local cluster of real processes with one job, whose rows are fetched one by one.

use std::ops::Range;
use std::path::Path;
use std::time::{Duration, Instant};

use client::{Client, FetchRequest};
use node::process::runtime::Runtime;
use noise_kernel::JobKey;
use plan::{Mechanism, Plan};
use proto::{Commitment, CoordinateRange, JobId, RowRange, pb};
use rustle::cluster::{ClusterOptions, LocalCluster};

use crate::arguments::cores;
use crate::cases::plan;
use crate::program::program;

pub const KEY: [u8; 32] = *b"0123456789abcdefghijklmnopqrstuv";
/// The longest wait for the cluster to complete a request.
pub const TIMEOUT: Duration = Duration::from_secs(300);

pub struct JobCluster<'a> {
    pub runtime: &'a Runtime,
    pub cluster: LocalCluster,
    pub client: Client,
    pub job: JobId,
    dimension: u64,
    buffer: Vec<f32>,
    _folder: tempfile::TempDir,
}

/// What runs, and on how much.
pub struct Size {
    pub workers: usize,
    pub shards: u32,
    pub dimension: u64,
    pub iterations: u64,
}

impl<'a> JobCluster<'a> {
    /// Starts workers that share this machine's cores, and creates the job. `set` is given the folder of the cluster.
    pub fn start(
        runtime: &'a Runtime,
        size: &Size,
        mechanism: Mechanism,
        set: impl FnOnce(&Path, &mut ClusterOptions) -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut options = ClusterOptions::new(program()?, folder.path().to_owned(), size.workers);
        options.threads_per_worker = (cores() / size.workers).max(1);
        set(folder.path(), &mut options)?;
        let cluster = LocalCluster::start(options, KEY)?;
        let _inside = runtime.enter();
        let client = Client::connect(&cluster.url())?;
        let job = JobId::new("bench")?;
        let plan = plan(mechanism, size.iterations, 1)?;
        runtime.block_on(client.jobs().create(job_request(&job, &plan, size.dimension, size.shards)?))?;
        let buffer = vec![0.0; size.dimension as usize];
        Ok(Self { runtime, cluster, client, job, dimension: size.dimension, buffer, _folder: folder })
    }

    /// Fetches one row; returns the seconds that took.
    pub fn fetch(&mut self, row: u64) -> anyhow::Result<f64> {
        let request = fetch_request(&self.job, row..row + 1, self.dimension);
        let began = Instant::now();
        self.runtime.block_on(self.client.fetch(request).into_slice(&mut self.buffer))?;
        Ok(began.elapsed().as_secs_f64())
    }
}

/// The request that creates a job under [`KEY`].
pub fn job_request(
    job: &JobId,
    plan: &Plan,
    dimension: u64,
    shards: u32,
) -> anyhow::Result<pb::CreateJobRequest> {
    Ok(pb::CreateJobRequest {
        job: job.to_string(),
        plan_toml: plan.to_toml_string()?,
        dimension,
        shards,
        key_commitment: JobKey::from_bytes(&KEY)?.commitment().to_vec(),
        plan_digest: vec![],
        account: None,
    })
}

/// The request for whole rows.
pub fn fetch_request(job: &JobId, rows: Range<u64>, dimension: u64) -> FetchRequest {
    let rows = RowRange { start: rows.start, end: rows.end };
    FetchRequest {
        job: job.clone(),
        branch: 0,
        rows,
        range: CoordinateRange { start: 0, end: dimension },
        commitments: vec![Commitment::of_text("bench"); rows.len() as usize],
        deadline: (Instant::now() + TIMEOUT).into(),
    }
}
