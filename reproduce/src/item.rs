//! What can be reproduced, and what one reproduction finds.

use plot::Chart;
use serde::{Serialize, Serializer};

use super::work::Work;
use crate::stats::Spread;

/// A figure or table of a paper.
#[derive(Clone, Copy)]
pub struct Item {
    pub name: &'static str,
    pub source: Source,
    pub title: &'static str,
    /// What the paper shows there, in our words.
    pub shows: &'static str,
    /// Timings differ from run to run; everything else does not.
    pub timed: bool,
    pub make: fn(&Work) -> anyhow::Result<Found>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Blt,
    Banded,
    NearExact,
    Gboard,
    UserLevel,
}

impl Source {
    pub const ALL: [Self; 5] = [Self::Blt, Self::Banded, Self::Gboard, Self::UserLevel, Self::NearExact];

    pub fn cited(self) -> &'static str {
        match self {
            Self::Blt => {
                "papers/000: McMahan, Xu, Zhang, *A Hassle-free Algorithm for Private Learning in Practice: Don't \
                 Use Tree Aggregation, Use BLTs*"
            }
            Self::Banded => {
                "papers/001: McKenna, *Scaling up the Banded Matrix Factorization Mechanism for Differentially \
                 Private ML*"
            }
            Self::NearExact => {
                "papers/003: Choquette-Choo, Ganesh, Haque, Steinke, Thakurta, *Near Exact Privacy Amplification for \
                 Matrix Mechanisms*"
            }
            Self::Gboard => {
                "papers/002: Xu, Zhang, et al., *Federated Learning of Gboard Language Models with Differential \
                 Privacy*"
            }
            Self::UserLevel => {
                "papers/004: Charles, Ganesh, et al., *Fine-Tuning Large Language Models with User-Level \
                 Differential Privacy*"
            }
        }
    }
}

#[derive(Default, Serialize)]
pub struct Found {
    /// The setting here, and what was chosen where the text is silent.
    pub setting: String,
    pub claims: Vec<Claim>,
    pub tables: Vec<Table>,
    /// Where we differ and why, what is left out.
    pub remarks: Vec<String>,
    #[serde(skip)]
    pub charts: Vec<Chart>,
}

/// Something the paper says of this figure, held against what we get.
#[derive(Clone, Serialize)]
pub struct Claim {
    pub paper: String,
    pub here: String,
    pub holds: bool,
}

impl Claim {
    pub fn new(paper: impl Into<String>, here: impl Into<String>, holds: bool) -> Self {
        Self { paper: paper.into(), here: here.into(), holds }
    }
}

#[derive(Clone, Serialize)]
pub struct Table {
    pub title: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn new(title: impl Into<String>, header: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self { title: title.into(), header: header.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }
}

/// Shown rounded, recorded whole.
#[derive(Clone, Debug)]
pub enum Cell {
    Text(String),
    Number {
        value: f64,
        digits: usize,
    },
    /// Seconds.
    Time(Spread),
    /// One measurement, in seconds.
    Once(f64),
    Absent,
}

impl Cell {
    pub fn number(value: f64, digits: usize) -> Self {
        Self::Number { value, digits }
    }

    pub fn maybe(value: Option<f64>, digits: usize) -> Self {
        value.map_or(Self::Absent, |value| Self::number(value, digits))
    }

    pub fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number { value, digits } => format!("{value:.digits$}"),
            Self::Time(spread) if spread.repeats == 1 => Self::Once(spread.median).shown(),
            Self::Time(spread) => {
                let (unit, name) = unit_of(spread.median);
                format!("{} {name}", spread.shown(unit))
            }
            Self::Once(seconds) => {
                let (unit, name) = unit_of(*seconds);
                format!("{:.2} {name}", seconds / unit)
            }
            Self::Absent => "–".into(),
        }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Self::number(number as f64, 0)
    }
}

impl Serialize for Cell {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => serializer.serialize_str(text),
            Self::Number { value, .. } | Self::Once(value) => serializer.serialize_f64(*value),
            Self::Time(spread) => spread.serialize(serializer),
            Self::Absent => serializer.serialize_none(),
        }
    }
}

fn unit_of(seconds: f64) -> (f64, &'static str) {
    match seconds {
        _ if seconds >= 1.0 => (1.0, "s"),
        _ if seconds >= 1e-3 => (1e-3, "ms"),
        _ => (1e-6, "µs"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_rounded_for_people_alone() {
        let cell = Cell::number(2.0 / 3.0, 2);
        assert_eq!(cell.shown(), "0.67");
        assert_eq!(serde_json::to_value(&cell).unwrap(), 2.0 / 3.0);
        let shown =
            [Cell::Once(2.5), Cell::Once(2.5e-3), Cell::Once(2.5e-6), Cell::Absent].map(|c| c.shown());
        assert_eq!(shown, ["2.50 s", "2.50 ms", "2.50 µs", "–"]);
    }
}
