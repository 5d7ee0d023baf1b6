//! The demo's run: a local cluster, training, a killed worker, and a check of every delivered row against the oracle.

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::Context;
use client::{Client, FetchRequest};
use node::process::runtime::Runtime;
use noise_kernel::JobKey;
use noise_worker::generation_spec::GenerationSpec;
use plan::Plan;
use proto::{Commitment, CoordinateRange, JobId, NoiseId, RowRange, pb};
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::{
    digits::Digits,
    mechanisms::{Contender, contenders},
    model::PARAMETERS,
    row::{Comparison, Reference, Row},
    training::{Config, Step, train},
};
use crate::cluster::{ClusterOptions, LocalCluster};

/// Deadline of a row, longer than the replacement of a lost worker takes.
const ROW_DEADLINE: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct DemoOptions {
    pub program: PathBuf,
    pub dir: PathBuf,
    pub workers: usize,
    pub seeds: u64,
    pub epsilon: f64,
    pub delta: f64,
    /// True for rows of floating-point numbers, which do not hold against precision attacks.
    pub float: bool,
}

/// The result that `rustle demo` prints.
#[derive(Clone, Debug, Serialize)]
pub struct DemoReport {
    pub epsilon: f64,
    pub delta: f64,
    /// int32, on a grid, or float32.
    pub rows: &'static str,
    /// Whether every delivered bit equals the oracle's.
    pub bits_agree: bool,
    pub rows_compared: u64,
    pub values_compared: u64,
    /// Values compared with the reference implementation: on a grid some, and all with the kernel's portable code.
    pub values_exact: u64,
    pub values_differing: u64,
    pub workers: usize,
    pub worker_killed: String,
    pub dimension: u64,
    pub iterations: u64,
    pub min_sep: u64,
    pub max_participations: u64,
    pub test_accuracy_without_noise: f64,
    pub mechanisms: Vec<MechanismReport>,
    pub seconds: f64,
}

#[derive(Clone, Debug, Serialize)]
pub struct MechanismReport {
    pub mechanism: String,
    pub noise_multiplier: f64,
    pub rms_loss: f64,
    pub test_accuracy_mean: f64,
    pub test_accuracy_std: f64,
    pub state_bytes_per_parameter: u64,
    pub seconds: f64,
}

/// The rows delivered to a job, kept for the oracle.
struct Delivered {
    job: JobId,
    plan: Plan,
    rows: Vec<Row>,
}

/// Receives the progress: training runs done, runs in total, and the next step.
pub type OnProgress<'a> = &'a mut dyn FnMut(u64, u64, &str);

/// Runs the demo. Call it from the program's first thread (see [`LocalCluster::start`]).
pub fn run(options: &DemoOptions, on_progress: OnProgress<'_>) -> anyhow::Result<DemoReport> {
    let started = Instant::now();
    let config = Config::default();
    on_progress(0, 1, "optimizing strategies");
    let contenders = contenders(&config, options.epsilon, options.delta, options.float)?;
    let key = random()?;

    let cluster_options = ClusterOptions::new(options.program.clone(), options.dir.clone(), options.workers);
    let mut demo = Demo {
        cluster: LocalCluster::start(cluster_options, key)?,
        runtime: Runtime::with_threads(2)?,
        key: JobKey::from_bytes(&key)?,
        delivered: Vec::new(),
        nonce: random()?,
        killed: None,
    };
    let mut mechanisms = Vec::new();
    let runs = contenders.len() as u64 * options.seeds;
    for (index, contender) in contenders.iter().enumerate() {
        mechanisms.push(demo.train_with(
            contender,
            index,
            contenders.len(),
            runs,
            options,
            &config,
            on_progress,
        )?);
    }
    on_progress(runs, runs, "recomputing every delivered row");
    let compared = demo.compare()?;
    let rows_compared = demo.delivered.iter().map(|d| d.rows.len() as u64).sum();
    demo.cluster.stop()?;
    Ok(DemoReport {
        epsilon: options.epsilon,
        delta: options.delta,
        rows: if options.float { "float32" } else { "int32" },
        bits_agree: compared.differing == 0 && compared.exact > 0,
        rows_compared,
        values_compared: compared.values,
        values_exact: compared.exact,
        values_differing: compared.differing,
        workers: options.workers,
        worker_killed: demo.killed.unwrap_or_default(),
        dimension: PARAMETERS as u64,
        iterations: config.steps() as u64,
        min_sep: config.batches_per_epoch as u64,
        max_participations: config.epochs as u64,
        test_accuracy_without_noise: train(&Digits::load()?, 0, config, &mut |_, _| Ok(()))?.test_accuracy,
        mechanisms,
        seconds: started.elapsed().as_secs_f64(),
    })
}

struct Demo {
    cluster: LocalCluster,
    runtime: Runtime,
    key: JobKey,
    delivered: Vec<Delivered>,
    /// Random, so that no two processes bind their steps to the same commitments.
    nonce: [u8; 32],
    killed: Option<String>,
}

fn random() -> anyhow::Result<[u8; 32]> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the operating system's randomness: {error}"))?;
    Ok(bytes)
}

impl Demo {
    /// Trains once per seed with one mechanism. Kills a worker halfway through the whole demo.
    #[allow(clippy::too_many_arguments)]
    fn train_with(
        &mut self,
        contender: &Contender,
        index: usize,
        of: usize,
        runs: u64,
        options: &DemoOptions,
        config: &Config,
        on_progress: OnProgress<'_>,
    ) -> anyhow::Result<MechanismReport> {
        let started = Instant::now();
        let mut accuracies = Vec::new();
        for seed in 0..options.seeds {
            let done = index as u64 * options.seeds + seed;
            on_progress(done, runs, &format!("training with {} (seed {seed})", contender.name));
            let kill_here = index == of / 2 && seed == options.seeds / 2 && options.workers > 1;
            accuracies.push(self.train(contender, seed, config, kill_here)?);
        }
        let mean = accuracies.iter().sum::<f64>() / accuracies.len() as f64;
        let spread = accuracies.iter().map(|a| (a - mean).powi(2)).sum::<f64>();
        Ok(MechanismReport {
            mechanism: contender.name.clone(),
            noise_multiplier: contender.plan.noise_multiplier(),
            rms_loss: contender.rms_loss,
            test_accuracy_mean: mean,
            test_accuracy_std: (spread / (accuracies.len().max(2) - 1) as f64).sqrt(),
            state_bytes_per_parameter: 4 * contender.plan.state_slots() as u64,
            seconds: started.elapsed().as_secs_f64(),
        })
    }

    fn train(
        &mut self,
        contender: &Contender,
        seed: u64,
        config: &Config,
        kill: bool,
    ) -> anyhow::Result<f64> {
        let job = JobId::new(format!("{}-{seed}", contender.name))?;
        let client = self.create(&job, &contender.plan)?;
        let digits = Digits::load()?;
        let mut rows = Vec::new();
        let trained = train(&digits, seed, *config, &mut |step: Step, sum: &mut [f64]| {
            if kill && step.index == config.steps() as u64 / 2 {
                self.kill_one()?;
            }
            let request = self.request(&job, step)?;
            let row = self.runtime.block_on(Row::fetch(client.fetch(request), &contender.plan))?;
            row.add_to(sum);
            rows.push(row);
            Ok(())
        })?;
        self.runtime.block_on(client.jobs().finish(&job))?;
        self.delivered.push(Delivered { job, plan: contender.plan.clone(), rows });
        Ok(trained.test_accuracy)
    }

    fn create(&self, job: &JobId, plan: &Plan) -> anyhow::Result<Client> {
        let _inside = self.runtime.enter();
        let client = Client::connect(&self.cluster.url())?;
        let request = pb::CreateJobRequest {
            job: job.to_string(),
            plan_toml: plan.to_toml_string()?,
            dimension: PARAMETERS as u64,
            shards: 0,
            key_commitment: self.key.commitment().to_vec(),
            plan_digest: plan.digest().to_vec(),
            account: None,
        };
        self.runtime.block_on(client.jobs().create(request))?;
        Ok(client)
    }

    /// Returns the request of a step, with a `declared` commitment to its batch and this process's nonce.
    fn request(&self, job: &JobId, step: Step) -> anyhow::Result<FetchRequest> {
        let commitment = Sha256::new().chain_update(self.nonce).chain_update(step.batch).finalize();
        Ok(FetchRequest {
            job: job.clone(),
            branch: 0,
            rows: RowRange::new(step.index, step.index + 1)?,
            range: CoordinateRange::new(0, PARAMETERS as u64)?,
            commitments: vec![Commitment::declared(commitment.into())],
            deadline: (Instant::now() + ROW_DEADLINE).into(),
        })
    }

    fn kill_one(&mut self) -> anyhow::Result<()> {
        let pid = self.cluster.worker(1).context("worker 1 is not running")?.pid();
        self.cluster.kill_worker(1)?;
        self.killed = Some(format!("worker-1 (process {pid}) by SIGKILL"));
        Ok(())
    }

    /// Compares every delivered value with those made here.
    fn compare(&self) -> anyhow::Result<Comparison> {
        let mut compared = Comparison::default();
        let _inside = self.runtime.enter();
        let client = Client::connect(&self.cluster.url())?;
        for Delivered { job, plan, rows } in &self.delivered {
            let created = self.runtime.block_on(client.jobs().get(job))?;
            let noise_id = NoiseId::try_from(&created)?;
            let spec = GenerationSpec::new(plan, &self.key, PARAMETERS as u64, &noise_id)?;
            compared += Reference::new(spec, plan, rows.len() as u64)?.compare(rows);
        }
        Ok(compared)
    }
}
