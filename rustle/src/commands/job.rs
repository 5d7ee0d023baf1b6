//! `rustle job`: create, inspect, rewind and finish jobs.

use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;

use clap::{Args, Subcommand};
use client::Client;
use proto::{JobId, Lineage, NoiseId, pb};

use super::{dimension, online};
use crate::access::CoordinatorArg;
use crate::commands::plan_file;
use crate::key_file;
use crate::output::{Answer, Format};
use crate::progress::Progress;
use crate::streams;
use crate::values::Span;

mod account;
mod history;
mod inspect;
mod irreversible;
mod rewind_budget;
mod watch;

use account::AccountArgs;
pub use account::of as account_of;
use irreversible::{EndArgs, RewindArgs};

#[derive(Args, Clone, Debug)]
pub struct JobArgs {
    #[command(flatten)]
    coordinator: CoordinatorArg,
    /// Name of the job
    #[arg(long, default_value = "default")]
    job: JobId,
}

#[derive(Args, Clone, Debug)]
#[command(after_help = "Examples:\n  \
    rustle job create --job trial --plan plan.toml --dimension 1000000 --key-file job.key\n  \
    rustle job create --job trial --plan plan.toml --key-file job.key --data-set mails")]
pub struct CreateArgs {
    #[command(flatten)]
    job: JobArgs,
    /// File of the plan
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// Number of coordinates [default: from the plan's layout]
    #[arg(long, value_name = "M")]
    dimension: Option<u64>,
    /// Number of shards; 0 for one per worker
    #[arg(long, value_name = "S", default_value_t = 0)]
    shards: u32,
    /// File of the job's key, mode 0400 or 0600; only the key's commitment is sent
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,
    #[command(flatten)]
    account: AccountArgs,
}

#[derive(Subcommand, Clone, Debug)]
pub enum JobCommand {
    /// Create a job from a plan
    Create(Box<CreateArgs>),
    /// List all jobs
    List(CoordinatorArg),
    /// Show one job
    Show(JobArgs),
    /// Show a job while it runs: rows, ε, workers, waits, time left
    Watch(watch::WatchArgs),
    /// Finish a job: no further row can be bound
    Finish(EndArgs),
    /// Destroy a job and delete its checkpoints
    Destroy(EndArgs),
    /// Change the number of shards of a running job
    Reshard {
        #[command(flatten)]
        job: JobArgs,
        /// New number of shards, at least 1
        #[arg(long, value_name = "S", value_parser = clap::value_parser!(u32).range(1..))]
        shards: u32,
    },
    /// Set the hints for placing shards near their readers
    #[command(alias = "place")]
    Hint {
        #[command(flatten)]
        job: JobArgs,
        /// Coordinates, and a worker, a label (key=value) or `here` [default: remove all hints]
        #[arg(long, value_name = "A..B@NEAR")]
        near: Vec<HintArg>,
    },
    /// Write a checkpoint of every shard of a job
    Checkpoint(JobArgs),
    /// Rewind a job to a row: later rows get fresh noise on a new branch
    Rewind(RewindArgs),
    /// List the hash chain of a job's durable events
    Ledger(JobArgs),
    /// Show the newest entry of a job's event chain
    #[command(alias = "head")]
    LedgerHead(JobArgs),
    /// Print a cursor of a job, to store in a training checkpoint
    Cursor {
        #[command(flatten)]
        job: JobArgs,
        /// Next row of the training [default: the ledger's next row]
        #[arg(long, value_name = "T")]
        next_row: Option<u64>,
    },
    /// Resume a job at a cursor, on a new branch if rows were bound after it
    Resume {
        #[command(flatten)]
        job: JobArgs,
        /// Cursor, as `rustle job cursor` prints it
        #[arg(long)]
        cursor: String,
        /// Stay on the branch; the training must repeat the exact commitments of its rows
        #[arg(long)]
        replay: bool,
        /// Show what would happen, and change nothing
        #[arg(long)]
        check: bool,
    },
    /// Print the rows that a job released and their privacy cost, as JSON
    Report {
        #[command(flatten)]
        job: JobArgs,
        /// δ at which ε is computed, strictly between 0 and 1
        #[arg(long, default_value_t = 1e-6, allow_negative_numbers = true)]
        delta: f64,
    },
}

/// A placement hint, written `a..b@near`.
#[derive(Clone, Debug, PartialEq)]
pub struct HintArg(pb::PlacementHint);

impl FromStr for HintArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let allowed = "allowed: a..b@near, such as 0..4096@rack=3 or 0..4096@here";
        let (span, near) = text.split_once('@').ok_or(allowed)?;
        let Span(range) = span.parse()?;
        let near = match near {
            "" => return Err(allowed.to_owned()),
            "here" => node::net::local_socket::host_id(),
            near => near.to_owned(),
        };
        let range = Some(pb::CoordinateRange { start: range.start, end: range.end });
        Ok(Self(pb::PlacementHint { range, near }))
    }
}

impl JobCommand {
    fn coordinator(&self) -> &CoordinatorArg {
        match self {
            Self::List(coordinator) => coordinator,
            Self::Watch(watch) => &watch.job.coordinator,
            Self::Create(create) => &create.job.coordinator,
            Self::Show(job)
            | Self::Reshard { job, .. }
            | Self::Hint { job, .. }
            | Self::Checkpoint(job)
            | Self::Ledger(job)
            | Self::LedgerHead(job)
            | Self::Cursor { job, .. }
            | Self::Resume { job, .. }
            | Self::Report { job, .. } => &job.coordinator,
            Self::Finish(end) | Self::Destroy(end) => end.coordinator(),
            Self::Rewind(rewind) => rewind.coordinator(),
        }
    }

    pub fn run(self, format: Format) -> anyhow::Result<ExitCode> {
        let coordinator = self.coordinator().clone();
        online::block_on(&coordinator, async move {
            match self {
                Self::Create(args) => show(&create(*args).await?).print(format)?,
                Self::List(args) => inspect::list(&args, format).await?,
                Self::Show(args) => inspect::one(&args, format).await?,
                Self::Watch(args) => args.run(format).await?,
                Self::Finish(args) => args.finish().await?.print(format)?,
                Self::Destroy(args) => args.destroy().await?.print(format)?,
                Self::Reshard { job, shards } => {
                    show(&client(&job).await?.jobs().reshard(&job.job, shards).await?).print(format)?;
                }
                Self::Hint { job, near } => {
                    let hints = near.into_iter().map(|hint| hint.0).collect();
                    show(&client(&job).await?.jobs().place(&job.job, hints).await?).print(format)?;
                }
                Self::Checkpoint(args) => {
                    let progress = Progress::spinner("writing a checkpoint");
                    let checkpoint = client(&args).await?.jobs().checkpoint(&args.job).await?;
                    drop(progress);
                    checkpointed(checkpoint).print(format)?;
                }
                Self::Rewind(args) => args.rewind().await?.print(format)?,
                Self::Ledger(args) => history::ledger(&args, format).await?,
                Self::LedgerHead(args) => history::head(&args).await?.print(format)?,
                Self::Cursor { job, next_row } => history::cursor(&job, next_row).await?.print(format)?,
                Self::Resume { job, cursor, check: true, .. } => {
                    history::check(&job, &cursor).await?.print(format)?;
                }
                Self::Resume { job, cursor, replay, .. } => {
                    let resumed = history::resume(&job, &cursor, replay).await?;
                    let job = resumed.job.unwrap_or_default();
                    show(&job)
                        .with("resume_row", resumed.next_row)
                        .with("opened_branch", resumed.opened_branch)
                        .print(format)?;
                }
                Self::Report { job, delta } => {
                    let report = client(&job).await?.jobs().report(&job.job, delta).await?;
                    warn_of_doubt(&report);
                    streams::line(report)?;
                }
            }
            Ok(ExitCode::SUCCESS)
        })
    }
}

/// Says first that the figures of a report may be too low, where the ledger is known to be a copy or an old one.
fn warn_of_doubt(report: &str) {
    let report: serde_json::Value = serde_json::from_str(report).unwrap_or_default();
    if let Some(doubt) = report["ledger_doubt"].as_str() {
        streams::note(format_args!("warning: the figures may be too low: {doubt}"));
    }
}

async fn client(args: &JobArgs) -> anyhow::Result<Client> {
    args.coordinator.client().await
}

async fn create(args: CreateArgs) -> anyhow::Result<pb::Job> {
    let plan = plan_file::read(&args.plan)?;
    let request = pb::CreateJobRequest {
        job: args.job.job.to_string(),
        plan_toml: plan.to_toml_string()?,
        dimension: dimension::resolve(args.dimension, &plan)?,
        shards: args.shards,
        key_commitment: key_file::read(&args.key_file)?.commitment().to_vec(),
        plan_digest: plan.digest().to_vec(),
        account: args.account.account()?,
    };
    Ok(client(&args.job).await?.jobs().create(request).await?)
}

fn show(job: &pb::Job) -> Answer {
    Answer::new()
        .with("job", job.job.clone())
        .with("state", state(job))
        .with("mechanism", job.mechanism.clone())
        .with("plan_digest", hex::encode(&job.plan_digest))
        .with("dimension", job.dimension)
        .with("iterations", job.iterations)
        .with("branch", job.branch)
        .with("lineage", lineage(job).map(|lineage| lineage.rows_and_branches()).unwrap_or_default())
        .with("noise_id", NoiseId::try_from(job).map(|id| id.to_string()).unwrap_or_default())
        .with("shards", job.shards)
        .with("shards_ready", job.shards_ready)
        .with("shards_served", job.shards_ready)
        .with("rows_bound", job.rows_bound)
        .with("next_row", job.next_row)
}

fn lineage(job: &pb::Job) -> Option<Lineage> {
    Lineage::try_from(job.lineage.clone()).ok()
}

fn state(job: &pb::Job) -> String {
    job.state().as_str_name().trim_start_matches("JOB_STATE_").to_lowercase()
}

fn checkpointed(checkpoint: pb::Checkpoint) -> Answer {
    Answer::new()
        .with("job", checkpoint.job)
        .with("id", checkpoint.id)
        .with("next_row", checkpoint.next_row)
        .with("bytes", checkpoint.bytes)
        .with("shards", checkpoint.shards)
        .with("seconds", checkpoint.seconds)
}
