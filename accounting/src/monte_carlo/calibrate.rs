//! The noise multiplier for an (ε, δ), on common random numbers.

use super::budget::PILOT_SAMPLES;
use super::stream::Draw;
use crate::error::{AccountingError, Result, positive, probability};
use crate::gaussian;

/// The distance of ln δ below its goal at which a search ends: far below the error of the samples.
const LN_DELTA_TOLERANCE: f64 = 1e-4;
/// The value of ln δ where no sample counts: chords need a number.
const MIN_LN_DELTA: f64 = -50.0;
/// Most evaluations of one search: enough to halve any bracket to 1e−9.
const MAX_EVALUATIONS: usize = 60;
/// Evaluations after which a search halves instead of following secants.
const SECANT_EVALUATIONS: usize = 8;
/// Half the distance in ln σ over which the pilot measures the slope of ln δ.
const SLOPE_HALF_WIDTH: f64 = 0.01;
/// The slope that is assumed where the pilot finds none below zero.
const DEFAULT_SLOPE: f64 = -10.0;
/// Longest step in ln σ: e^200 is beyond any noise.
const MAX_STEP: f64 = 200.0;

/// Finds the σ at which `figure`, which falls in σ, is δ; or a σ just above it where it can't be met exactly. The search
/// starts near `near` where it is given. `longest` is the largest |m_S|.
pub(super) fn search(
    longest: f64,
    (epsilon, delta): (f64, f64),
    draw: Draw,
    near: Option<f64>,
    figure: impl Fn(f64, Draw) -> Result<f64>,
) -> Result<f64> {
    positive("epsilon", epsilon)?;
    probability("delta", delta)?;
    // Up to the error of the samples, no σ need be larger than for a record whose batch is known.
    let known = gaussian::calibrate_gaussian(longest, epsilon, delta)?;
    let pilot = Draw { samples: draw.samples.min(PILOT_SAMPLES), ..draw };
    let of = |draw: Draw| {
        let figure = &figure;
        move |x: f64| -> Result<f64> { Ok((figure(x.exp(), draw)? / delta).ln().max(MIN_LN_DELTA)) }
    };
    // Bounds from few samples are too high, so the pilot only finds where to start.
    let start = match near {
        Some(near) => near.ln(),
        None => root(known.ln(), DEFAULT_SLOPE, 0.5, of(pilot), epsilon, delta).unwrap_or(known.ln()),
    };
    let few = of(pilot);
    let slope = (few(start + SLOPE_HALF_WIDTH)? - few(start - SLOPE_HALF_WIDTH)?) / (2.0 * SLOPE_HALF_WIDTH);
    Ok(root(start, slope, 0.1, of(draw), epsilon, delta)?.exp())
}

/// Finds the root of a falling f by secants, from the side where −[`LN_DELTA_TOLERANCE`] ≤ f(x) ≤ 0. It begins with a guess
/// of the slope, and halves once both sides are known and secants lead astray. `width` is the longest first step; it
/// doubles until both sides are known.
fn root(
    start: f64,
    slope: f64,
    mut width: f64,
    f: impl Fn(f64) -> Result<f64>,
    epsilon: f64,
    delta: f64,
) -> Result<f64> {
    let mut x = start;
    let mut value = f(start)?;
    let mut slope = if slope < 0.0 { slope } else { DEFAULT_SLOPE };
    let mut kept = None;
    let mut broken = None;
    for step in 0..MAX_EVALUATIONS {
        if (-LN_DELTA_TOLERANCE..=0.0).contains(&value) {
            return Ok(x);
        }
        *if value <= 0.0 { &mut kept } else { &mut broken } = Some(x);
        let aim = x - (value + 0.5 * LN_DELTA_TOLERANCE) / slope;
        let next = match (broken, kept) {
            (Some(b), Some(k)) if (k - b).abs() < 1e-9 => return Ok(k),
            (Some(b), Some(k)) if step >= SECANT_EVALUATIONS || !between(aim, b, k) => f64::midpoint(b, k),
            (Some(_), Some(_)) => aim,
            _ if width > MAX_STEP => break,
            _ => aim.clamp(x - width, x + width),
        };
        width *= 2.0;
        let found = f(next)?;
        let chord = (found - value) / (next - x);
        if chord < 0.0 && chord.is_finite() {
            slope = chord;
        }
        (x, value) = (next, found);
    }
    kept.ok_or_else(|| AccountingError::OutOfReach {
        what: "noise multiplier",
        setting: format!("epsilon = {epsilon}, delta = {delta} and so few samples"),
    })
}

fn between(x: f64, one: f64, other: f64) -> bool {
    one.min(other) < x && x < one.max(other)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::super::stream::Purpose;
    use super::*;

    const DRAW: Draw = Draw { samples: 1 << 20, seed: 1, purpose: Purpose::Search };

    /// Returns the σ found for a curve `ln_delta` of ln σ, and the number of evaluations with all samples.
    fn found(near: Option<f64>, ln_delta: impl Fn(f64) -> f64) -> (Result<f64>, u32) {
        let all = Cell::new(0);
        let sigma = search(1.0, (1.0, 1e-5), DRAW, near, |sigma, draw| {
            all.set(all.get() + u32::from(draw.samples == DRAW.samples));
            // Few samples see something else.
            let few = if draw.samples < DRAW.samples { 0.05 } else { 0.0 };
            Ok((ln_delta(sigma.ln()) + few).exp())
        });
        (sigma, all.get())
    }

    #[test]
    fn few_evaluations_are_enough_where_delta_is_smooth() {
        let goal = 1e-5_f64.ln();
        for steepness in [3.0, 12.0, 40.0] {
            let curve = |x: f64| goal - steepness * (x - 0.7) + 2.0 * steepness * (x - 0.7).powi(2).min(1.0);
            for near in [None, Some(0.705_f64.exp()), Some(0.69_f64.exp())] {
                let (sigma, all) = found(near, curve);
                let ln_delta = curve(sigma.unwrap().ln());
                assert!(
                    (-LN_DELTA_TOLERANCE..=0.0).contains(&(ln_delta - goal)),
                    "{steepness} {near:?}: {ln_delta}"
                );
                assert!(all <= 5, "{steepness} {near:?}: {all} evaluations");
            }
        }
    }

    #[test]
    fn it_ends_whatever_delta_does() {
        let goal = 1e-5_f64.ln();
        // A step, a kink, and a flat stretch before the fall.
        let step = |x: f64| if x < 0.3 { goal + 1.0 } else { goal - 1.0 };
        let (sigma, all) = found(None, step);
        assert!((sigma.as_ref().unwrap().ln() - 0.3).abs() < 1e-8 && all < 60, "{sigma:?} {all}");
        let kink = |x: f64| goal - if x < 0.3 { 0.1 * (x - 0.3) } else { 500.0 * (x - 0.3) };
        let (sigma, _) = found(None, kink);
        let at = sigma.unwrap().ln();
        assert!((-LN_DELTA_TOLERANCE..=0.0).contains(&(kink(at) - goal)), "{at}");
        let late = |x: f64| if x < 3.0 { goal + 2.0 } else { goal + 2.0 - 9.0 * (x - 3.0) };
        let (sigma, _) = found(None, late);
        assert!((-LN_DELTA_TOLERANCE..=0.0).contains(&(late(sigma.unwrap().ln()) - goal)));
        let (never, _) = found(None, |_| goal + 1.0);
        assert!(matches!(never, Err(AccountingError::OutOfReach { .. })), "{never:?}");
    }
}
