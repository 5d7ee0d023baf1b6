//! What `bench accounting` found, as JSON, tables and charts.

use comfy_table::Table;
use plot::{Axis, Chart};
use serde::Serialize;

use super::balls::{BATCHES, Epochs, LIMIT, SAMPLES};
use super::row::Row;
use crate::comparison::{cell, short_time};
use crate::output::table;

#[derive(Default, Serialize)]
pub struct Report {
    #[serde(rename = "settings")]
    pub rows: Vec<Row>,
    pub balls_in_bins: Vec<Epochs>,
}

impl Report {
    /// What stands against it; nothing where every limit is kept.
    pub fn faults(&self) -> Vec<String> {
        self.rows
            .iter()
            .flat_map(Row::faults)
            .chain(self.balls_in_bins.iter().filter_map(Epochs::fault))
            .collect()
    }

    pub fn tables(&self) -> Vec<(String, Table)> {
        let mut tables = Vec::new();
        if !self.rows.is_empty() {
            let header = ["setting", "", "ours", "finer grid", "peer's", "apart"];
            let header = [&header[..], &["ours, ms", "finer, ms", "peer's, ms", "×", "outcome"]].concat();
            let title = "Accounts beside dp-accounting 0.6.0 (grid 1e-4) and, of trees, TensorFlow Privacy 0.9.0; × is \
                         how many times as fast ours is, by medians";
            tables.push((title.into(), table(&header, self.rows.iter().map(cells))));
        }
        if !self.balls_in_bins.is_empty() {
            let header = ["epochs", "δ at ε = 1", "standard error", "G, ms", "δ, s", "limit, s"];
            let title = format!("Balls-in-bins, {BATCHES} batches, {SAMPLES} samples, both orders");
            tables.push((title, table(&header, self.balls_in_bins.iter().map(epochs))));
        }
        tables
    }

    pub fn charts(&self) -> Vec<Chart> {
        let compared: Vec<&Row> = self.rows.iter().filter(|row| row.ratio().is_some()).collect();
        if compared.is_empty() {
            return Vec::new();
        }
        let bars = |pick: fn(&Row) -> Option<plot::Value>| compared.iter().map(|row| pick(row)).collect();
        let names = compared.iter().map(|row| row.setting.name.clone()).collect();
        let groups = [
            ("ours", bars(|row| Some(row.seconds.drawn(1e-3)))),
            ("peer", bars(|row| Some(row.beside.compared()?.seconds.drawn(1e-3)))),
        ];
        vec![Chart::bars("Time of an account", Axis::log("ms"), names, groups, None)]
    }
}

fn cells(row: &Row) -> Vec<String> {
    let theirs = row.beside.compared();
    vec![
        row.setting.name.clone(),
        row.setting.figure().into(),
        format!("{:.6}", row.figure),
        cell(row.fine, |fine| format!("{:.6}", fine.figure)),
        cell(theirs, |theirs| format!("{:.6}", theirs.figure)),
        cell(row.apart(), |apart| format!("{apart:+.1e}")),
        milliseconds(row.seconds.median),
        cell(row.fine, |fine| milliseconds(fine.seconds)),
        cell(theirs, |theirs| milliseconds(theirs.seconds.median)),
        cell(row.ratio(), |ratio| format!("{ratio:.0}")),
        row.outcome(),
    ]
}

fn epochs(row: &Epochs) -> Vec<String> {
    vec![
        row.epochs.to_string(),
        format!("{:.3e}", row.delta),
        format!("{:.1e}", row.standard_error),
        milliseconds(row.gram_seconds),
        row.seconds.shown(1.0),
        LIMIT.to_string(),
    ]
}

/// Three digits that count.
fn milliseconds(seconds: f64) -> String {
    short_time(seconds * 1e3, [2, 4])
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::row;
    use super::*;

    #[test]
    fn tables_json_and_charts_hold_what_was_compared() {
        let report = Report {
            rows: vec![row("poisson-64", 4.4979, 0.002, 4.497868), row("tree-small", 0.2, 0.5, 0.2)],
            balls_in_bins: Vec::new(),
        };
        let printed: String = report.tables().iter().map(|(_, table)| table.to_string()).collect();
        assert!(
            printed.contains("poisson-64") && printed.contains("500") && printed.contains("missed"),
            "{printed}"
        );
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["settings"][0]["ratio"], 500.0);
        assert_eq!(report.faults(), ["tree-small: 0.5000 s, limit 0.1 s"]);
        assert!(plot::svg(&report.charts()).is_ok());
    }
}
