//! BLT parameters by the closed forms of sensitivity and error (papers/000).
//!
//! The unknowns are 0 < φ₁ < φ̂₁ < φ₂ < … < φ̂_d < 1 (φ = 1−θ), which is 1 > θ₁ > θ̂₁ > θ₂ > … > θ̂_d > 0:
//! there ω > 0 and Σω < 1 hold by themselves, so Theorem 3.1 does too. Each is the next one times a logistic
//! function of a free number, which lets φ₁ fall to 1e-11 as easily as to 1e-2. Buffers are added one at a
//! time to the optimum with one fewer, at several places, so that more buffers are never worse.

use super::lbfgs::{Found, Limits, Watch, minimise};
use super::{Objective, Optimised, ProgressFn, Target, logistic, logit};
use crate::blt::{Blt, MAX_BUFFERS, errors_squared, sensitivity_squared, weights};
use crate::error::{Result, invalid};
use crate::mechanism::Strategy;

/// Step of the central differences in the free numbers: truncation and rounding both near 1e-10.
const DIFFERENCE: f64 = 1e-5;
/// How much apart a new buffer's φ̂ and φ start, as the logit of their ratio.
const NARROW: f64 = 0.97;
const LIMITS: Limits = Limits { steps: 400, tolerance: 1e-9 };
/// The last search polishes.
const POLISH: Limits = Limits { steps: 1000, tolerance: 1e-13 };

pub(super) fn optimise(buffers: usize, target: &Target, progress: &mut ProgressFn<'_>) -> Result<Optimised> {
    if buffers == 0 || buffers > MAX_BUFFERS {
        return Err(invalid("buffers", buffers, format!("1 to {MAX_BUFFERS}")));
    }
    let mut watch = Watch::new(progress);
    let mut best = best_of(one_buffer_starts(target), target, &mut watch);
    for _ in 1..buffers {
        if watch.stopped {
            break;
        }
        let grown = best_of(grow(&ordered(&best.x)), target, &mut watch);
        // Not even a start may be worse: a buffer whose φ̂ and φ agree changes nothing.
        best = if grown.value <= best.value { grown } else { idle_buffer(&ordered(&best.x), target) };
    }
    if !watch.stopped {
        best = minimise(best.x, POLISH, &mut watch, |x, g| gradient(x, g, target));
    }
    let search = watch.search(best.converged);
    let (phi, phi_hat) = split(&ordered(&best.x));
    let strategy = Strategy::Blt(Blt::from_interlaced(&phi, &phi_hat)?);
    Optimised::evaluate(strategy, target, search)
}

/// Searches from every start and keeps the best end.
fn best_of(starts: Vec<Vec<f64>>, target: &Target, watch: &mut Watch<'_, '_>) -> Found {
    let mut best: Option<Found> = None;
    for start in starts {
        let start = if watch.stopped {
            let value = ln_loss(&start, target);
            Found { x: start, value, converged: false }
        } else {
            minimise(start, LIMITS, watch, |x, g| gradient(x, g, target))
        };
        let better = best.as_ref().is_none_or(|b| start.value < b.value || b.value.is_nan());
        if better {
            best = Some(start);
        }
    }
    best.unwrap_or(Found { x: Vec::new(), value: f64::NAN, converged: false })
}

/// φ̂ at a few distances from one and φ well below it.
fn one_buffer_starts(target: &Target) -> Vec<Vec<f64>> {
    let slow = (target.iterations as f64).recip().sqrt().min(0.3);
    [(0.05, 0.4), (0.1, slow), (0.01, slow), (0.3, 0.1)]
        .into_iter()
        .map(|(ratio, phi_hat): (f64, f64)| free(&[ratio * phi_hat, phi_hat]))
        .collect()
}

/// The current φ, φ̂ with one nearly idle buffer more, in each gap that has room.
fn grow(ordered: &[f64]) -> Vec<Vec<f64>> {
    let mut starts = Vec::new();
    for gap in (0..=ordered.len()).step_by(2) {
        let high = ordered.get(gap).copied().unwrap_or(1.0);
        let low = if gap == 0 { high * 1e-3 } else { ordered[gap - 1] };
        if high < 1e-9 || high / low < 1.0 + 1e-9 {
            continue;
        }
        for place in [0.25, 0.7] {
            // In logarithms, because the φ range over decades.
            let phi_hat = low * (high / low).powf(place);
            let phi = low * (phi_hat / low).powf(NARROW);
            let mut with = ordered.to_vec();
            with.splice(gap..gap, [phi, phi_hat]);
            starts.push(free(&with));
        }
    }
    starts
}

/// The current optimum with a buffer of no account (ω ≈ 1e-12) before φ = 1.
fn idle_buffer(ordered: &[f64], target: &Target) -> Found {
    let last = ordered[ordered.len() - 1];
    let phi = last + (1.0 - last) / 2.0;
    let mut with = ordered.to_vec();
    with.extend([phi, phi * (1.0 + 1e-12)]);
    let x = free(&with);
    let value = ln_loss(&x, target);
    Found { x, value, converged: false }
}

/// φ₁, φ̂₁, φ₂, … from the free numbers.
fn ordered(x: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; x.len()];
    let mut above = 1.0;
    for i in (0..x.len()).rev() {
        above *= logistic(x[i]);
        out[i] = above;
    }
    out
}

/// The free numbers of φ₁, φ̂₁, φ₂, ….
fn free(ordered: &[f64]) -> Vec<f64> {
    (0..ordered.len())
        .map(|i| {
            let above = ordered.get(i + 1).copied().unwrap_or(1.0);
            logit(ordered[i], above - ordered[i])
        })
        .collect()
}

fn split(ordered: &[f64]) -> (Vec<f64>, Vec<f64>) {
    (ordered.iter().step_by(2).copied().collect(), ordered.iter().skip(1).step_by(2).copied().collect())
}

fn ln_loss(x: &[f64], target: &Target) -> f64 {
    let (phi, phi_hat) = split(&ordered(x));
    let omega = weights(&phi, &phi_hat);
    if omega.iter().any(|w| !w.is_finite() || *w <= 0.0) {
        return f64::INFINITY;
    }
    let Some((max, rms)) = errors_squared(&phi, &phi_hat, target.iterations) else {
        return f64::INFINITY;
    };
    let error = match &target.objective {
        Objective::Max | Objective::Last => max,
        Objective::Rms => rms,
        Objective::Weighted(_) => return f64::INFINITY,
    };
    0.5 * (error * sensitivity_squared(&phi, &omega, target.iterations, target.participation)).ln()
}

/// ln(loss) with its central-difference gradient: 4d evaluations of an O(d²k) formula.
fn gradient(x: &[f64], gradient: &mut [f64], target: &Target) -> f64 {
    let mut moved = x.to_vec();
    for i in 0..x.len() {
        moved[i] = x[i] + DIFFERENCE;
        let up = ln_loss(&moved, target);
        moved[i] = x[i] - DIFFERENCE;
        let down = ln_loss(&moved, target);
        moved[i] = x[i];
        gradient[i] = (up - down) / (2.0 * DIFFERENCE);
    }
    ln_loss(x, target)
}
