//! Three curves: ε against rounds, the best test's two rates, and ε against δ.

use accounting::rewind::Charge;
use plan::Mechanism;
use plot::{Axis, Chart, Lines, Series, Value};

use crate::error::{Result, within_reach};
use crate::figures::AtDelta;
use crate::privacy_curve::PrivacyCurve;
use crate::question::Question;
use crate::statement::charge;

/// Most points along the rounds.
const ROUNDS: u64 = 24;
/// Most points for a large dense C, whose sensitivity takes seconds.
const ROUNDS_OF_LARGE: u64 = 6;
/// Rounds above which a dense C is large.
const LARGE: u64 = 1024;

/// Returns the charts of a question.
pub fn all(question: &Question) -> Result<Vec<Chart>> {
    let question = &question.relaxed_to_batches()?;
    let charge = charge(question)?;
    let plain = PrivacyCurve::gaussian(&question.plan, charge.total().value, question.neighbouring);
    let amplified = PrivacyCurve::amplified(question, question.plan.iterations())?;
    let mut curves = Vec::new();
    if let Some(curve) = &amplified {
        curves.push(("with sampling", curve));
    }
    curves.push((if amplified.is_some() { "without" } else { "this run" }, &plain));
    let mut charts = vec![rounds(question, &charge)?];
    charts.extend(rates(&curves)?);
    charts.push(deltas(question, &curves)?);
    Ok(charts)
}

/// Charts ε of the first r rounds, at the first δ.
fn rounds(question: &Question, charge: &Charge) -> Result<Chart> {
    let plan = &question.plan;
    let n = plan.iterations();
    let delta = question.deltas.first().copied().unwrap_or(1e-6);
    let large = matches!(plan.mechanism(), Mechanism::Dense { .. }) && n > LARGE;
    let points = n.min(if large { ROUNDS_OF_LARGE } else { ROUNDS });
    let extra: f64 = charge.abandoned.iter().map(|rows| rows.sensitivity.powi(2)).sum();
    let mut straight = Vec::new();
    let mut rewound = Vec::new();
    let mut sampled = Vec::new();
    for point in 1..=points {
        let rounds = (u128::from(point) * u128::from(n) / u128::from(points)) as u64;
        let at = |epsilon: f64| (rounds as f64, Value::from(epsilon));
        let sensitivity = plan.accounted_sensitivity_of(0..rounds)?.value;
        let epsilon = |sensitivity: f64| {
            PrivacyCurve::gaussian(plan, sensitivity, question.neighbouring).epsilon(delta)
        };
        // A point that is out of reach is left out.
        let point =
            |figure| within_reach(figure).map(|known| known.ok().map(|known: AtDelta| at(known.epsilon)));
        straight.extend(point(epsilon(sensitivity))?);
        if extra > 0.0 {
            rewound.extend(point(epsilon((sensitivity * sensitivity + extra).sqrt()))?);
        }
        if let Some(curve) = PrivacyCurve::of_rounds(question, rounds)? {
            sampled.extend(point(curve.epsilon(delta))?);
        }
    }
    let named = [("plan", straight), ("with abandoned rows", rewound), ("with sampling", sampled)];
    let series = named.into_iter().filter(|(_, points)| !points.is_empty());
    Ok(Chart::Lines(Lines {
        title: format!("ε at δ = {delta:e} of the first rounds"),
        x: Axis::linear("rounds"),
        y: Axis::linear("ε"),
        series: series.map(|(name, points)| Series::new(name, points)).collect(),
    }))
}

/// Charts the true positive rate against the false positive rate; `None` where no curve has them.
fn rates(curves: &[(&str, &PrivacyCurve)]) -> Result<Option<Chart>> {
    let rates: Vec<f64> = (0..=40).map(|step| 10f64.powf(-5.0 + f64::from(step) * 4.99 / 40.0)).collect();
    let mut series = Vec::new();
    for (name, curve) in curves {
        let mut points = Vec::new();
        for rate in &rates {
            if let Some(power) = curve.power(*rate)? {
                points.push((*rate, Value::from(power)));
            }
        }
        if !points.is_empty() {
            series.push(Series::new(*name, points));
        }
    }
    if series.is_empty() {
        return Ok(None);
    }
    let chance = rates.iter().map(|rate| (*rate, Value::from(*rate))).collect();
    series.push(Series { dashed: true, ..Series::new("by chance", chance) });
    Ok(Some(Chart::Lines(Lines {
        title: "The best test for whether someone took part".to_owned(),
        x: Axis::log("false positive rate"),
        y: Axis::linear("true positive rate"),
        series,
    })))
}

/// Charts ε against δ.
fn deltas(question: &Question, curves: &[(&str, &PrivacyCurve)]) -> Result<Chart> {
    let mut series = Vec::new();
    for (name, curve) in curves {
        // Each Monte Carlo figure takes seconds: only at the δ of the question.
        let deltas: Vec<f64> = match curve {
            PrivacyCurve::Sampled { .. } => question.deltas.clone(),
            _ => (2..=12).rev().map(|power| 10f64.powi(-power)).collect(),
        };
        let mut points = Vec::new();
        for delta in deltas {
            let known = within_reach(curve.epsilon(delta))?.ok();
            points.extend(known.map(|at| (delta, Value::from(at.epsilon))));
        }
        if !points.is_empty() {
            series.push(Series::new(*name, points));
        }
    }
    Ok(Chart::Lines(Lines {
        title: "ε against δ".to_owned(),
        x: Axis::log("δ"),
        y: Axis::linear("ε"),
        series,
    }))
}
