//! A real coordinator and a real worker, and a job's own client of both.

use std::time::{Duration, Instant};

use ::rustle::cluster::{ClusterOptions, LocalCluster};
use anyhow::{Context, ensure};
use client::{Client, Connections, Region, Tuning};
use node::process::runtime::Runtime;
use plan::Mechanism;
use proto::{CoordinateRange, ElementType, JobId};
use serde::Serialize;
use tempfile::TempDir;

use super::usage::{self, Usage};
use crate::cases::plan;
use crate::cluster::{KEY, TIMEOUT, fetch_request, job_request};
use crate::http;
use crate::program::program;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    Tcp,
    Unix,
    SharedMemory,
}

impl Transport {
    pub const ALL: [Self; 3] = [Self::Tcp, Self::Unix, Self::SharedMemory];
}

/// One round of one transport: seconds for each row alone, and for as many rows in one request.
pub struct Served {
    pub bind: Vec<f64>,
    pub wait: Vec<f64>,
    pub bytes_per_second: f64,
}

pub struct Serving {
    cluster: LocalCluster,
    remote: Client,
    near: Client,
    region: Region,
    buffer: Vec<f32>,
    dimension: u64,
    jobs: u32,
    _folder: TempDir,
}

impl Serving {
    /// `rows`: slots of the region, and rows made ahead.
    pub fn start(runtime: &Runtime, dimension: u64, rows: u64, chunk_bytes: usize) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let mut options = ClusterOptions::new(program()?, folder.path().to_owned(), 1);
        options.threads_per_worker = crate::arguments::cores();
        options.shared_memory = true;
        let socket = folder.path().join("sockets/worker.sock").display().to_string();
        let rows_flag = rows.to_string();
        let bytes = (rows * dimension * 5).to_string();
        let flags = ["--unix-socket", &socket, "--ahead-rows", &rows_flag, "--ahead-bytes", &bytes];
        options.worker_flags = flags.map(str::to_owned).to_vec();
        options.worker_flags.extend(["--chunk-bytes".into(), chunk_bytes.to_string()]);
        let cluster = LocalCluster::start(options, KEY)?;
        let _inside = runtime.enter();
        let url = cluster.url();
        let range = CoordinateRange { start: 0, end: dimension };
        Ok(Self {
            remote: Client::with_connections(&url, Connections::new().without_local())?,
            near: Client::connect(&url)?,
            region: Region::create(range, rows as u32, ElementType::F32)?,
            buffer: vec![1.0; (dimension * rows / 2) as usize],
            cluster,
            dimension,
            jobs: 0,
            _folder: folder,
        })
    }

    /// New connections of another tuning.
    pub fn tune(&mut self, runtime: &Runtime, tuning: Tuning) -> anyhow::Result<()> {
        let _inside = runtime.enter();
        let connections = Connections::new().tuned(tuning);
        self.near = Client::with_connections(&self.cluster.url(), connections.clone())?;
        self.remote = Client::with_connections(&self.cluster.url(), connections.without_local())?;
        Ok(())
    }

    /// A job of 2 · `rows` rows, all made before the first request: nothing is made during a measurement.
    pub fn measure(&mut self, runtime: &Runtime, transport: Transport, rows: u64) -> anyhow::Result<Served> {
        let job = self.create(runtime, 2 * rows)?;
        self.wait_made(runtime, &job, 2 * rows)?;
        // The routing is known from here on, as it is to a job that runs.
        runtime.block_on(self.client(transport).routing(&job))?;
        let mut served = Served { bind: vec![], wait: vec![], bytes_per_second: 0.0 };
        for row in 0..rows {
            let (bind, wait) = runtime.block_on(self.fetch(&job, transport, row..row + 1))?;
            served.bind.push(bind);
            served.wait.push(wait);
        }
        let (_, seconds) = runtime.block_on(self.fetch(&job, transport, rows..2 * rows))?;
        served.bytes_per_second = (4 * self.dimension * rows) as f64 / seconds;
        runtime.block_on(self.near.jobs().destroy(&job))?;
        Ok(served)
    }

    /// Rows one after the other, made while they are served.
    pub fn use_at_full_speed(
        &mut self,
        runtime: &Runtime,
        transport: Transport,
        rows: u64,
    ) -> anyhow::Result<Usage> {
        let job = self.create(runtime, 1 << 20)?;
        runtime.block_on(self.fetch(&job, transport, 0..1))?;
        let pid = self.cluster.worker(0).context("the worker")?.pid();
        let before = usage::of(pid)?;
        let started = Instant::now();
        for row in 1..=rows {
            runtime.block_on(self.fetch(&job, transport, row..row + 1))?;
        }
        let used = usage::of(pid)?.since(&before, started.elapsed().as_secs_f64(), rows);
        runtime.block_on(self.near.jobs().destroy(&job))?;
        Ok(used)
    }

    fn client(&self, transport: Transport) -> &Client {
        match transport {
            Transport::Tcp => &self.remote,
            Transport::Unix | Transport::SharedMemory => &self.near,
        }
    }

    /// Seconds to bind the rows, and to have them.
    async fn fetch(
        &mut self,
        job: &JobId,
        transport: Transport,
        rows: std::ops::Range<u64>,
    ) -> anyhow::Result<(f64, f64)> {
        let client = self.client(transport).clone();
        let request = fetch_request(job, rows, self.dimension);
        let rows = request.rows;
        let started = Instant::now();
        let released = client.bind(job, 0, rows, &request.commitments).await?;
        let bind = started.elapsed().as_secs_f64();
        let started = Instant::now();
        match transport {
            Transport::SharedMemory => {
                client.fetch(request).of_released(released).into_region(&mut self.region, 0).await?
            }
            _ => {
                let out = &mut self.buffer[..(self.dimension * rows.len()) as usize];
                client.fetch(request).of_released(released).into_slice(out).await?;
            }
        }
        Ok((bind, started.elapsed().as_secs_f64()))
    }

    fn create(&mut self, runtime: &Runtime, iterations: u64) -> anyhow::Result<JobId> {
        self.jobs += 1;
        let job = JobId::new(format!("bench-{}", self.jobs))?;
        let plan = plan(Mechanism::LambdaCgd { lambda: 0.9 }, iterations, 1)?;
        runtime.block_on(self.near.jobs().create(job_request(&job, &plan, self.dimension, 1)?))?;
        Ok(job)
    }

    /// Until the worker says that it has made rows 0..`rows`, and lets its threads come to rest.
    fn wait_made(&self, runtime: &Runtime, job: &JobId, rows: u64) -> anyhow::Result<()> {
        let metrics = self.cluster.worker(0).context("the worker")?.metrics();
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let status: serde_json::Value = serde_json::from_str(&http::get(metrics, "/status")?)?;
            let shards = status["shards"].as_array().context("the worker's shards")?;
            let made = shards
                .iter()
                .find(|shard| shard["job"] == job.as_str())
                .map(|shard| shard["next_row"].clone());
            let ready = runtime.block_on(self.near.jobs().get(job))?.shards_ready == 1;
            if ready && made.and_then(|made| made.as_u64()) == Some(rows) {
                std::thread::sleep(Duration::from_millis(50));
                return Ok(());
            }
            let is_late = Instant::now() >= deadline;
            ensure!(!is_late, "the worker has not made {rows} rows after {TIMEOUT:?}: {status}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
