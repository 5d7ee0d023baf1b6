//! `rustle account event`: the privacy cost of an event given as JSON.

use std::path::{Path, PathBuf};

use accounting::Event;
use anyhow::Context;
use clap::Args;
use serde::de::DeserializeOwned;

use super::ask::Ask;
use crate::commands::plan_file;
use crate::commands::report::refused;
use crate::output::{Answer, bad_use};

#[derive(Clone, Debug, Args)]
pub struct EventArgs {
    /// File of the event as JSON, or - for standard input
    #[arg(long, value_name = "FILE")]
    event: PathBuf,
    /// File of a plan that the event must match [default: none]
    #[arg(long, value_name = "FILE")]
    plan: Option<PathBuf>,
    #[command(flatten)]
    ask: Ask,
}

pub fn answer(args: &EventArgs) -> anyhow::Result<Answer> {
    let event = read(&args.event)?;
    if let Some(path) = &args.plan {
        let plan = plan_file::read(path)?;
        report::event::check(&event, &plan).map_err(refused)?;
    }
    let answer = Answer::new().with("account", "event").with("event", event.name());
    Ok(args.ask.of_event(&event, answer)?.with("of_plan", args.plan.is_some()))
}

fn read(path: &Path) -> anyhow::Result<Event> {
    parse(path, &text_of(path)?)
}

/// Reads a file, or standard input for -.
pub fn text_of(path: &Path) -> anyhow::Result<String> {
    let named = || named(path);
    if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin()).with_context(named)
    } else {
        std::fs::read_to_string(path).with_context(named)
    }
}

pub fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> anyhow::Result<T> {
    serde_json::from_str(text).map_err(|error| bad_use(format!("{}: {error}", named(path))))
}

fn named(path: &Path) -> String {
    format!("event {}", path.display())
}
