//! `rustle account compose`: the privacy cost of several events together.

use std::path::{Path, PathBuf};

use accounting::{Account, Event};
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
    let mut files: Vec<(&Path, Vec<Event>)> = Vec::new();
    for path in &args.events {
        let text = text_of(path)?;
        let is_list = text.trim_start().starts_with('[');
        let events = if is_list { parse::<Vec<Event>>(path, &text)? } else { vec![parse(path, &text)?] };
        files.push((path, events));
    }
    let events: Vec<Event> = files.iter().flat_map(|(_, events)| events).cloned().collect();
    let count = events.len();
    let answer = Answer::new().with("account", "compose");
    let answer = args.ask.of_event(&Event::Composed { events }, answer);
    let answer = answer.map_err(|error| args.located(&files).unwrap_or(error))?;
    Ok(answer.with("events", count))
}

impl ComposeArgs {
    /// Returns the error of the first event that has no account by itself, with its place; `None` where each has one.
    fn located(&self, files: &[(&Path, Vec<Event>)]) -> Option<anyhow::Error> {
        let relation = self.ask.relation.neighbouring();
        files.iter().find_map(|(path, events)| {
            events.iter().enumerate().find_map(|(index, event)| {
                let error = Account::new(event, relation).err()?;
                let of = match events.len() {
                    1 => String::new(),
                    count => format!(", event {} of {count}", index + 1),
                };
                Some(bad_use(format!("event {}{of}: {error}", path.display())))
            })
        })
    }
}
