//! Where results go: a table or JSON to standard output, and JSON and charts to the record.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use plot::{Chart, Series, Value};
use serde::Serialize;

use reproduce::measure::{Format, Machine};

#[derive(clap::Args, Clone, Debug)]
pub struct Output {
    /// How results are printed
    #[arg(long, value_enum, default_value = "table")]
    pub format: Format,
    /// Write JSON and charts to `<DIR>/<processor>/<date>-<command>.{json,svg}` too
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "bench/record")]
    pub record: Option<PathBuf>,
}

impl Output {
    /// Prints and records what `command` found. `tables` are titled by their first parts.
    pub fn give(
        &self,
        command: &str,
        machine: &Machine,
        results: &impl Serialize,
        tables: &[(String, Table)],
        charts: &[Chart],
    ) -> anyhow::Result<()> {
        let json = with_machine(machine, results)?;
        match self.format {
            Format::Json => println!("{json:#}"),
            Format::Table => {
                let Machine { processor, instruction_set, threads, .. } = machine;
                println!("{processor}, {instruction_set}, {threads} threads");
                for (title, table) in tables {
                    println!("\n{title}\n{table}");
                }
            }
        }
        if let Some(folder) = &self.record {
            let path = folder.join(machine.slug()).join(format!("{}-{command}", machine.date));
            record(&path, &json, charts).with_context(|| format!("record to {}", path.display()))?;
            let and = if charts.is_empty() { "" } else { " and .svg" };
            eprintln!("recorded: {}.json{and}", path.display());
        }
        Ok(())
    }
}

fn with_machine(machine: &Machine, results: &impl Serialize) -> anyhow::Result<serde_json::Value> {
    let mut json = serde_json::to_value(results)?;
    let fields = json.as_object_mut().context("results are an object")?;
    fields.insert("machine".into(), serde_json::to_value(machine)?);
    Ok(json)
}

fn record(path: &Path, json: &serde_json::Value, charts: &[Chart]) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(path.with_extension("json"), format!("{json:#}\n"))?;
    if !charts.is_empty() {
        fs::write(path.with_extension("svg"), plot::svg(charts)?)?;
    }
    Ok(())
}

/// A table whose first column is names and whose others are numbers.
pub fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header(header).add_rows(rows);
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    table
}

/// Lines from named points, in the order in which their names first come.
pub fn by_name<'a>(points: impl Iterator<Item = (&'a str, (f64, Value))>) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for (name, point) in points {
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => all.push(Series::new(name, vec![point])),
        }
    }
    all
}

/// 1e5 rather than 100000, where it is a power of ten.
pub fn round(number: u64) -> String {
    let exponent = number.checked_ilog10().unwrap_or(0);
    let exact = exponent >= 4 && number.is_multiple_of(10u64.pow(exponent));
    if exact { format!("{}e{exponent}", number / 10u64.pow(exponent)) } else { number.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let shown: Vec<_> = [0, 512, 1000, 10_000, 20_000_000, 123_456].into_iter().map(round).collect();
        assert_eq!(shown, ["0", "512", "1000", "1e4", "2e7", "123456"]);
    }

    #[test]
    fn a_record_holds_results_machine_and_picture() {
        let folder = tempfile::tempdir().unwrap();
        let output = Output { format: Format::Json, record: Some(folder.path().into()) };
        let machine = Machine::current(3);
        let axis = plot::Axis::linear;
        let chart =
            Chart::lines("t", axis("x"), axis("y"), by_name([("one", (1.0, 2.0.into()))].into_iter()));
        output.give("kernels", &machine, &serde_json::json!({ "cases": [] }), &[], &[chart]).unwrap();
        let path = folder.path().join(machine.slug()).join(format!("{}-kernels", machine.date));
        let json: serde_json::Value =
            serde_json::from_slice(&fs::read(path.with_extension("json")).unwrap()).unwrap();
        assert_eq!(json["machine"]["threads"], 3);
        assert!(json["cases"].is_array());
        let picture = fs::read_to_string(path.with_extension("svg")).unwrap();
        assert!(roxmltree::Document::parse(&picture).is_ok());
    }
}
