//! `rustle ledger log` and `export`: what a ledger's file has recorded, entry by entry.

use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use clap::Args;
use ledger::{EntryLine, LedgerError, LedgerFile, Stamp};
use node::process::timestamp::rfc3339;
use proto::{DataSetId, JobId};
use serde_json::Value;

use super::LedgerPlace;
use super::since::Since;
use crate::out_file::{self, Access, OutFile};
use crate::output::{self, Answer, Format, bad_use};
use crate::streams;

/// The longest text of an event in a table.
const SHOWN: usize = 90;

#[derive(Clone, Debug, Args)]
pub struct LogArgs {
    #[command(flatten)]
    chains: ChainArgs,
    /// Entries not older than this: a time such as 2026-11-27T01:30:00Z, or how long ago, such as 90m or 24h
    #[arg(long, value_name = "TIME")]
    since: Option<Since>,
}

#[derive(Clone, Debug, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    chains: ChainArgs,
    /// File of JSON lines to write; - for standard output
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

/// Chains of a ledger's file.
#[derive(Clone, Debug, Args)]
struct ChainArgs {
    #[command(flatten)]
    place: LedgerPlace,
    /// Entries of this job alone
    #[arg(long, value_name = "JOB", conflicts_with = "data_set")]
    job: Option<JobId>,
    /// Entries of this data set alone
    #[arg(long, value_name = "NAME")]
    data_set: Option<DataSetId>,
}

/// Reads a ledger's file. Says what to do where a process has it open.
pub fn read(path: &Path) -> anyhow::Result<LedgerFile> {
    LedgerFile::read(path).map_err(|error| match error {
        LedgerError::Locked { .. } => anyhow::anyhow!(
            "{error}. While it is in use, read a copy by rustle ledger backup, or ask the coordinator: rustle job ledger"
        ),
        error => error.into(),
    })
}

impl ChainArgs {
    /// Calls `visit` with every requested entry.
    fn entries(&self, mut visit: impl FnMut(EntryLine) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let file = read(&self.place.path())?;
        let all: Vec<String> = file.chains()?.into_iter().map(|chain| chain.name).collect();
        let only = self.only();
        if let Some(only) = only.as_ref().filter(|only| !all.contains(only)) {
            return Err(bad_use(format!("{only} is no chain of this ledger; it has: {}", all.join(", "))));
        }
        for name in all.iter().filter(|name| only.as_ref().is_none_or(|only| only == *name)) {
            file.entries(name, 0, |entry| {
                visit(EntryLine::new(name, entry)?)?;
                anyhow::Ok(true)
            })?;
        }
        Ok(())
    }

    /// Returns the name of the only requested chain.
    fn only(&self) -> Option<String> {
        let data_set = self.data_set.as_ref().map(|data_set| format!("data-set/{data_set}"));
        self.job.as_ref().map(ToString::to_string).or(data_set)
    }
}

/// Prints the entries of all chains.
pub fn log(args: &LogArgs, format: Format) -> anyhow::Result<ExitCode> {
    let since_ms = args.since.map_or(0, |since| since.0);
    let mut table = output::table(&["at (UTC)", "by", "chain", "entry", "event"]);
    args.chains.entries(|entry| {
        if entry.at_ms < since_ms {
            return Ok(());
        }
        match format {
            Format::Json => streams::line(entry.to_json()),
            Format::Table => {
                table.add_row(row(&entry));
                Ok(())
            }
        }
    })?;
    if format == Format::Table {
        streams::line(table)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes the entries of whole chains as JSON lines.
pub fn export(args: &ExportArgs, format: Format) -> anyhow::Result<ExitCode> {
    let mut out = OutFile::open(&args.out, Access::Owner)?;
    let mut entries = 0u64;
    {
        let mut lines = BufWriter::new(&mut out);
        args.chains.entries(|entry| {
            entries += 1;
            Ok(writeln!(lines, "{}", entry.to_json())?)
        })?;
        lines.flush()?;
    }
    out.finish()?;
    if !out_file::is_stdout(&args.out) {
        Answer::new().with("out", args.out.display().to_string()).with("entries", entries).print(format)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn row(entry: &EntryLine) -> [String; 5] {
    let at = rfc3339(UNIX_EPOCH + Duration::from_millis(entry.at_ms));
    let at = at.trim_end_matches('Z').replace('T', " ");
    [at, entry.by.clone(), entry.chain.clone(), entry.index.to_string(), event(entry)]
}

/// Returns the event in short: digests and lists of shards are left to JSON.
fn event(entry: &EntryLine) -> String {
    let fields =
        Stamp::split(&entry.event).ok().and_then(|(_, own)| serde_json::from_str::<Value>(&own).ok());
    let fields = fields.as_ref().and_then(Value::as_object).into_iter().flatten();
    let shown = fields.filter_map(|(name, value)| match (name.as_str(), value) {
        ("event", _) => None,
        ("rows", Value::Array(rows)) => Some(format!("rows {}", span(rows))),
        ("shards", Value::Array(shards)) => Some(format!("shards {}", shards.len())),
        (_, Value::String(text)) if text.len() >= 64 => None,
        (_, Value::String(text)) => Some(format!("{name} {text}")),
        (_, Value::Object(_) | Value::Array(_)) => None,
        _ => Some(format!("{name} {value}")),
    });
    let text = std::iter::once(entry.kind.clone()).chain(shown).collect::<Vec<_>>().join(", ");
    if text.chars().count() <= SHOWN {
        return text;
    }
    format!("{}…", text.chars().take(SHOWN - 1).collect::<String>())
}

/// Returns the rows of a bound event, such as `3..8`, or their number where they have gaps.
fn span(rows: &[Value]) -> String {
    let numbers: Vec<u64> = rows.iter().filter_map(|row| row[0].as_u64()).collect();
    match (numbers.first(), numbers.last()) {
        (Some(first), Some(last)) if last - first + 1 == numbers.len() as u64 => {
            format!("{first}..{}", last + 1)
        }
        _ => format!("{} of them", numbers.len()),
    }
}
