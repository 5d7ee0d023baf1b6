//! `bench strategy`: our optimisers beside jax-privacy's, in turn, each loss evaluated twice.

mod compare;
mod figure;
mod grid;
mod parameters;
mod peer;
mod progress;
mod report;
mod row;
mod rustle;
mod setting;
mod suggestion;

use std::path::PathBuf;

use crate::arguments;
use crate::comparison::Comparison;
use crate::output::Output;
use crate::peers::{self, environment::Environment};
use compare::{Library, Theirs};
use figure::Figure;
use progress::Progress;
use report::Report;
use reproduce::measure::Machine;
use row::{Row, Timed, Verdict};
use rustle::Ours;
use setting::Setting;
use suggestion::Suggested;

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    output: Output,
    /// Few and small settings: ours, the peer and the agreement of both evaluations in a few minutes
    #[arg(long, conflicts_with_all = ["named", "suggest", "setting"])]
    quick: bool,
    /// Only the figures with limits of their own, without a peer
    #[arg(long, conflicts_with = "setting")]
    named: bool,
    /// Only the suggestions of the planner, without a peer
    #[arg(long, conflicts_with_all = ["named", "setting"])]
    suggest: bool,
    /// Only these, such as blt-4,n=2052,b=342,k=6,max
    #[arg(long)]
    setting: Vec<Setting>,
    /// Ours alone, without Python
    #[arg(long)]
    alone: bool,
    /// Fail where a loss is above the peer's, the median speed below 100 times its, or a limit missed
    #[arg(long)]
    check: bool,
    /// Processors that both sides run on; two unless given
    #[arg(long, value_parser = arguments::positive)]
    threads: Option<usize>,
    /// Python 3.11 or later, to make the environment with
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Folder of the environment; that of `peers` unless given
    #[arg(long)]
    environment: Option<PathBuf>,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let settings = settings(args)?;
    let are_limits_left_out = args.quick || !args.setting.is_empty();
    let named = if are_limits_left_out || args.suggest { Vec::new() } else { grid::named()? };
    let runs = if are_limits_left_out { &[] } else { &suggestion::RUNS[..] };
    let threads = args.threads.unwrap_or(peers::THREADS.min(arguments::cores()));
    peers::pin(threads)?;

    let progress = Progress::new(settings.len() + named.len() + runs.len());
    let (settings, verdict) = match (settings.is_empty(), args.alone) {
        (true, _) => (Vec::new(), None),
        (false, true) => (alone(&settings, &progress), None),
        (false, false) => {
            let rows = compared(&settings, args, &progress)?;
            let verdict = Verdict::of(&rows);
            (rows, Some(verdict))
        }
    };
    let named = named.into_iter().map(|named| {
        let setting = named.setting;
        progress.over(&setting, || Figure::measure(named))
    });
    let named = named.collect();
    let suggestions = runs.iter().map(|run| {
        let name = Suggested::name(run);
        progress.over(&name, || Suggested::measure(*run))
    });
    let suggestions = suggestions.collect();
    progress.finish();

    let report = Report { named, suggestions, settings, verdict };
    args.output.give("strategy", &Machine::current(threads), &report, &report.tables(), &report.charts())?;
    let faults = report.faults();
    anyhow::ensure!(!args.check || faults.is_empty(), "--check: {}", faults.join("; "));
    Ok(())
}

fn settings(args: &Args) -> anyhow::Result<Vec<Setting>> {
    match (&args.setting[..], args.quick, args.named || args.suggest) {
        ([], true, _) => Setting::list(grid::QUICK),
        ([], false, true) => Ok(Vec::new()),
        ([], false, false) => Setting::list(grid::GRID),
        (asked, ..) => Ok(asked.to_vec()),
    }
}

fn alone(settings: &[Setting], progress: &Progress) -> Vec<Row> {
    let row = |setting: &Setting| row(setting, Ours::alone(setting).map(|ours| (ours, Comparison::Alone)));
    settings.iter().map(|setting| progress.over(setting, || row(setting))).collect()
}

/// Error: no peer to ask.
fn compared(settings: &[Setting], args: &Args, progress: &Progress) -> anyhow::Result<Vec<Row>> {
    let environment = Environment::prepare(args.environment.clone(), &args.python)?;
    environment.install(peers::Library::JaxPrivacy)?;
    let mut library = Library::new(&environment, progress.clone())?;
    let rows =
        settings.iter().map(|setting| progress.over(setting, || row(setting, library.compare(setting))));
    Ok(rows.collect())
}

/// What went wrong on our side is a result too: the other settings go on.
fn row(setting: &Setting, found: anyhow::Result<(Ours, Comparison<Theirs>)>) -> Row {
    let timed = found.and_then(|(ours, beside)| Ok((Timed::of(&ours)?, beside)));
    let (ours, beside) = match timed {
        Ok((timed, beside)) => (Ok(timed), beside),
        Err(error) => (Err(format!("{error:#}")), Comparison::Alone),
    };
    Row { setting: *setting, ours, beside }
}
