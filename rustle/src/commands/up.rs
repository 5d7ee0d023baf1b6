//! `rustle up`: a cluster on this machine, until Ctrl-C or SIGTERM.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use client::{Client, Connections};
use node::auth::Role;
use noise_kernel::JobKey;
use plan::Plan;
use proto::{JobId, pb};

use super::dimension;
use super::harden::harden;
use crate::cluster::{ClusterOptions, LocalCluster, begin_ledger};
use crate::commands::plan_file;
use crate::output::{Answer, Format, bad_use, never_quiet};
use crate::progress::Progress;
use crate::streams;
use budget::UpBudgetArgs;
use watch::Watch;

mod budget;
mod exec;
mod own_key;
mod sound;
mod watch;

/// Start a coordinator, workers and one job on this machine
#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    rustle up --plan plan.toml --dimension 1000000 --workers 2\n  \
    rustle up --plan plan.toml --dimension 1000000 --exec 'python train.py \"$RUSTLE_URL\"'")]
pub struct UpArgs {
    /// File of the job's plan
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Number of coordinates [default: from the plan's layout]
    #[arg(long, value_name = "M")]
    dimension: Option<u64>,
    /// Number of worker processes, from 1 to 256
    #[arg(long, value_name = "W", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..=256))]
    workers: u16,
    /// Name of the job
    #[arg(long, default_value = "default")]
    job: JobId,
    /// File of the job's key [default: DATA_DIR/job.key, created if missing]
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Folder for the ledger, checkpoints and logs
    #[arg(long, value_name = "DIR", default_value = "rustle-data")]
    data_dir: PathBuf,
    /// Address of the coordinator, ip:port
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7300")]
    listen: String,
    /// Use Unix sockets in DATA_DIR/sockets instead of TCP
    #[arg(long, conflicts_with = "listen")]
    unix: bool,
    /// Address of the coordinator's status page and metrics; port 0 for any
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    metrics_listen: String,
    /// Use TLS on every connection, with an authority in DATA_DIR/tls
    #[arg(long, conflicts_with = "unix")]
    tls: bool,
    /// URL of an OpenTelemetry collector for traces, OTLP over gRPC [default: none]
    #[arg(long, value_name = "URL", hide_short_help = true)]
    otlp: Option<String>,
    /// Let workers write rows into shared memory of this user's jobs
    #[arg(long)]
    shared_memory: bool,
    /// Start a process again that has ended by itself [default: say why; end with the coordinator or the last worker]
    #[arg(long)]
    restart: bool,
    #[command(flatten)]
    budget: UpBudgetArgs,
    /// Print the addresses only once every shard of the job is served. Until then any process that ends is a failure,
    /// with --restart too
    #[arg(long)]
    wait: bool,
    /// Run a command by the shell once every shard is served, then end the cluster with its exit status. It finds the
    /// cluster in RUSTLE_COORDINATOR, RUSTLE_TLS_DIR, RUSTLE_JOB and RUSTLE_URL, which rustle.connect takes. Where the
    /// cluster ends first, all processes of the command get SIGTERM, and SIGKILL after 5 s
    #[arg(long, value_name = "COMMAND")]
    exec: Option<String>,
}

pub fn run(args: &UpArgs, format: Format) -> anyhow::Result<ExitCode> {
    let plan = plan_file::read(&args.plan)?;
    args.budget.check()?;
    let dimension = dimension::resolve(args.dimension, &plan)?;
    args.check_addresses()?;
    // This process holds the key while the cluster runs.
    harden()?;
    let options = options(args)?;
    own_key::check(args.key_file.as_deref())?;
    // All that is given was judged: from here on there is a folder, and then a ledger.
    std::fs::create_dir_all(&args.data_dir).with_context(|| format!("create {}", args.data_dir.display()))?;
    // Before a key is drawn, which would be a trace of an earlier ledger.
    begin_ledger(&options)?;
    let key = own_key::key(args.key_file.as_deref(), &args.data_dir, &args.job)?;
    let progress = Progress::spinner("starting the cluster");
    let mut cluster = LocalCluster::start(options, *key.secret_bytes())?;
    let runtime = node::process::runtime::Runtime::new()?;
    let job = runtime.block_on(create_job(&cluster, args, &plan, dimension, &key))?;
    runtime.block_on(async { sound::check_ledger(&operator(&cluster)?, args.workers).await })?;
    if args.wait || args.exec.is_some() {
        let show = |text: String| progress.set_message(text);
        runtime.block_on(async {
            let client = operator(&cluster)?;
            exec::wait_until_served(&mut cluster, &client, &args.job, show).await
        })?;
    }
    drop(progress);
    let mut watch = Watch::start(&runtime, args.restart)?;
    print_cluster(&cluster, args, job, format).map_err(|error| {
        let kept = args.data_dir.display();
        never_quiet(error, format_args!("the cluster is stopped, and its job stays in {kept}"))
    })?;
    if let Some(command) = &args.exec {
        watch.end_with(exec::ClusterCommand::start(command, variables(&cluster, args)?)?);
    }
    watch.run(&runtime, cluster)
}

impl UpArgs {
    /// Refuses addresses that the coordinator would, whose own words are about flags that this command lacks.
    fn check_addresses(&self) -> anyhow::Result<()> {
        let is_open = |address: &SocketAddr| !self.tls && !address.ip().to_canonical().is_loopback();
        let listen = &self.listen;
        let metrics = &self.metrics_listen;
        let is_refused = match listen.parse::<SocketAddr>() {
            Ok(address) => is_open(&address),
            Err(_) => !listen.starts_with("unix:"),
        };
        if is_refused {
            return Err(bad_use(format!(
                "--listen is {listen}; allowed: ip:port of this machine alone, such as 127.0.0.1:7300; with --tls, of any"
            )));
        }
        if metrics.parse::<SocketAddr>().is_err() {
            return Err(bad_use(format!(
                "--metrics-listen is {metrics}; allowed: ip:port, such as 127.0.0.1:7301"
            )));
        }
        Ok(())
    }
}

/// Returns the variables by which the command of `--exec` finds the cluster.
fn variables(cluster: &LocalCluster, args: &UpArgs) -> anyhow::Result<Vec<(&'static str, String)>> {
    let tls_dir = own_tls_dir(cluster, args)?;
    let mut variables = vec![
        ("RUSTLE_COORDINATOR", cluster.url()),
        ("RUSTLE_JOB", args.job.to_string()),
        ("RUSTLE_URL", session_url(&cluster.url(), &args.job, tls_dir.as_deref())),
    ];
    variables.extend(tls_dir.map(|dir| ("RUSTLE_TLS_DIR", dir.display().to_string())));
    Ok(variables)
}

/// Returns the folder of the job's certificate; `None` without TLS.
fn own_tls_dir(cluster: &LocalCluster, args: &UpArgs) -> anyhow::Result<Option<PathBuf>> {
    let role = Role::Job(args.job.to_string());
    if args.tls { cluster.certificate(&role).map(Some) } else { Ok(None) }
}

fn operator(cluster: &LocalCluster) -> anyhow::Result<Client> {
    let connections = Connections::dialing(cluster.dialing(&Role::Operator)?);
    Ok(Client::with_connections(&cluster.url(), connections)?)
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
    dimension: u64,
    key: &JobKey,
) -> anyhow::Result<pb::Job> {
    // One shard for each worker: the coordinator knows only those that have registered.
    let blocks = dimension.div_ceil(noise_kernel::BLOCK as u64).max(1);
    let client = operator(cluster)?;
    let account = args.budget.account(&client).await?;
    let request = pb::CreateJobRequest {
        job: args.job.to_string(),
        plan_toml: plan.to_toml_string()?,
        dimension,
        shards: blocks.min(u64::from(args.workers)) as u32,
        key_commitment: key.commitment().to_vec(),
        plan_digest: plan.digest().to_vec(),
        account,
    };
    Ok(client.jobs().create(request).await?)
}

/// Prints the cluster's addresses, and a command to try.
fn print_cluster(cluster: &LocalCluster, args: &UpArgs, job: pb::Job, format: Format) -> anyhow::Result<()> {
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
    if args.exec.is_none() {
        streams::note(hint(&cluster.url(), &args.job, own_tls_dir(cluster, args)?.as_deref()));
    }
    Ok(())
}

/// Returns what to do next. No command of it binds a row: a row that was tried out counts as released.
fn hint(url: &str, job: &JobId, tls_dir: Option<&Path>) -> String {
    let flags = tls_dir.map_or(String::new(), |dir| format!(" --tls-dir {}", dir.display()));
    let session = session_url(url, job, tls_dir);
    format!(
        "running; press Ctrl-C to stop.\n\
         Look at the job:    rustle job show --coordinator {url}{flags} --job {job}\n\
         Train with it:      session = rustle.connect(\"{session}\")   # Python"
    )
}

/// Returns the URL of a Python session.
fn session_url(url: &str, job: &JobId, tls_dir: Option<&Path>) -> String {
    let settings = tls_dir.map_or(String::new(), |dir| format!("&tls_dir={}", dir.display()));
    // A socket has the same URL for both.
    let session = if url.starts_with("unix:") { url.to_owned() } else { url.replacen("http", "grpc", 1) };
    format!("{session}?job={job}{settings}")
}
