//! A setting as it came out, and what stands against it.

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::grid::{GRID, Setting};
use crate::comparison::Comparison;
use reproduce::measure::Spread;

/// Most that a composed ε may be off the peer's, relatively.
const APART: f64 = 1e-3;
/// The same where both sides have a formula.
const EXACT: f64 = 1e-8;

/// Ours on a finer grid.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Fine {
    pub accuracy: f64,
    pub figure: f64,
    pub seconds: f64,
}

/// What the peer found.
#[derive(Clone, Copy, Debug)]
pub struct Theirs {
    pub figure: f64,
    pub seconds: Spread,
}

#[derive(Clone, Debug)]
pub struct Row {
    pub setting: Setting,
    /// ε, or ρ of a tree.
    pub figure: f64,
    pub seconds: Spread,
    pub fine: Option<Fine>,
    pub beside: Comparison<Theirs>,
}

impl Row {
    /// How many times as long as ours the peer takes, by medians.
    pub fn ratio(&self) -> Option<f64> {
        match &self.beside {
            Comparison::Compared(Theirs { seconds, .. }) => Some(seconds.median / self.seconds.median),
            _ => None,
        }
    }

    /// Ours over the peer's, less one.
    pub fn apart(&self) -> Option<f64> {
        match &self.beside {
            Comparison::Compared(Theirs { figure, .. }) => Some(self.figure / figure - 1.0),
            _ => None,
        }
    }

    pub fn outcome(&self) -> String {
        match (&self.beside, self.faults().is_empty()) {
            (_, false) => "missed".into(),
            (Comparison::Compared(_), true) => "agrees".into(),
            (Comparison::Alone, true) => "alone".into(),
            (other, true) => format!("no peer: {}", other.why().unwrap_or_default()),
        }
    }

    /// What is wrong or too slow, in words. A peer that gives no answer is no fault of ours where it is known to need
    /// too long: trees.
    pub fn faults(&self) -> Vec<String> {
        let Setting { name, seconds, ratio, .. } = &self.setting;
        let mut faults = Vec::new();
        let median = self.seconds.median;
        if let Some(most) = seconds.filter(|most| median > *most) {
            faults.push(format!("{name}: {median:.4} s, limit {most} s"));
        }
        if let (Some(found), Some(least)) = (self.ratio(), *ratio)
            && found < least
        {
            faults.push(format!("{name}: {found:.1} times as fast as the peer, limit {least}"));
        }
        match &self.beside {
            Comparison::Compared(Theirs { figure, .. }) => faults.extend(self.disagreement(*figure)),
            Comparison::Failed(why) if !self.setting.is_tree() => {
                faults.push(format!("{name}: no peer: {why}"));
            }
            _ => {}
        }
        faults
    }

    fn disagreement(&self, theirs: f64) -> Option<String> {
        let what = self.setting.figure();
        let composed = self.setting.ratio.is_some();
        let (most, below) = if composed { (APART, GRID) } else { (EXACT, EXACT * theirs) };
        // Not the other way round: NaN must not pass.
        let close = (self.figure / theirs - 1.0).abs() <= most && self.figure >= theirs - below;
        (!close)
            .then(|| format!("{}: {what} is {:.9}, the peer's {theirs:.9}", self.setting.name, self.figure))
    }
}

/// A figure is under its own name: `epsilon` or `rho`.
impl Serialize for Row {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = if self.setting.is_tree() { "rho" } else { "epsilon" };
        let mut fields = Map::new();
        fields.insert("setting".into(), json!(self.setting.name));
        fields.insert("delta".into(), json!(self.setting.delta));
        fields.insert("ours".into(), json!({ name: self.figure, "seconds": self.seconds }));
        let fine = self
            .fine
            .map(|fine| json!({ name: fine.figure, "accuracy": fine.accuracy, "seconds": fine.seconds }));
        fields.insert("fine".into(), json!(fine));
        let peer = self.beside.compared().map(|it| json!({ name: it.figure, "seconds": it.seconds }));
        fields.insert("peer".into(), json!(peer));
        fields.insert("why".into(), json!(self.beside.why()));
        fields.insert("ratio".into(), json!(self.ratio()));
        fields.insert("apart".into(), json!(self.apart()));
        fields.insert("limit_seconds".into(), json!(self.setting.seconds));
        fields.insert("limit_ratio".into(), json!(self.setting.ratio));
        fields.insert("faults".into(), json!(self.faults()));
        Value::Object(fields).serialize(serializer)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn spread(median: f64) -> Spread {
        Spread { median, min: median, max: median, repeats: 3 }
    }

    pub fn row(name: &str, figure: f64, seconds: f64, theirs: f64) -> Row {
        let setting = super::super::grid::all().into_iter().find(|setting| setting.name == name).unwrap();
        let beside = Comparison::Compared(Theirs { figure: theirs, seconds: spread(1.0) });
        Row { setting, figure, seconds: spread(seconds), fine: None, beside }
    }

    #[test]
    fn an_epsilon_below_the_peers_or_far_above_is_a_fault() {
        assert!(row("poisson-2000", 2.9553, 0.001, 2.95526).faults().is_empty());
        for figure in [2.95526 - 2e-4, 2.95526 * 1.002, f64::NAN] {
            let faults = row("poisson-2000", figure, 0.001, 2.95526).faults();
            assert!(faults.len() == 1 && faults[0].contains("the peer's"), "{figure}: {faults:?}");
        }
        assert!(row("tree-small", 0.1, 0.001, 0.1 * (1.0 + 1e-7)).faults().len() == 1);
    }

    #[test]
    fn what_is_slow_or_missing_is_a_fault() {
        let slow = row("poisson-2000", 2.95526, 0.06, 2.95526).faults();
        assert!(
            slow.len() == 2 && slow[0].contains("limit 0.05 s") && slow[1].contains("limit 50"),
            "{slow:?}"
        );
        let without =
            |name| Row { beside: Comparison::Failed("no answer".into()), ..row(name, 0.35, 0.001, 0.35) };
        assert_eq!(without("poisson-64").faults().len(), 1);
        assert!(without("tree-nwp-es-ES").faults().is_empty());
        let json = serde_json::to_value(without("tree-nwp-es-ES")).unwrap();
        assert!(json["peer"].is_null() && json["why"] == "no answer" && json["ours"]["rho"] == 0.35);
    }
}
