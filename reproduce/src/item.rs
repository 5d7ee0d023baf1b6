//! What can be reproduced, and what one reproduction finds.

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use plot::Chart;
use serde::{Deserialize, Serialize, Serializer};

use crate::measure::Spread;
use crate::work::Work;

/// A figure or table of a paper. Its words are in `items.toml`.
#[derive(Clone, Copy)]
pub struct Item {
    pub name: &'static str,
    pub make: fn(&Work) -> anyhow::Result<Findings>,
}

/// What `items.toml` says of an item.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Words {
    pub source: Source,
    pub title: String,
    /// Timings differ from run to run; everything else does not.
    #[serde(default)]
    pub timed: bool,
    /// What the paper shows there, in our words.
    pub paper: String,
    /// The setting here, and what was chosen where the text is silent.
    pub setting: String,
    /// What the paper says of it, in the order of [`Findings::claims`].
    #[serde(default)]
    pub claims: Vec<String>,
    /// Where this differs and why, what is left out; `{}` stands for the next remark that is computed.
    #[serde(default)]
    pub remarks: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    Blt,
    Banded,
    NearExact,
    Gboard,
    UserLevel,
}

impl Source {
    pub const ALL: [Self; 5] = [Self::Blt, Self::Banded, Self::Gboard, Self::UserLevel, Self::NearExact];

    pub fn citation(self) -> &'static str {
        match self {
            Self::Blt => {
                "McMahan, Xu, Zhang (2024), *A Hassle-free Algorithm for Private Learning in Practice: Don't Use Tree \
                 Aggregation, Use BLTs*, arXiv:2408.08868"
            }
            Self::Banded => {
                "McKenna (2024), *Scaling up the Banded Matrix Factorization Mechanism for Differentially Private ML*, \
                 arXiv:2405.15913"
            }
            Self::NearExact => {
                "Choquette-Choo, Ganesh, Haque, Steinke, Thakurta (2024), *Near Exact Privacy Amplification for Matrix \
                 Mechanisms*, arXiv:2410.06266"
            }
            Self::Gboard => {
                "Xu, Zhang, et al. (2023), *Federated Learning of Gboard Language Models with Differential Privacy*, \
                 arXiv:2305.18465"
            }
            Self::UserLevel => {
                "Charles, Ganesh, et al. (2024), *Fine-Tuning Large Language Models with User-Level Differential \
                 Privacy*, arXiv:2407.07737"
            }
        }
    }
}

/// The words of all items, by name.
pub fn words() -> anyhow::Result<BTreeMap<String, Words>> {
    toml::from_str(include_str!("../items.toml")).context("items.toml")
}

/// What an item computes, and what its page says.
#[derive(Default, Serialize)]
pub struct Findings {
    pub setting: String,
    pub claims: Vec<Claim>,
    pub tables: Vec<Table>,
    /// Of an item: those that are computed.
    pub remarks: Vec<String>,
    #[serde(skip)]
    pub charts: Vec<Chart>,
}

impl Findings {
    /// Adds the words. Fails where the paper's claims are not as many as were checked.
    pub fn worded(mut self, words: &Words) -> anyhow::Result<Self> {
        let mut papers = words.claims.iter();
        for claim in self.claims.iter_mut().filter(|claim| claim.paper.is_empty()) {
            claim.paper = papers.next().context("a claim without words in items.toml")?.clone();
        }
        ensure!(papers.next().is_none(), "a claim in items.toml that is not checked");
        let mut computed = self.remarks.into_iter();
        let mut remarks = Vec::new();
        for remark in &words.remarks {
            remarks.extend(if remark == "{}" { computed.next() } else { Some(remark.clone()) });
        }
        remarks.extend(computed);
        Ok(Self { setting: words.setting.clone(), remarks, ..self })
    }
}

/// Something the paper says of this figure, compared with what is computed here.
#[derive(Clone, Serialize)]
pub struct Claim {
    /// Empty until the words are added, unless it is computed from published numbers.
    pub paper: String,
    pub here: String,
    pub holds: bool,
}

impl Claim {
    pub fn new(paper: impl Into<String>, here: impl Into<String>, holds: bool) -> Self {
        Self { paper: paper.into(), here: here.into(), holds }
    }
}

/// The claims of an item: `condition => "what was found", values…;`.
macro_rules! claims {
    ($($holds:expr => $here:literal $(, $value:expr)*);* $(;)?) => {
        vec![$($crate::item::Claim::new("", format!($here $(, $value)*), $holds)),*]
    };
}
pub(crate) use claims;

#[derive(Clone, Serialize)]
pub struct Table {
    pub title: String,
    pub header: Vec<String>,
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    pub fn new(
        title: impl Into<String>,
        header: impl IntoIterator<Item = impl Into<String>>,
        rows: impl IntoIterator<Item = Vec<Cell>>,
    ) -> Self {
        let header = header.into_iter().map(Into::into).collect();
        Self { title: title.into(), header, rows: rows.into_iter().collect() }
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

    pub fn whole(value: f64) -> Self {
        Self::number(value, 0)
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
        Self::whole(number as f64)
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

    #[test]
    fn every_item_has_words_and_no_words_are_left() {
        let words: Vec<String> = words().unwrap().into_keys().collect();
        let mut items: Vec<&str> = crate::ITEMS.iter().map(|item| item.name).collect();
        items.sort_unstable();
        assert_eq!(words, items);
    }
}
