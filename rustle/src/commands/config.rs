//! `rustle config show`: each setting with its value and the source of that value.

use std::process::ExitCode;

use anyhow::Context;
use clap::{ArgMatches, Args, Command, FromArgMatches, Subcommand, ValueEnum, parser::ValueSource};
use coordinator::CoordinatorArgs;
use node::config::settings::{Layers, Setting};
use node::telemetry::TelemetryArgs;
use noise_worker::config::WorkerArgs;
use serde::Serialize;

use crate::any_value::take_any_value;
use crate::output::{self, Format, bad_use};
use crate::plain_words;
use crate::settings_error::of_settings;
use crate::streams;

/// Show the settings of a process, and where each comes from
#[derive(Subcommand, Clone, Debug)]
pub enum ConfigCommand {
    /// Show every setting of a process, its value, and the source of the value
    Show {
        /// Process to show
        #[arg(value_enum)]
        process: Process,
        /// Flags of the process, which precede environment, file and defaults
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        flags: Vec<String>,
    },
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    Coordinator,
    Worker,
}

#[derive(Serialize)]
struct Shown {
    name: String,
    value: Option<String>,
    source: String,
}

impl ConfigCommand {
    pub fn run(self, format: Format) -> anyhow::Result<ExitCode> {
        let Self::Show { process, flags } = self;
        let settings = match process {
            Process::Coordinator => coordinator(&flags)?,
            Process::Worker => worker(&flags)?,
        };
        match format {
            Format::Json => streams::line(serde_json::json!({ "settings": settings }))?,
            Format::Table => {
                let mut table = output::table(&["setting", "value", "from"]);
                for shown in &settings {
                    table.add_row([&shown.name, shown.value.as_deref().unwrap_or("-"), &shown.source]);
                }
                streams::line(table)?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn parse(command: Command, flags: &[String]) -> anyhow::Result<ArgMatches> {
    command.mut_args(take_any_value).no_binary_name(true).try_get_matches_from(flags).map_err(|error| {
        let text = plain_words::of(&error.render().to_string());
        bad_use(text.trim_start_matches("error: ").trim_end())
    })
}

fn coordinator(flags: &[String]) -> anyhow::Result<Vec<Shown>> {
    let telemetry = TelemetryArgs::augment_args(Command::new("coordinator"));
    let names = names_of(&telemetry);
    let matches = parse(CoordinatorArgs::augment_args(telemetry), flags)?;
    let resolved = CoordinatorArgs::from_arg_matches(&matches)?.resolve();
    let (_, settings) = resolved.map_err(of_settings)?;
    let own: Vec<Shown> =
        names.into_iter().map(|name| given(&matches, name)).collect::<anyhow::Result<_>>()?;
    Ok(own.into_iter().chain(settings.iter().map(shown)).collect())
}

fn shown(setting: &Setting) -> Shown {
    let Setting { name, value, source } = setting;
    Shown { name: name.to_string(), value: value.clone(), source: source.to_string() }
}

fn worker(flags: &[String]) -> anyhow::Result<Vec<Shown>> {
    let command = TelemetryArgs::augment_args(WorkerArgs::augment_args(Command::new("worker")));
    let names = names_of(&command);
    let matches = parse(command, flags)?;
    let mut layers = Layers::load(None).map_err(of_settings)?;
    WorkerArgs::from_arg_matches(&matches)?.security.resolve(&mut layers).map_err(of_settings)?;
    let layered: Vec<Shown> = layers.finish().map_err(of_settings)?.iter().map(shown).collect();
    let own = names.into_iter().filter(|name| layered.iter().all(|shown| shown.name != *name));
    let own: Vec<Shown> = own.map(|name| given(&matches, name)).collect::<anyhow::Result<_>>()?;
    Ok(own.into_iter().chain(layered).collect())
}

fn names_of(command: &Command) -> Vec<String> {
    command.get_arguments().map(|argument| argument.get_id().to_string()).collect()
}

/// Returns a setting that clap alone resolves.
fn given(matches: &ArgMatches, name: String) -> anyhow::Result<Shown> {
    let raw = matches.get_raw(&name).and_then(|mut values| values.next());
    let value = raw.map(|value| {
        value.to_str().context("the setting is not UTF-8; allowed: UTF-8 text").map(str::to_owned)
    });
    let source = match matches.value_source(&name) {
        Some(ValueSource::CommandLine) => "flag",
        Some(ValueSource::EnvVariable) => "environment",
        Some(_) => "default",
        None => "not set",
    };
    Ok(Shown { name, value: value.transpose()?, source: source.into() })
}
