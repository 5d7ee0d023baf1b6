//! `rustle up`: a cluster on this machine, until it is told to stop.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use client::{Client, Connections};
use node::auth::Role;
use noise_kernel::JobKey;
use plan::Plan;
use proto::{JobId, pb};

use super::harden::harden;
use crate::cluster::{ClusterOptions, LocalCluster};
use crate::key_file;
use crate::output::{Answer, Format};

/// Start a coordinator and workers on this machine, with one job
#[derive(Args, Clone, Debug)]
pub struct UpArgs {
    /// The job's plan
    #[arg(long)]
    plan: PathBuf,
    /// Number of coordinates; omit if the plan has a layout
    #[arg(long, default_value_t = 0)]
    dimension: u64,
    /// Number of worker processes
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    #[arg(long, default_value = "default")]
    job: JobId,
    /// The job's key file [default: a new random key in DATA_DIR/job.key]
    #[arg(long)]
    key_file: Option<PathBuf>,
    /// Folder for the ledger, checkpoints and logs
    #[arg(long, default_value = "rustle-data")]
    data_dir: PathBuf,
    /// Address the coordinator listens on
    #[arg(long, default_value = "127.0.0.1:7300")]
    listen: String,
    /// Use Unix sockets in DATA_DIR/sockets instead of TCP
    #[arg(long, conflicts_with = "listen")]
    unix: bool,
    /// Address of the status page and metrics; each worker uses a different port
    #[arg(long, default_value = "127.0.0.1:0")]
    metrics_listen: String,
    /// Use TLS on every connection, with certificates from this cluster's own authority in DATA_DIR/tls
    #[arg(long, conflicts_with = "unix")]
    tls: bool,
    /// OpenTelemetry collector to which coordinator and workers send traces (OTLP over gRPC)
    #[arg(long, value_name = "URL", hide_short_help = true)]
    otlp: Option<String>,
    /// Let workers write rows into shared memory provided by jobs of this user
    #[arg(long)]
    shared_memory: bool,
}

pub fn run(args: &UpArgs, format: Format) -> anyhow::Result<ExitCode> {
    let plan = Plan::from_path(&args.plan)?;
    std::fs::create_dir_all(&args.data_dir).with_context(|| format!("create {}", args.data_dir.display()))?;
    // It holds the key for as long as the cluster runs.
    harden()?;
    let key = key(args)?;
    let cluster = LocalCluster::start(options(args)?, *key.secret_bytes())?;
    let runtime = node::process::runtime::Runtime::new()?;
    let job = runtime.block_on(create_job(&cluster, args, &plan, &key))?;
    say(&cluster, args, job, format)?;
    runtime.block_on(async {
        node::process::shutdown::token_on_signals()?.cancelled().await;
        anyhow::Ok(())
    })?;
    cluster.stop()?;
    Ok(ExitCode::SUCCESS)
}

fn options(args: &UpArgs) -> anyhow::Result<ClusterOptions> {
    let program = std::env::current_exe().context("find this program")?;
    let mut options = ClusterOptions::new(program, args.data_dir.clone(), args.workers.into());
    options.listen = args.listen.clone();
    options.coordinator_flags = vec!["--metrics-listen".into(), args.metrics_listen.clone()];
    if let Some(url) = &args.otlp {
        let flags = ["--otlp".to_owned(), url.clone()];
        options.coordinator_flags.extend(flags.clone());
        options.worker_flags.extend(flags);
    }
    options.unix = args.unix;
    options.shared_memory = args.shared_memory;
    options.tls = args.tls;
    Ok(options)
}

async fn create_job(
    cluster: &LocalCluster,
    args: &UpArgs,
    plan: &Plan,
    key: &JobKey,
) -> anyhow::Result<pb::Job> {
    // One shard for each worker, though not all of them may have registered yet.
    let dimension = plan.layout().map_or(args.dimension, plan::Layout::dimension);
    let blocks = dimension.div_ceil(noise_kernel::BLOCK as u64).max(1);
    let request = pb::CreateJobRequest {
        job: args.job.to_string(),
        plan_toml: plan.to_toml_string()?,
        dimension: args.dimension,
        shards: blocks.min(u64::from(args.workers)) as u32,
        key_commitment: key.commitment().to_vec(),
        plan_digest: plan.digest().to_vec(),
    };
    let connections = Connections::dialing(cluster.dialing(&Role::Operator)?);
    Ok(Client::with_connections(&cluster.url(), connections)?.jobs().create(request).await?)
}

/// What runs, and a command to try on it.
fn say(cluster: &LocalCluster, args: &UpArgs, job: pb::Job, format: Format) -> anyhow::Result<()> {
    Answer::new()
        .with("coordinator", cluster.url())
        .with("status_page", cluster.coordinator().map(|process| format!("{}/", process.metrics())))
        .with("job", job.job)
        .with("mechanism", job.mechanism)
        .with("dimension", job.dimension)
        .with("iterations", job.iterations)
        .with("shards", job.shards)
        .with("workers", args.workers)
        .with("logs", args.data_dir.display().to_string())
        .print(format)?;
    let tls = if args.tls {
        format!(" --tls-dir {}", cluster.certificate(&Role::Job(args.job.to_string()))?.display())
    } else {
        String::new()
    };
    eprintln!(
        "running; Ctrl-C stops it. Try: rustle fetch --coordinator {}{tls} --job {} --steps 0..2 --range 0..8 --out x.npy",
        cluster.url(),
        args.job
    );
    Ok(())
}

fn key(args: &UpArgs) -> anyhow::Result<JobKey> {
    let own = args.data_dir.join("job.key");
    match &args.key_file {
        Some(path) => key_file::read(path),
        None if own.exists() => key_file::read(&own),
        None => key_file::create(&own),
    }
}
