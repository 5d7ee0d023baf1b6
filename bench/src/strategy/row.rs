//! A setting's results, and what follows from all of them.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::compare::Theirs;
use super::rustle::{Losses, Ours};
use super::setting::Setting;
use crate::comparison::Comparison;
use reproduce::measure::Spread;

/// A loss this much above the peer's, relatively, is no worse: both searches end before the last digit.
pub const SLACK: f64 = 1e-6;

/// The speed that is promised, as a median over settings.
pub const SPEED: f64 = 100.0;

pub struct Row {
    pub setting: Setting,
    /// Or why there is none.
    pub ours: Result<Timed, String>,
    pub beside: Comparison<Theirs>,
}

/// Ours without the strategy itself.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Timed {
    pub seconds: Spread,
    #[serde(flatten)]
    pub losses: Losses,
    pub steps: usize,
    pub stopped: bool,
}

/// Ours beside the peer's: the loss as a factor of the peer's, speeds as times as fast.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Ratios {
    pub loss: f64,
    /// The peer's first call, which compiles.
    pub first: f64,
    /// Its second call in the same process, where there was one.
    pub second: Option<f64>,
    /// Its first call without what JAX says was compiling.
    pub running: f64,
}

impl Timed {
    pub fn of(ours: &Ours) -> anyhow::Result<Self> {
        let Ours { losses, steps, stopped, .. } = *ours;
        Ok(Self { seconds: ours.seconds()?, losses, steps, stopped })
    }
}

impl Row {
    /// `None` where nothing was compared.
    pub fn ratios(&self) -> Option<Ratios> {
        let (Ok(ours), Comparison::Compared(theirs)) = (&self.ours, &self.beside) else { return None };
        let seconds = ours.seconds.median;
        let loss = self.setting.loss;
        Some(Ratios {
            loss: ours.losses.named(loss) / theirs.losses.named(loss),
            first: theirs.first.seconds / seconds,
            second: theirs.second.map(|second| second.seconds / seconds),
            running: (theirs.first.seconds - theirs.first.compiling) / seconds,
        })
    }

    /// One word on how it came out.
    pub fn outcome(&self) -> &'static str {
        match &self.beside {
            _ if self.ours.is_err() => "refused",
            Comparison::Compared(_) if self.is_worse() => "worse",
            Comparison::Compared(_) => "no worse",
            Comparison::Absent(_) => "absent",
            Comparison::Failed(_) => "failed",
            Comparison::Disagreed(_) => "disagreed",
            Comparison::Alone => "alone",
        }
    }

    pub fn why(&self) -> Option<&str> {
        self.ours.as_ref().err().map(String::as_str).or_else(|| self.beside.why())
    }

    fn is_worse(&self) -> bool {
        // Not the other way round: NaN is worse.
        self.ratios().is_some_and(|ratios| !matches!(ratios.loss, loss if loss <= 1.0 + SLACK))
    }
}

impl Serialize for Row {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = described(&self.setting);
        fields.insert("outcome".into(), json!(self.outcome()));
        fields.insert("why".into(), json!(self.why()));
        fields.insert("ours".into(), json!(self.ours.as_ref().ok()));
        let theirs = match &self.beside {
            Comparison::Compared(theirs) => json!({
                "rms": theirs.losses.rms,
                "max": theirs.losses.max,
                "sensitivity": theirs.losses.sensitivity,
                "first_seconds": theirs.first.seconds,
                "first_compiling_seconds": theirs.first.compiling,
                "second_seconds": theirs.second.map(|call| call.seconds),
                "second_compiling_seconds": theirs.second.map(|call| call.compiling),
            }),
            _ => Value::Null,
        };
        fields.insert("peer".into(), theirs);
        fields.insert("ratios".into(), json!(self.ratios()));
        Value::Object(fields).serialize(serializer)
    }
}

/// The fields that say which setting it is.
pub fn described(setting: &Setting) -> Map<String, Value> {
    let Setting { kind, n, b, k, loss } = setting;
    [
        ("setting", json!(setting.to_string())),
        ("mechanism", json!(kind.to_string())),
        ("n", json!(n)),
        ("b", json!(b)),
        ("k", json!(k)),
        ("loss", json!(loss.name())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .collect()
}

/// What the rows say together. Settings that were not compared count for nothing.
#[derive(Debug, Serialize)]
pub struct Verdict {
    pub compared: usize,
    pub slack: f64,
    /// Settings in which our loss is above the peer's by more than the slack.
    pub worse: Vec<String>,
    /// Settings in which our optimiser has no answer.
    pub refused: Vec<String>,
    /// Settings that two evaluations disagree on.
    pub disagreed: Vec<String>,
    /// Times as fast as the peer, over the settings compared.
    pub first: Option<Spread>,
    pub second: Option<Spread>,
    pub running: Option<Spread>,
}

impl Verdict {
    pub fn of(rows: &[Row]) -> Self {
        let named = |outcome| {
            let with = rows.iter().filter(|row| row.outcome() == outcome);
            with.map(|row| row.setting.to_string()).collect::<Vec<_>>()
        };
        let ratios: Vec<Ratios> = rows.iter().filter_map(Row::ratios).collect();
        let spread = |pick: fn(&Ratios) -> Option<f64>| {
            Spread::of(&ratios.iter().filter_map(pick).collect::<Vec<_>>())
        };
        Self {
            compared: ratios.len(),
            slack: SLACK,
            worse: named("worse"),
            refused: named("refused"),
            disagreed: named("disagreed"),
            first: spread(|ratios| Some(ratios.first)),
            second: spread(|ratios| ratios.second),
            running: spread(|ratios| Some(ratios.running)),
        }
    }

    /// What stands against it; nothing where all of it holds.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for (what, settings) in [
            ("a worse loss than the peer's", &self.worse),
            ("no strategy of ours", &self.refused),
            ("evaluations disagree", &self.disagreed),
        ] {
            if !settings.is_empty() {
                faults.push(format!("{what}: {}", settings.join(" ")));
            }
        }
        match self.first {
            None => faults.push("nothing was compared".into()),
            Some(first) if first.median < SPEED => {
                faults.push(format!("{:.1} times the peer's speed, not {SPEED}", first.median));
            }
            Some(_) => {}
        }
        faults
    }
}

#[cfg(test)]
pub mod tests {
    use super::super::peer::Call;
    use super::*;

    pub fn row(setting: &str, beside: Comparison<Theirs>) -> Row {
        let losses = Losses { rms: 2.0, max: 3.0, sensitivity: 1.0 };
        let seconds = Spread::of(&[0.01]).unwrap();
        let ours = Ok(Timed { seconds, losses, steps: 7, stopped: false });
        Row { setting: setting.parse().unwrap(), ours, beside }
    }

    /// A peer that takes `seconds`, half of them compiling, for this loss of either kind.
    pub fn compared(seconds: f64, loss: f64) -> Comparison<Theirs> {
        let first = Call { seconds, compiling: seconds / 2.0 };
        let losses = Losses { rms: loss, max: loss, sensitivity: 1.0 };
        Comparison::Compared(Theirs { first, second: None, losses })
    }

    #[test]
    fn the_loss_of_the_setting_is_compared_within_the_slack() {
        let outcome = |setting, loss| row(setting, compared(1.0, loss)).outcome();
        assert_eq!(outcome("band-mf-4,n=20,rms", 2.0), "no worse");
        assert_eq!(outcome("band-mf-4,n=20,rms", 2.0 * (1.0 - 5e-7)), "no worse");
        assert_eq!(outcome("band-mf-4,n=20,rms", 2.0 * (1.0 - 2e-6)), "worse");
        assert_eq!(outcome("blt-4,n=20,max", 2.5), "worse");
        assert_eq!(outcome("blt-4,n=20,max", f64::NAN), "worse");
    }

    #[test]
    fn what_was_not_compared_wins_nothing() {
        let name = "blt-2,n=20,max";
        let mut rows = vec![
            row(name, compared(3.0, 3.0)),
            row(name, Comparison::Failed("no answer in 300 s".into())),
            row(name, Comparison::Absent("none".into())),
        ];
        let verdict = Verdict::of(&rows);
        let first = verdict.first.unwrap();
        let running = verdict.running.unwrap();
        assert_eq!((verdict.compared, first.repeats, verdict.second), (1, 1, None));
        assert!((first.median - 300.0).abs() < 1e-9 && (running.median - 150.0).abs() < 1e-9);
        assert!(verdict.faults().is_empty(), "{:?}", verdict.faults());

        rows.push(row(name, Comparison::Disagreed("apart".into())));
        assert!(Verdict::of(&rows).faults()[0].contains("disagree"));
        rows.push(Row { ours: Err("more than it takes".into()), ..row(name, Comparison::Alone) });
        assert!(Verdict::of(&rows).faults()[0].contains("no strategy of ours"));
        rows.push(row(name, compared(3.0, 1.0)));
        assert!(Verdict::of(&rows).faults()[0].contains("worse loss than the peer's: blt-2"));
        assert!(Verdict::of(&rows[1..3]).faults()[0].contains("nothing was compared"));
        assert!(Verdict::of(&[row(name, compared(0.9, 3.0))]).faults()[0].contains("90.0 times"));
    }
}
