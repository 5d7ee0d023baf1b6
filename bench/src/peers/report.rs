//! What `bench peers` found, as JSON, tables and charts.

use std::collections::BTreeMap;

use comfy_table::Table;
use plot::{Axis, Chart};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Library;
use crate::cases::Case;
use crate::output::{round, table};
use reproduce::measure::Spread;

/// Rates in coordinates a second.
#[derive(Debug)]
pub struct Compared {
    pub case: String,
    pub library: Library,
    pub dimension: u64,
    pub rows_ahead: usize,
    /// The way the library does it fastest, and the rates of all its ways.
    pub way: String,
    pub ways: BTreeMap<String, f64>,
    /// One row at a time, and as many at once as the engine makes when it runs ahead.
    pub ours: Spread,
    pub ours_ahead: Spread,
    pub peer: Spread,
    pub ratio: Spread,
    pub ratio_ahead: Spread,
}

#[derive(Debug, Serialize)]
pub struct Failed {
    library: Library,
    /// `None` where the library could not be installed.
    case: Option<String>,
    why: String,
}

impl Failed {
    pub fn new(library: Library, case: Option<&Case>, error: &anyhow::Error) -> Self {
        Self { library, case: case.map(|case| case.name.clone()), why: format!("{error:#}") }
    }

    fn line(&self) -> String {
        let case = self.case.as_ref().map_or(String::new(), |case| format!(", {case}"));
        format!("{}{case}: {}", self.library.name(), self.why)
    }
}

/// `cases`: beside jax-privacy; `others`: beside what correlates nothing.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    cases: Vec<Compared>,
    others: Vec<Compared>,
    failed: Vec<Failed>,
}

impl Report {
    pub fn add(&mut self, compared: Compared) {
        match compared.library {
            Library::JaxPrivacy => self.cases.push(compared),
            Library::Numpy | Library::Torch => self.others.push(compared),
        }
    }

    pub fn failed(&mut self, failed: Failed) {
        eprintln!("bench: {}", failed.line());
        self.failed.push(failed);
    }

    pub fn is_empty(&self) -> bool {
        self.all().next().is_none()
    }

    pub fn failures(&self) -> String {
        self.failed.iter().map(Failed::line).collect::<Vec<_>>().join("\n")
    }

    pub fn tables(&self) -> Vec<(String, Table)> {
        let header =
            ["case", "d", "rows ahead", "ours", "ours, ahead", "peer", "ratio", "ratio, ahead", "peer's way"];
        let title = "M coordinates/s; ratios of ours to the peer, taken pair by pair".into();
        let mut tables = vec![(title, table(&header, self.all().map(Compared::row)))];
        if !self.failed.is_empty() {
            let rows = self.failed.iter().map(|failed| vec![failed.line()]);
            tables.push(("Not compared".into(), table(&["library, case"], rows)));
        }
        tables
    }

    pub fn charts(&self) -> Vec<Chart> {
        let name = |compared: &Compared| match compared.library {
            Library::JaxPrivacy => compared.case.clone(),
            library => format!("{} ({})", compared.case, library.name()),
        };
        let categories: Vec<String> = self.all().map(name).collect();
        let bars = |pick: fn(&Compared) -> &Spread, unit: f64| {
            self.all().map(|compared| Some(pick(compared).drawn(unit))).collect()
        };
        let ratios = [
            ("one row at a time", bars(|compared| &compared.ratio, 1.0)),
            ("running ahead", bars(|compared| &compared.ratio_ahead, 1.0)),
        ];
        let rates = [
            ("ours, one row", bars(|compared| &compared.ours, 1e6)),
            ("ours, running ahead", bars(|compared| &compared.ours_ahead, 1e6)),
            ("peer", bars(|compared| &compared.peer, 1e6)),
        ];
        let times = Axis::log("times");
        vec![
            Chart::bars("Rate of ours to the peer's", times, categories.clone(), ratios, Some(1.0)),
            Chart::bars("Rates", Axis::log("M coordinates/s"), categories, rates, None),
        ]
    }

    fn all(&self) -> impl Iterator<Item = &Compared> {
        self.cases.iter().chain(&self.others)
    }
}

impl Compared {
    fn row(&self) -> Vec<String> {
        let Self { case, dimension, rows_ahead, ours, ours_ahead, peer, ratio, ratio_ahead, .. } = self;
        let mut row = vec![case.clone(), round(*dimension)];
        row.extend([ours, ours_ahead, peer].map(|rate| format!("{:.1}", rate.median / 1e6)));
        row.extend([ratio, ratio_ahead].map(|ratio| ratio.shown(1.0)));
        row.insert(2, rows_ahead.to_string());
        row.push(format!("{}: {}", self.library.name(), self.way));
        row
    }
}

/// Each figure is a number under its own name, with its spread beside it as `…_min` and `…_max`.
impl Serialize for Compared {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = Map::new();
        fields.insert("case".into(), json!(self.case));
        fields.insert("library".into(), json!(self.library.name()));
        fields.insert("dimension".into(), self.dimension.into());
        fields.insert("rows_ahead".into(), self.rows_ahead.into());
        fields.insert("way".into(), json!(self.way));
        fields.insert("ways".into(), json!(self.ways));
        fields.insert("repeats".into(), self.ratio.repeats.into());
        let figures = [
            ("ours", &self.ours),
            ("ours_ahead", &self.ours_ahead),
            ("peer", &self.peer),
            ("ratio", &self.ratio),
            ("ratio_ahead", &self.ratio_ahead),
        ];
        for (name, figure) in figures {
            fields.insert(name.into(), figure.median.into());
            fields.insert(format!("{name}_min"), figure.min.into());
            fields.insert(format!("{name}_max"), figure.max.into());
        }
        Value::Object(fields).serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compared(case: &str, library: Library) -> Compared {
        let spread = |median: f64| Spread { median, min: median / 2.0, max: median * 2.0, repeats: 3 };
        Compared {
            case: case.into(),
            library,
            dimension: 1000,
            rows_ahead: 8,
            way: "a way".into(),
            ways: BTreeMap::from([("a way".into(), 1e6)]),
            ours: spread(3e6),
            ours_ahead: spread(4e6),
            peer: spread(1e6),
            ratio: spread(3.0),
            ratio_ahead: spread(4.0),
        }
    }

    #[test]
    fn json_has_the_fields_that_readers_ask_for() {
        let mut report = Report::default();
        assert!(report.is_empty());
        report.add(compared("blt-4", Library::JaxPrivacy));
        report.add(compared("identity", Library::Numpy));
        report.failed(Failed::new(Library::Torch, None, &anyhow::anyhow!("no wheel")));
        let json = serde_json::to_value(&report).unwrap();
        let case = &json["cases"][0];
        assert_eq!((case["case"].as_str(), case["ours"].as_f64()), (Some("blt-4"), Some(3e6)));
        assert_eq!((case["peer"].as_f64(), case["ratio"].as_f64()), (Some(1e6), Some(3.0)));
        assert_eq!((case["ratio_ahead"].as_f64(), case["ratio_min"].as_f64()), (Some(4.0), Some(1.5)));
        assert_eq!(json["cases"].as_array().unwrap().len(), 1, "numpy is another matter");
        assert_eq!(json["others"][0]["library"], "numpy");
        assert!(report.failures().contains("torch: no wheel"));
        assert!(plot::svg(&report.charts()).is_ok());
    }
}
