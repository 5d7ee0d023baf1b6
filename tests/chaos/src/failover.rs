//! How long a lost worker costs: from its SIGKILL until the routing no longer names it, and until the first row that
//! was bound after it has come, whole.

use std::{
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use client::Client;
use dice::Dice;
use node::process::runtime::Runtime;
use proto::JobId;
use rustle::cluster::{ClusterOptions, LocalCluster};
use serde::Serialize;
use tokio::time::sleep;

use crate::{
    KEY,
    rows::{NO_PROGRESS, Rows, percentile},
};

/// Limits of the 95th percentile, in seconds.
const NOTICED: f64 = 5.0;
const FIRST_ROW: f64 = 15.0;

pub struct Options {
    pub dimension: u64,
    pub workers: usize,
    pub count: u64,
    pub seed: u64,
}

#[derive(Debug, Default, Serialize)]
pub struct Figures {
    pub dimension: u64,
    pub workers: usize,
    /// Seconds, in order of the kills.
    pub noticed: Vec<f64>,
    pub first_row: Vec<f64>,
}

impl Figures {
    pub fn is_good(&self) -> bool {
        percentile(&self.noticed, 95.0) <= NOTICED && percentile(&self.first_row, 95.0) <= FIRST_ROW
    }

    pub fn json(&self) -> serde_json::Value {
        let mut json = serde_json::to_value(self).unwrap_or_default();
        for (name, values) in [("noticed", &self.noticed), ("first_row", &self.first_row)] {
            for percent in [50.0, 95.0] {
                json[format!("{name}_p{percent}")] = percentile(values, percent).into();
            }
        }
        json
    }
}

impl std::fmt::Display for Figures {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let of = |values: &[f64]| [percentile(values, 50.0), percentile(values, 95.0)];
        let [noticed, noticed_95] = of(&self.noticed);
        let [row, row_95] = of(&self.first_row);
        write!(
            f,
            "{} kills of one of {} workers at dimension {}: noticed after {noticed:.2} s (p95 {noticed_95:.2} s, \
             limit {NOTICED} s), first row after {row:.2} s (p95 {row_95:.2} s, limit {FIRST_ROW} s)",
            self.noticed.len(),
            self.workers,
            self.dimension,
        )
    }
}

struct Failover {
    cluster: LocalCluster,
    rows: Rows,
}

/// Runs with the default heartbeat and lease, and calls `killed` after each kill. Call it from the program's first
/// thread.
pub fn run(
    program: &Path,
    dir: &Path,
    options: &Options,
    mut killed: impl FnMut(u64),
) -> anyhow::Result<Figures> {
    let workers = options.workers;
    let dimension = options.dimension;
    let mut figures = Figures { dimension, workers, ..Figures::default() };
    let mut failover = Failover::start(program, dir, options)?;
    for number in 0..options.count {
        let mut dice = Dice::new(options.seed + number);
        let (noticed, first_row) = failover.kill(dice.below(workers as u64) as usize, &mut dice)?;
        figures.noticed.push(noticed.as_secs_f64());
        figures.first_row.push(first_row.as_secs_f64());
        killed(number);
    }
    Ok(figures)
}

impl Failover {
    fn start(program: &Path, dir: &Path, options: &Options) -> anyhow::Result<Self> {
        let &Options { dimension, workers, count, .. } = options;
        let mut options = ClusterOptions::new(program.to_owned(), dir.to_owned(), workers);
        options.worker_flags = vec!["--ahead-rows".into(), "1".into()];
        let cluster = LocalCluster::start(options, KEY)?;
        let runtime = Runtime::new()?;
        let client = {
            let _inside = runtime.enter();
            Client::connect(&cluster.url())?
        };
        // Two rows a kill, and one to begin with.
        let rows = Rows::begin(runtime, client, (dimension, 2 * workers as u32), 2 * count + 1)?;
        let mut failover = Self { cluster, rows };
        failover.fetch(&mut Dice::new(0))?;
        Ok(failover)
    }

    /// Kills the worker while all is well, and waits until all is well again.
    fn kill(&mut self, worker: usize, dice: &mut Dice) -> anyhow::Result<(Duration, Duration)> {
        self.fetch(dice)?;
        self.rows.runtime.block_on(checkpoint(&self.rows.client, &self.rows.job))?;
        let endpoint = self.cluster.worker(worker).context("the worker runs")?.grpc().to_owned();
        let began = Instant::now();
        self.cluster.kill_worker(worker)?;
        let client = self.rows.client.clone();
        let job = self.rows.job.clone();
        let noticed = self.rows.runtime.spawn(gone(client, job, endpoint, began));
        let first_row = self.rows.take()?.duration_since(began);
        let noticed = self.rows.runtime.block_on(noticed)??;
        self.rows.compare(dice)?;
        self.cluster.start_worker(worker)?;
        self.rows.runtime.block_on(all_ready(&self.rows.client, &self.rows.job))?;
        Ok((noticed, first_row))
    }

    fn fetch(&mut self, dice: &mut Dice) -> anyhow::Result<()> {
        self.rows.take()?;
        self.rows.compare(dice)
    }
}

/// Waits until the routing no longer has the endpoint.
async fn gone(client: Client, job: JobId, endpoint: String, began: Instant) -> anyhow::Result<Duration> {
    loop {
        if let Ok(routing) = client.routing(&job).await {
            let names = |route: &client::Route| route.endpoint.as_deref() == Some(endpoint.as_str());
            if !routing.routes.iter().any(names) {
                return Ok(began.elapsed());
            }
        }
        ensure!(began.elapsed() < NO_PROGRESS, "{endpoint} is still in the routing after {NO_PROGRESS:?}");
        sleep(Duration::from_millis(10)).await;
    }
}

/// A worker that has come back is still being given shards: until that is over there is no checkpoint.
async fn checkpoint(client: &Client, job: &JobId) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        match client.jobs().checkpoint(job).await {
            Ok(_) => return Ok(()),
            Err(error) if error.retry_safe() && began.elapsed() < NO_PROGRESS => {}
            Err(error) => return Err(error).context("a checkpoint"),
        }
        sleep(Duration::from_millis(100)).await;
    }
}

pub async fn all_ready(client: &Client, job: &JobId) -> anyhow::Result<()> {
    let began = Instant::now();
    loop {
        let view = client.jobs().get(job).await?;
        if view.shards == view.shards_ready {
            return Ok(());
        }
        ensure!(began.elapsed() < NO_PROGRESS, "{} of {} shards are ready", view.shards_ready, view.shards);
        sleep(Duration::from_millis(20)).await;
    }
}
