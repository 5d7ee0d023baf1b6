//! `rustle report`: the statement of the guarantees of a plan, or of the rows that a job released.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use accounting::AccountingError;
use accounting::rewind::ReleasedRows;
use anyhow::Context;
use clap::{ArgGroup, Args, ValueEnum};
use node::process::timestamp::rfc3339;
use plan::Plan;
use proto::JobId;
use report::{Job, Question, ReportError, Statement, Unit};

use self::sampling::SamplingArgs;
use super::account::sampled::Relation;
use super::errors::from_accounting;
use super::online;
use crate::access::CoordinatorArg;
use crate::commands::plan_file;
use crate::out_file::{self, Access, OutFile};
use crate::output::{Answer, Format, Word, bad_use};
use crate::progress::Progress;

pub mod sampling;

/// State the privacy guarantee of a plan or a job
#[derive(Clone, Debug, Args)]
#[command(group = ArgGroup::new("subject").required(true).args(["plan", "job"]))]
#[command(after_help = "Examples:\n  \
    rustle report --plan plan.toml --delta 1e-6\n  \
    rustle report --job trial --delta 1e-6 --format html")]
pub struct ReportArgs {
    /// File of a plan to report on
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    /// JSON file of the rows released in each branch, as in a job's report [default: none]
    #[arg(long, value_name = "FILE", requires = "plan")]
    released: Option<PathBuf>,
    /// Name of a job to report on, with the rows that it released
    #[arg(long)]
    job: Option<JobId>,
    #[command(flatten)]
    coordinator: CoordinatorArg,
    /// Values of δ in (0, 1), separated by commas; the first one heads the report
    #[arg(long, value_delimiter = ',', default_value = "1e-6", allow_negative_numbers = true)]
    delta: Vec<f64>,
    #[command(flatten)]
    relation: Relation,
    /// Unit of privacy, whose contribution to a round is clipped as a whole
    #[arg(long, value_enum, default_value_t = UnitName::User)]
    unit: UnitName,
    #[command(flatten)]
    sampling: SamplingArgs,
    /// File to write, in the format of its extension; - for standard output [default: -]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum UnitName {
    User,
    Example,
    Device,
    /// All records of one owner, where records have several
    Owner,
}

/// The output format of a statement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Page {
    Markdown,
    Json,
    Html,
}

pub fn run(args: &ReportArgs, word: Option<Word>) -> anyhow::Result<ExitCode> {
    let page = page(word, args.out.as_deref())?;
    let path = args.out.as_deref().unwrap_or(Path::new("-"));
    let out = OutFile::open(path, Access::Everyone)?;
    let question = question(args)?;
    let progress = Progress::spinner("computing the guarantees");
    let statement = Statement::new(&question).map_err(refused)?;
    let text = match page {
        Page::Markdown => report::markdown(&statement),
        Page::Json => format!("{}\n", serde_json::to_string(&statement)?),
        Page::Html => report::html(&statement, &question).map_err(refused)?,
    };
    drop(progress);
    out.write_and_finish(text.as_bytes())?;
    if out_file::is_stdout(path) {
        return Ok(ExitCode::SUCCESS);
    }
    let first = statement.figures.guarantees.first();
    Answer::new()
        .with("out", path.display().to_string())
        .with("epsilon", first.map(|at| at.epsilon))
        .with("delta", first.map(|at| at.delta))
        .with("plan_digest", statement.plan_digest)
        .print(if word == Some(Word::Json) { Format::Json } else { Format::Table })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the format that `--format` or the ending of `--out` names; Markdown by default.
pub fn page(word: Option<Word>, out: Option<&Path>) -> anyhow::Result<Page> {
    if let Some(out) = out {
        out_file::refuse_ending(out, "Markdown, HTML or JSON", &["md", "html", "htm", "json"])?;
    }
    let ending = out.and_then(Path::extension).and_then(|ending| ending.to_str());
    match (word, ending) {
        (Some(Word::Json), _) | (None, Some("json")) => Ok(Page::Json),
        (Some(Word::Html), _) | (None, Some("html" | "htm")) => Ok(Page::Html),
        (Some(Word::Markdown) | None, _) => Ok(Page::Markdown),
        (Some(Word::Table), _) => {
            Err(bad_use("--format is table; allowed for reports: markdown, json, html"))
        }
    }
}

fn question(args: &ReportArgs) -> anyhow::Result<Question> {
    let (plan, released, job) = match (&args.plan, &args.job) {
        (Some(path), _) => {
            let released = args.released.as_deref().map(released).transpose()?;
            (plan_file::read(path)?, released, None)
        }
        (None, Some(job)) => {
            let (job, plan, released) = of_job(args, job)?;
            (plan, Some(released), Some(job))
        }
        (None, None) => return Err(bad_use("--plan and --job are missing; allowed: one of them")),
    };
    let assumed = args.sampling.assumption()?;
    let question = Question::for_plan(plan, args.delta.clone(), env!("CARGO_PKG_VERSION"));
    let neighbouring = args.relation.neighbouring();
    let date = Some(rfc3339(SystemTime::now()));
    Ok(Question { released, job, assumed, neighbouring, unit: args.unit.into(), date, ..question })
}

fn of_job(args: &ReportArgs, job: &JobId) -> anyhow::Result<(Job, Plan, ReleasedRows)> {
    let delta = args.delta.first().copied().unwrap_or(1e-6);
    let coordinator = &args.coordinator;
    let answer = online::block_on(coordinator, async move {
        Ok(coordinator.client().await?.jobs().report(job, delta).await?)
    })?;
    Ok(Job::read(&answer)?)
}

fn released(path: &Path) -> anyhow::Result<ReleasedRows> {
    let named = || format!("released rows {}", path.display());
    let text = fs::read_to_string(path).with_context(named)?;
    serde_json::from_str(&text).map_err(|error| bad_use(format!("{}: {error}", named())))
}

impl From<UnitName> for Unit {
    fn from(name: UnitName) -> Self {
        match name {
            UnitName::User => Self::User,
            UnitName::Example => Self::Example,
            UnitName::Device => Self::Device,
            UnitName::Owner => Self::Owner,
        }
    }
}

/// Converts an error: a statement that can't be made is bad use, all else is a failure.
pub fn refused(error: ReportError) -> anyhow::Error {
    match error {
        ReportError::Accounting(AccountingError::OutOfReach { .. })
        | ReportError::Job(_)
        | ReportError::Plan(_)
        | ReportError::Plot(_) => error.into(),
        ReportError::Accounting(error) => from_accounting(error),
        error => bad_use(error),
    }
}
