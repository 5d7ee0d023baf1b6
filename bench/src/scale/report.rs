//! What `bench scale` found, as JSON, tables and charts.

use std::collections::BTreeSet;

use comfy_table::Table;
use plot::{Axis, Chart, Series};
use serde::Serialize;

use super::growth::{Grown, Grows};
use super::scaling::{Kind, Scaled};
use crate::output::{by_name, round, table};

#[derive(Debug, Serialize)]
pub struct Report {
    /// What threads and workers run, and how many rows at once everything is made.
    pub case: String,
    pub rows_at_once: usize,
    pub threads: Vec<Scaled>,
    pub workers: Vec<Scaled>,
    pub growth: Vec<Grown>,
}

impl Report {
    pub fn tables(&self) -> Vec<(String, Table)> {
        let scaled = |what: &str, found: &[Scaled]| {
            let header = [what, "scaling", "coordinates", "M coordinates/s", "efficiency"];
            (
                format!("{} by {what}, {} rows at once", self.case, self.rows_at_once),
                table(&header, found.iter().map(Scaled::row)),
            )
        };
        let header = ["mechanism", "n", "d", "ms a row"];
        let grown = table(&header, self.growth.iter().map(Grown::row));
        vec![
            scaled("threads", &self.threads),
            scaled("workers", &self.workers),
            ("Time of a row as n, d and p grow".into(), grown),
        ]
    }

    pub fn charts(&self) -> Vec<Chart> {
        let mut charts = vec![
            speedups("Threads of one process", &self.threads),
            speedups("Worker processes", &self.workers),
        ];
        let grows: BTreeSet<Grows> = self.growth.iter().map(|grown| grown.grows).collect();
        charts.extend(grows.into_iter().map(|grows| self.costs(grows)));
        charts
    }

    fn costs(&self, grows: Grows) -> Chart {
        let grown = self.growth.iter().filter(|grown| grown.grows == grows);
        let points = grown.map(|it| (it.family.as_str(), (it.value as f64, it.seconds_per_row.drawn(1e-3))));
        let (title, label) = match grows {
            Grows::Rows => ("Time of a row as n grows", "rows n"),
            Grows::Coordinates => ("Time of a row as d grows", "coordinates d"),
            Grows::Bands => ("Time of a row as p grows", "bands p"),
        };
        Chart::lines(title, Axis::log(label), Axis::log("ms a row"), by_name(points))
    }
}

/// Rates of both kinds of scaling, and what perfect scaling of each would be.
fn speedups(what: &str, found: &[Scaled]) -> Chart {
    let mut series = Vec::new();
    for kind in [Kind::Strong, Kind::Weak] {
        let of_kind = || found.iter().filter(move |scaled| scaled.kind == kind);
        let points =
            of_kind().map(|scaled| (scaled.count as f64, scaled.coordinates_per_second.drawn(1.0))).collect();
        series.push(Series::new(format!("{kind:?}"), points));
    }
    for kind in [Kind::Strong, Kind::Weak] {
        let Some(one) = found.iter().find(|scaled| scaled.kind == kind && scaled.count == 1) else {
            continue;
        };
        let perfect = found.iter().filter(|scaled| scaled.kind == kind).map(|scaled| {
            (scaled.count as f64, (scaled.count as f64 * one.coordinates_per_second.median).into())
        });
        let name = format!("{kind:?}, perfect");
        series.push(Series { name, points: perfect.collect(), dashed: true });
    }
    let title = format!("{what}: strong and weak scaling");
    Chart::lines(title, Axis::linear("threads or workers"), Axis::linear("coordinates/s"), series)
}

impl Scaled {
    fn row(&self) -> Vec<String> {
        let efficiency = format!("{:.0} %", 100.0 * self.efficiency.median);
        vec![
            self.count.to_string(),
            format!("{:?}", self.kind).to_lowercase(),
            round(self.coordinates),
            self.coordinates_per_second.shown(1e6),
            efficiency,
        ]
    }
}

impl Grown {
    fn row(&self) -> Vec<String> {
        vec![
            self.case.clone(),
            round(self.iterations),
            round(self.coordinates),
            self.seconds_per_row.shown(1e-3),
        ]
    }
}
