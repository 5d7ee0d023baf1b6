//! `rustle account event`: the privacy cost of an event given as JSON.

use std::path::{Path, PathBuf};

use accounting::{Account, Event, pld};
use anyhow::Context;
use clap::Args;

use super::Ask;
use crate::commands::errors::from_accounting;
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
    let Ask { delta, relation } = args.ask;
    let account = Account::new(&event, relation.neighbouring()).map_err(from_accounting)?;
    let figure = account.epsilon_figure(delta, pld::ACCURACY).map_err(from_accounting)?;
    let mut answer = Answer::new()
        .with("account", "event")
        .with("event", event.name())
        .with("epsilon", figure.value)
        .with("delta", delta);
    if let Some(rho) = account.rho() {
        answer = answer.with("rho", rho);
    }
    answer = answer.with("neighbouring", relation.name()).with("of_plan", args.plan.is_some());
    Ok(if figure.coarsened { answer.with("grid_spacing", figure.spacing) } else { answer })
}

fn read(path: &Path) -> anyhow::Result<Event> {
    let named = || format!("event {}", path.display());
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin()).with_context(named)?
    } else {
        std::fs::read_to_string(path).with_context(named)?
    };
    serde_json::from_str(&text).map_err(|error| bad_use(format!("{}: {error}", named())))
}
