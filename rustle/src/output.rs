//! Answers on standard output, as a table or one JSON object; everything else on standard error.

use std::fmt::Display;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::anyhow;
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{ContentArrangement, Table};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

pub use crate::failure::{BadUse, bad_use, without_repeats};
use crate::{failure, figures, streams};

/// Columns of a table, unless `--wide` is given.
pub const WIDTH: u16 = 80;

/// The fields of a plan's grid that a table has, by their names in plan.toml.
const OF_GRID: [&str; 3] = ["step", "rounding", "summing_error"];

/// Whether `--wide` was given.
static IS_WIDE: AtomicBool = AtomicBool::new(false);

/// Lets the tables of this process be wider than 80 columns.
pub fn set_wide(is_wide: bool) {
    IS_WIDE.store(is_wide, Ordering::Relaxed);
}

/// Returns whether lines may be wider than 80 columns.
pub fn is_wide() -> bool {
    IS_WIDE.load(Ordering::Relaxed)
}

/// Returns an empty table of at most 80 columns, or of any width after [`set_wide`].
pub fn empty_table() -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    if !is_wide() {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    }
    table
}

/// Returns an empty table with this header.
pub fn table(header: &[&str]) -> Table {
    let mut table = empty_table();
    table.set_header(header.iter().copied());
    table
}

/// The colour of a word on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    Green = 32,
    Yellow = 33,
    Red = 31,
}

/// Returns a word for standard output, in colour where that is a terminal and NO_COLOR is not set.
pub fn coloured(word: &str, colour: Colour) -> String {
    let is_refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if is_refused || !io::stdout().is_terminal() {
        return word.to_owned();
    }
    format!("\u{1b}[1;{}m{word}\u{1b}[0m", colour as u8)
}

/// The format of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Table,
    Json,
}

/// The values of `--format`. Markdown and HTML are formats of `rustle report` and `rustle budget report`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Word {
    Table,
    Json,
    Markdown,
    Html,
}

/// The format of every command but the reports; a table by default.
impl TryFrom<Option<Word>> for Format {
    type Error = anyhow::Error;

    fn try_from(word: Option<Word>) -> anyhow::Result<Self> {
        match word {
            None | Some(Word::Table) => Ok(Self::Table),
            Some(Word::Json) => Ok(Self::Json),
            Some(Word::Markdown | Word::Html) => Err(bad_use(
                "--format markdown and html are for rustle report and rustle budget report; allowed: table, json",
            )),
        }
    }
}

/// Prints the error on standard error. Returns the exit status: 2 for [`BadUse`], else 1. A reader that has seen enough,
/// such as `head`, is no error: nothing is printed, and the status is 0. Every other error counts, with or without a reader.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if is_of_reader(error) {
        return ExitCode::SUCCESS;
    }
    streams::note(failure::printed(error));
    ExitCode::from(if error.is::<BadUse>() { 2 } else { 1 })
}

/// Returns the exit status of a check: 1 where it did not pass, even if the answer has no reader. Error: it passed, and the
/// answer was not printed.
pub fn status_of_check(is_passed: bool, printed: anyhow::Result<()>) -> anyhow::Result<ExitCode> {
    if is_passed {
        return printed.map(|()| ExitCode::SUCCESS);
    }
    if let Err(error) = printed {
        let _ = report(&error);
    }
    Ok(ExitCode::FAILURE)
}

/// Returns an error that [`report()`] prints even if it is that of a reader that left, which then says `outcome`. It is for
/// commands that have changed what outlives them.
pub fn never_quiet(error: anyhow::Error, outcome: impl Display) -> anyhow::Error {
    if is_of_reader(&error) { anyhow!("{error:#}: {outcome}") } else { error }
}

/// Returns whether the error is that of a write whose reader had left. A broken connection is none.
fn is_of_reader(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    streams::reader_left() && causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// The output of a command: names and values, in the order of reading.
#[derive(Debug, Default)]
pub struct Answer {
    fields: Vec<(&'static str, Value)>,
}

impl Answer {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one field. A number that JSON can't represent (NaN, ∞) becomes null.
    pub fn with(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// Prints the answer to standard output. Error: standard output can't be written.
    pub fn print(&self, format: Format) -> anyhow::Result<()> {
        let text = match format {
            Format::Json => serde_json::to_string(self)?,
            Format::Table => self.table().to_string(),
        };
        streams::line(text)
    }

    fn table(&self) -> Table {
        let mut table = empty_table();
        for (name, value) in &self.fields {
            table.add_row([(*name).to_owned(), cell(name, value)]);
        }
        table
    }
}

impl Serialize for Answer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.len()))?;
        for (name, value) in &self.fields {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Formats a value of the name, numbers to six digits. Of a long list only the ends are shown, of a long text or a list of
/// lists the beginning, and of a grid what chooses it; JSON has all of it.
fn cell(name: &str, value: &Value) -> String {
    const SHOWN: usize = 24;
    const LONGEST_TEXT: usize = 1200;
    match value {
        Value::String(text) if text.len() > LONGEST_TEXT => {
            let end = text.floor_char_boundary(LONGEST_TEXT / 2);
            format!(
                "{}\n… {} bytes in all; --format json has them, --out writes them …",
                &text[..end],
                text.len()
            )
        }
        Value::String(text) => text.clone(),
        Value::Array(lists) if lists.len() > 2 && lists[0].is_array() => {
            format!("{}\n… {} lists in all …", cell(name, &lists[0]), lists.len())
        }
        Value::Null => "-".into(),
        Value::Number(number) if number.is_f64() => {
            number.as_f64().map_or_else(|| number.to_string(), figures::shown(name))
        }
        Value::Array(values) if values.len() > SHOWN => {
            let ends = values[..SHOWN - 1].iter().chain(values.last());
            let mut cells: Vec<String> = ends.map(|value| cell(name, value)).collect();
            cells.insert(SHOWN - 1, format!("… {} in all …", values.len()));
            cells.join(", ")
        }
        Value::Array(values) => values.iter().map(|value| cell(name, value)).collect::<Vec<_>>().join(", "),
        Value::Object(fields) if name == "grid" => {
            let shown = OF_GRID.iter().filter_map(|name| Some((name, fields.get(*name)?)));
            shown.map(|(name, value)| format!("{name} {}", cell(name, value))).collect::<Vec<_>>().join(", ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use anyhow::Context;

    use super::*;

    #[test]
    fn only_the_error_of_the_pipe_itself_is_quiet() {
        let (reader, writer) = io::pipe().unwrap();
        drop(reader);
        let error = streams::Stream(writer).write_all(b"x").context("write -").unwrap_err();
        assert!(is_of_reader(&error));
        let full = anyhow::Error::from(io::Error::from(io::ErrorKind::StorageFull));
        assert!(!is_of_reader(&full) && !is_of_reader(&bad_use("--steps")));
        let error = never_quiet(error, "rows are bound");
        assert!(!is_of_reader(&error) && error.to_string().starts_with("write -: "), "{error}");
        assert!(error.to_string().ends_with(": rows are bound"), "{error}");
    }

    #[test]
    fn a_check_that_did_not_pass_is_a_failure_whether_or_not_it_is_read() {
        let status = |is_passed, printed| format!("{:?}", status_of_check(is_passed, printed).unwrap());
        let failure = format!("{:?}", ExitCode::FAILURE);
        assert_eq!(status(false, Ok(())), failure);
        assert_eq!(status(false, Err(anyhow!("full"))), failure);
        assert_ne!(status(true, Ok(())), failure);
        assert!(status_of_check(true, Err(anyhow!("full"))).is_err());
    }

    #[test]
    fn json_keeps_the_order_and_is_one_object() {
        let answer = Answer::new().with("z", 1.5).with("a", vec![1.0, 2.0]).with("nan", f64::NAN);
        assert_eq!(serde_json::to_string(&answer).unwrap(), r#"{"z":1.5,"a":[1.0,2.0],"nan":null}"#);
    }

    #[test]
    fn tables_hold_names_and_values_without_escapes() {
        let table = Answer::new().with("epsilon", 2.5).with("long", vec![0.5; 100]).table().to_string();
        assert!(table.contains("epsilon") && table.contains("2.5") && table.contains("100 in all"));
        assert!(!table.contains('\u{1b}'));
    }

    #[test]
    fn a_noise_multiplier_is_shown_in_full() {
        for (sigma, text) in [(1.1000004_f64, "1.1000004"), (4.0, "4"), (0.123456789, "0.123456789")] {
            assert_eq!(cell("noise_multiplier", &Value::from(sigma)), text);
        }
        assert_eq!(cell("epsilon", &Value::from(1.1000004_f64)), "1.10001");
    }
}
