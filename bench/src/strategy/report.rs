//! What `bench strategy` found, as JSON, tables and charts.

use comfy_table::Table;
use plot::{Axis, Chart, Value};
use serde::Serialize;

use super::figure::Figure;
use super::row::{Ratios, Row, SLACK, SPEED, Verdict};
use super::setting::{Kind, Loss, Setting};
use super::suggestion::{Found, Suggested};
use crate::comparison::short_time;
use crate::output::{round, table};
use reproduce::measure::Spread;

/// `named` and `suggestions`: without a peer; `settings`: beside it, with what they say together.
#[derive(Serialize)]
pub struct Report {
    pub named: Vec<Figure>,
    pub suggestions: Vec<Suggested>,
    pub settings: Vec<Row>,
    /// `None` where no peer was asked.
    pub verdict: Option<Verdict>,
}

impl Report {
    /// What stands against it; nothing where every limit is kept.
    pub fn faults(&self) -> Vec<String> {
        let missed = self.named.iter().flat_map(Figure::missed);
        let missed = missed.chain(self.suggestions.iter().filter_map(Suggested::missed));
        missed.chain(self.verdict.iter().flat_map(Verdict::faults)).collect()
    }

    pub fn tables(&self) -> Vec<(String, Table)> {
        let mut tables = Vec::new();
        if !self.settings.is_empty() {
            tables.push((SETTINGS.into(), self.settings_table()));
        }
        let reasons = self.settings.iter().filter_map(|row| Some((row, row.why()?)));
        let reasons: Vec<_> =
            reasons.map(|(row, why)| vec![format!("{}, {}: {why}", row.setting, row.outcome())]).collect();
        if !reasons.is_empty() {
            tables.push(("Not compared".into(), table(&["setting"], reasons.into_iter())));
        }
        if !self.named.is_empty() {
            tables.push(("Figures with limits, no peer".into(), self.named_table()));
        }
        if !self.suggestions.is_empty() {
            tables.push(("Every mechanism weighed by the planner".into(), self.suggestions_table()));
        }
        if let Some(verdict) = &self.verdict {
            tables.push((sentence(verdict), verdict_table(verdict)));
        }
        tables
    }

    fn settings_table(&self) -> Table {
        let header = ["setting", "ours", "peer's", "ours, s", "first, s", "compiling, s", "second, s"];
        let header = [&header[..], &["× first", "× second", "× running", "outcome"]].concat();
        table(&header, self.settings.iter().map(cells))
    }

    fn named_table(&self) -> Table {
        let rows = self.named.iter().map(|figure| {
            let number = |value: Option<f64>| value.map_or_else(String::new, |most| most.to_string());
            vec![
                figure.named.setting.to_string(),
                figure.loss().map_or_else(String::new, |loss| format!("{loss:.6}")),
                number(figure.named.loss),
                figure.seconds().map_or_else(String::new, seconds),
                number(figure.named.seconds),
                if figure.missed().is_empty() { "kept" } else { "missed" }.into(),
            ]
        });
        table(&["setting", "loss", "limit", "s", "limit, s", "outcome"], rows)
    }

    fn suggestions_table(&self) -> Table {
        let rows = self.suggestions.iter().map(|suggested| {
            let found = suggested.found.as_ref().ok();
            let cell = |shown: fn(&Found) -> String| found.map_or_else(String::new, shown);
            vec![
                Suggested::name(&suggested.run),
                cell(|found| found.mechanisms.to_string()),
                cell(|found| found.recommended.clone()),
                cell(|found| format!("{:.6}", found.loss)),
                cell(|found| format!("{:.6}", found.least_loss)),
                cell(|found| seconds(found.seconds)),
                suggested.run.limit_seconds.to_string(),
                if suggested.missed().is_none() { "kept" } else { "missed" }.into(),
            ]
        });
        let header = ["run", "mechanisms", "recommended", "loss", "least loss", "s", "limit, s", "outcome"];
        table(&header, rows)
    }

    pub fn charts(&self) -> Vec<Chart> {
        let drawn = ["BLT", "band-Toeplitz", "bands and dense"].into_iter().flat_map(|title| {
            let compared = self.settings.iter().filter(|row| drawn_with(row.setting.kind) == title);
            charts(title, &compared.filter_map(|row| Some((row, row.ratios()?))).collect::<Vec<_>>())
        });
        drawn.collect()
    }
}

const SETTINGS: &str = "Ours beside jax-privacy: losses (error × sensitivity, prefix sums), the peer's relative to \
                        ours, and times. × is how many times as fast ours is as the peer's first call, its \
                        second, and its first without compiling";

fn cells(row: &Row) -> Vec<String> {
    let ratios = row.ratios();
    let theirs = row.beside.compared();
    let first = theirs.map(|theirs| theirs.first);
    let second = theirs.and_then(|theirs| theirs.second);
    let ours = row.ours.as_ref().ok();
    let time = |value: Option<f64>| value.map_or_else(String::new, seconds);
    let times = |value: Option<f64>| value.map_or_else(String::new, |times| format!("{times:.1}"));
    vec![
        row.setting.to_string(),
        ours.map_or_else(String::new, |ours| format!("{:.6}", ours.losses.named(row.setting.loss))),
        ratios.map_or_else(String::new, |ratios| format!("{:+.1e}", 1.0 / ratios.loss - 1.0)),
        time(ours.map(|ours| ours.seconds.median)),
        time(first.map(|call| call.seconds)),
        time(first.map(|call| call.compiling)),
        time(second.map(|call| call.seconds)),
        times(ratios.map(|ratios| ratios.first)),
        times(ratios.and_then(|ratios| ratios.second)),
        times(ratios.map(|ratios| ratios.running)),
        row.outcome().into(),
    ]
}

/// The chart that a mechanism is in.
fn drawn_with(kind: Kind) -> &'static str {
    match kind {
        Kind::Blt(_) => "BLT",
        Kind::BandToeplitz(_) | Kind::BandInverse(_) => "band-Toeplitz",
        Kind::BandMf(_) | Kind::DenseBands(_) | Kind::Dense => "bands and dense",
    }
}

/// Three digits that count, however short.
fn seconds(seconds: f64) -> String {
    short_time(seconds, [2, 5])
}

fn sentence(verdict: &Verdict) -> String {
    let Verdict { compared, slack, worse, disagreed, refused, .. } = verdict;
    let no_worse = compared - worse.len();
    let mut said =
        format!("Verdict: {no_worse} of {compared} losses ≤ the peer's (relative slack {slack:e})");
    for (what, settings) in [("worse", worse), ("evaluations disagree", disagreed), ("none of ours", refused)]
    {
        if !settings.is_empty() {
            said.push_str(&format!("; {what}: {}", settings.join(" ")));
        }
    }
    said
}

fn verdict_table(verdict: &Verdict) -> Table {
    let rows = [
        ("its first call", &verdict.first),
        ("its second call", &verdict.second),
        ("its first call without compiling", &verdict.running),
    ];
    let row = |(what, spread): (&str, &Option<Spread>)| {
        let (shown, settings) =
            spread.as_ref().map_or_else(Default::default, |s| (s.shown(1.0), s.repeats.to_string()));
        vec![what.to_owned(), shown, settings]
    };
    table(&["the peer's", "times as fast, median (least to greatest)", "settings"], rows.into_iter().map(row))
}

fn charts(title: &str, compared: &[(&Row, Ratios)]) -> Vec<Chart> {
    if compared.is_empty() {
        return Vec::new();
    }
    let categories: Vec<String> = compared.iter().map(|(row, _)| short(&row.setting)).collect();
    // A log axis has no place for what took no time beside compiling.
    let bars = |pick: fn(&Ratios) -> Option<f64>| {
        compared
            .iter()
            .map(|(_, ratios)| pick(ratios).filter(|times| *times > 0.0).map(Value::from))
            .collect()
    };
    let speeds = [
        ("its first call", bars(|ratios| Some(ratios.first))),
        ("its second call", bars(|ratios| ratios.second)),
        ("without compiling", bars(|ratios| Some(ratios.running))),
    ];
    let speed = format!("Optimising {title}: times as fast as jax-privacy");
    let speed = Chart::bars(speed, Axis::log("times"), categories.clone(), speeds, Some(SPEED));
    // What is within the slack is no difference, and would fill the chart where nothing else is.
    let above =
        compared.iter().map(|(_, ratios)| 100.0 * SLACK * ((1.0 / ratios.loss - 1.0) / SLACK).round());
    let above = above.map(|percent| percent.is_finite().then(|| percent.into()));
    let loss = format!("Optimising {title}: jax-privacy's loss above ours");
    let loss = Chart::bars(loss, Axis::linear("%"), categories, [("loss", above.collect())], Some(0.0));
    vec![speed, loss]
}

/// For under a bar, of which there are up to thirty: what the title and the custom for the mechanism leave open.
fn short(setting: &Setting) -> String {
    let Setting { kind, n, k, loss, .. } = *setting;
    let (size, usual) = match kind {
        Kind::Blt(buffers) => (format!("d{buffers} "), Loss::Max),
        Kind::BandToeplitz(bands) | Kind::BandMf(bands) => (format!("p{bands} "), Loss::Rms),
        Kind::DenseBands(bands) => (format!("dense p{bands} "), Loss::Rms),
        Kind::BandInverse(bands) => (format!("inverse p{bands} "), Loss::Rms),
        Kind::Dense => ("dense ".to_owned(), Loss::Rms),
    };
    let participations = if k > 1 { format!(" k{k}") } else { String::new() };
    let loss = if loss == usual { String::new() } else { format!(" {}", loss.name()) };
    format!("{size}n{}{participations}{loss}", round(n))
}

#[cfg(test)]
mod tests {
    use super::super::row::tests::{compared, row};
    use super::*;

    fn report() -> Report {
        let settings = vec![
            row("blt-2,n=20,max", compared(3.0, 3.0)),
            row("band-mf-2,n=20,rms", compared(2.0, 1.0)),
            row("dense,n=20,rms", crate::comparison::Comparison::Failed("no answer in 300 s".into())),
        ];
        let verdict = Some(Verdict::of(&settings));
        Report { named: Vec::new(), suggestions: Vec::new(), settings, verdict }
    }

    #[test]
    fn tables_name_what_is_worse_and_what_failed() {
        let tables = report().tables();
        let printed: String = tables.iter().map(|(title, table)| format!("{title}\n{table}\n")).collect();
        assert!(printed.contains("1 of 2 losses ≤ the peer's (relative slack 1e-6); worse: band-mf-2"));
        assert!(printed.contains("dense,n=20,rms, failed: no answer in 300 s"), "{printed}");
        assert_eq!(report().faults().len(), 1);
    }

    #[test]
    fn json_and_charts_hold_what_was_compared() {
        let json = serde_json::to_value(report()).unwrap();
        assert_eq!(json["settings"][0]["peer"]["first_seconds"], 3.0);
        assert_eq!(json["settings"][0]["ours"]["seconds"]["median"], 0.01);
        assert!(json["settings"][2]["peer"].is_null() && json["settings"][2]["why"].is_string());
        assert_eq!(json["verdict"]["compared"], 2);
        let charts = report().charts();
        assert_eq!(charts.len(), 4);
        assert!(plot::svg(&charts).is_ok());
    }

    #[test]
    fn no_two_bars_have_one_name() {
        let settings = Setting::list(super::super::grid::GRID).unwrap();
        let mut names: Vec<_> = settings.iter().map(|s| (drawn_with(s.kind), short(s))).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), settings.len());
    }
}
