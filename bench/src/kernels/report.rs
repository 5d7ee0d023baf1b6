//! What `bench kernels` found, as JSON, tables and charts.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use comfy_table::Table;
use plot::{Axis, Chart};
use serde::Serialize;

use super::grid::{RatePair, table_of};
use crate::cases::Case;
use crate::limits::Moment;
use crate::output::{self, round, table};
use reproduce::measure::Spread;

#[derive(Debug, Default, Serialize)]
pub struct Report {
    limits: Option<LimitsFound>,
    pub cases: Vec<Measured>,
    pub grid: Vec<RatePair>,
    pub skipped: Vec<Skipped>,
}

#[derive(Debug, Serialize)]
struct LimitsFound {
    /// Bytes copied a second, each counted once, all threads.
    copied_bytes_per_second: Spread,
    /// Bytes read and written a second by the same copies.
    traffic_bytes_per_second: Spread,
    /// Coordinates a second of `identity` in cache, all threads.
    identity_in_cache: Spread,
    /// Bytes a second on one core, by name.
    keystream_bytes_per_second_one_core: BTreeMap<&'static str, Spread>,
}

#[derive(Debug, Serialize)]
pub struct Measured {
    pub case: String,
    pub shard: u64,
    pub rows_at_once: usize,
    pub coordinates_per_second: Spread,
    pub bytes_per_coordinate: f64,
    /// Coordinates a second at best.
    pub roofline: Spread,
    pub of_roofline: Spread,
    /// Output, of the coordinates that are copied in the same time.
    pub of_copy: Spread,
}

#[derive(Debug, Serialize)]
pub struct Skipped {
    case: String,
    shard: u64,
    rows_at_once: usize,
    why: String,
}

impl Skipped {
    pub fn new(case: &Case, shard: u64, rows_at_once: usize, why: String) -> Self {
        Self { case: case.name.clone(), shard, rows_at_once, why }
    }
}

impl Report {
    /// Sums up what was measured beside the cases. Error: nothing was.
    pub fn limits(
        &mut self,
        moments: &[Moment],
        keystreams: Vec<(&'static str, Vec<f64>)>,
    ) -> anyhow::Result<()> {
        let spread = |values: Vec<f64>| Spread::of(&values).context("nothing fits: see what was skipped");
        let all = |pick: fn(&Moment) -> f64| spread(moments.iter().map(pick).collect());
        let keystreams = keystreams.into_iter().map(|(name, rates)| Ok((name, spread(rates)?)));
        if moments.is_empty() {
            self.skipped.iter().for_each(|skipped| eprintln!("{}", skipped.line()));
        }
        self.limits = Some(LimitsFound {
            copied_bytes_per_second: all(|moment| moment.copied)?,
            traffic_bytes_per_second: all(Moment::traffic)?,
            identity_in_cache: all(|moment| moment.identity)?,
            keystream_bytes_per_second_one_core: keystreams.collect::<anyhow::Result<_>>()?,
        });
        Ok(())
    }

    pub fn tables(&self) -> Vec<(String, Table)> {
        let mut tables = Vec::new();
        tables.extend(self.limits.as_ref().map(LimitsFound::table));
        let rows = self.cases.iter().map(Measured::row);
        let header =
            ["mechanism", "shard", "rows", "M coordinates/s", "bytes", "at best", "of roofline", "of copy"];
        tables.push(("Rows; \"at best\" is the roofline in M coordinates/s".into(), table(&header, rows)));
        tables.extend(table_of(&self.grid));
        if !self.skipped.is_empty() {
            let rows = self.skipped.iter().map(|skipped| vec![skipped.line()]);
            tables.push(("Not measured".into(), table(&["case"], rows)));
        }
        tables
    }

    pub fn charts(&self) -> Vec<Chart> {
        let counts: BTreeSet<usize> = self.cases.iter().map(|case| case.rows_at_once).collect();
        let panels = counts.into_iter().flat_map(|rows| {
            let title = |which: &str| format!("{which}, rows at once: {rows}");
            let blt = self.rates(title("BLT"), rows, |name| name == "identity" || name.starts_with("blt-"));
            let other = self.rates(title("Other mechanisms"), rows, |name| !name.starts_with("blt-"));
            [blt, other]
        });
        panels.flatten().chain(self.shares()).collect()
    }

    /// Rates against shard sizes, of the cases that are `shown`; `None` where there are none.
    fn rates(&self, title: String, rows: usize, shown: impl Fn(&str) -> bool) -> Option<Chart> {
        let cases = self.cases.iter().filter(|case| case.rows_at_once == rows && shown(&case.case));
        let points = cases
            .map(|case| (case.case.as_str(), (case.shard as f64, case.coordinates_per_second.drawn(1.0))));
        let series = output::by_name(points);
        let x = Axis::log("coordinates of the shard");
        (!series.is_empty()).then(|| Chart::lines(title, x, Axis::log("coordinates/s"), series))
    }

    /// Shares of the roofline at the largest shard.
    fn shares(&self) -> Option<Chart> {
        let largest = self.cases.iter().map(|case| case.shard).max()?;
        let there = || self.cases.iter().filter(move |case| case.shard == largest);
        let mut categories: Vec<String> = Vec::new();
        there().for_each(|case| {
            if !categories.contains(&case.case) {
                categories.push(case.case.clone());
            }
        });
        let counts: BTreeSet<usize> = there().map(|case| case.rows_at_once).collect();
        let groups = counts.into_iter().map(|rows| {
            let find = |name: &String| there().find(|case| case.rows_at_once == rows && &case.case == name);
            let bars = categories.iter().map(|name| find(name).map(|case| case.of_roofline.drawn(0.01)));
            (format!("rows at once: {rows}"), bars.collect())
        });
        let groups: Vec<_> = groups.collect();
        let title = format!("Share of the roofline, {} coordinates", round(largest));
        Some(Chart::bars(title, Axis::linear("%"), categories, groups, Some(100.0)))
    }
}

impl LimitsFound {
    fn table(&self) -> (String, Table) {
        let mut rows = vec![
            vec!["copied, GB/s, all threads".into(), self.copied_bytes_per_second.shown(1e9)],
            vec![
                "traffic of copying, GB/s (read + written)".into(),
                self.traffic_bytes_per_second.shown(1e9),
            ],
            vec!["identity in cache, M coordinates/s, all threads".into(), self.identity_in_cache.shown(1e6)],
        ];
        for (name, rate) in &self.keystream_bytes_per_second_one_core {
            rows.push(vec![format!("keystream of {name}, GB/s, one core"), rate.shown(1e9)]);
        }
        ("Limits, medians and spread over the whole run".into(), table(&["", ""], rows.into_iter()))
    }
}

impl Measured {
    fn row(&self) -> Vec<String> {
        let percent = |share: &Spread| format!("{:.0} %", 100.0 * share.median);
        vec![
            self.case.clone(),
            round(self.shard),
            self.rows_at_once.to_string(),
            self.coordinates_per_second.shown(1e6),
            format!("{:.1}", self.bytes_per_coordinate),
            format!("{:.0}", self.roofline.median / 1e6),
            percent(&self.of_roofline),
            percent(&self.of_copy),
        ]
    }
}

impl Skipped {
    fn line(&self) -> String {
        format!(
            "{} of {} coordinates, rows at once {}: {}",
            self.case,
            round(self.shard),
            self.rows_at_once,
            self.why
        )
    }
}
