//! `rustle account compose`: the privacy cost of several events together.

use std::path::PathBuf;

use accounting::Event;
use clap::Args;

use super::ask::Ask;
use super::event::{parse, text_of};
use crate::output::{Answer, bad_use};

#[derive(Clone, Debug, Args)]
pub struct ComposeArgs {
    /// Files of events, each with one event or a list of them as JSON; - for standard input
    #[arg(value_name = "FILE", required = true)]
    events: Vec<PathBuf>,
    #[command(flatten)]
    ask: Ask,
}

pub fn answer(args: &ComposeArgs) -> anyhow::Result<Answer> {
    if args.events.iter().filter(|path| path.as_os_str() == "-").count() > 1 {
        return Err(bad_use("- is given more than once; allowed: once, as standard input is read once"));
    }
    let mut events = Vec::new();
    for path in &args.events {
        let text = text_of(path)?;
        if text.trim_start().starts_with('[') {
            events.extend(parse::<Vec<Event>>(path, &text)?);
        } else {
            events.push(parse::<Event>(path, &text)?);
        }
    }
    let count = events.len();
    let answer = Answer::new().with("account", "compose");
    let answer = args.ask.of_event(&Event::Composed { events }, answer)?;
    Ok(answer.with("events", count))
}
