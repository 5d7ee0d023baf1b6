//! `bench accounting`: our accounts beside dp-accounting's, in turn, and how long balls-in-bins takes.

mod balls;
mod compare;
mod grid;
mod peer;
mod report;
mod row;

use std::path::PathBuf;

use crate::arguments;
use crate::output::Output;
use crate::peers;
use balls::Epochs;
use compare::compare;
use grid::Setting;
use peer::Library;
use report::Report;
use reproduce::measure::Machine;

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    output: Output,
    /// Only these
    #[arg(long, value_parser = known)]
    setting: Vec<String>,
    /// Ours alone, without Python
    #[arg(long)]
    alone: bool,
    /// Fail where ε is not the peer's, or a limit of time is missed
    #[arg(long)]
    check: bool,
    /// Seconds after which the peer's account of a tree is cut off
    #[arg(long, value_parser = arguments::seconds, default_value_t = 60.0)]
    limit: f64,
    /// Python 3.11 or later, to make the environment with
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// Folder of the environment; that of `peers` unless given
    #[arg(long)]
    environment: Option<PathBuf>,
}

fn known(name: &str) -> Result<String, String> {
    let names = names();
    if names.iter().any(|other| other == name) {
        return Ok(name.to_owned());
    }
    Err(format!("allowed: {}", names.join(", ")))
}

fn names() -> Vec<String> {
    let settings = grid::all().into_iter().map(|setting| setting.name);
    settings.chain(balls::EPOCHS.iter().map(|epochs| balls::name(*epochs))).collect()
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let asked = |name: &String| args.setting.is_empty() || args.setting.contains(name);
    let settings: Vec<Setting> = grid::all().into_iter().filter(|setting| asked(&setting.name)).collect();
    let epochs = balls::EPOCHS.into_iter().filter(|epochs| asked(&balls::name(*epochs)));
    let mut library = if args.alone || settings.is_empty() {
        None
    } else {
        Some(Library::prepare(args.environment.clone(), &args.python, args.limit)?)
    };
    let mut report = Report::default();
    for (done, setting) in settings.iter().enumerate() {
        eprintln!("{}/{} {}", done + 1, settings.len(), setting.name);
        report.rows.push(compare(setting, library.as_mut())?);
    }
    for epochs in epochs {
        eprintln!("{}", balls::name(epochs));
        report.balls_in_bins.push(Epochs::measure(epochs)?);
    }
    let machine = Machine::current(arguments::cores().min(peers::THREADS));
    args.output.give("accounting", &machine, &report, &report.tables(), &report.charts())?;
    let faults = report.faults();
    anyhow::ensure!(!args.check || faults.is_empty(), "--check: {}", faults.join("; "));
    Ok(())
}
