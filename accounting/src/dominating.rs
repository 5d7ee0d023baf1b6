//! Losses that dominate every ρ-zCDP mechanism, so that one can be composed with anything that has losses.
//!
//! Let h(x) be the δ at ε = ln x of a ρ-zCDP mechanism. It is convex in x > 0, h(0) = 1, and in the reverse order of the data sets it
//! is 1 − x + x·h(1/x). Bounds of it are known at any x ≥ 1: those of Rényi orders (Canonne, Kamath and Steinke 2020,
//! Proposition 12), and at x = 1, as a divergence of order 1 is at most ρ, √(ρ/2) (Pinsker) and √(1 − e^{−ρ}) (Bretagnolle and
//! Huber). As h is convex, it is below every chord of these bounds too, and below the lower hull of all of them and of their mirror
//! images in x < 1. That hull is convex, begins at 1, and so is the δ of losses, which then dominate the mechanism at every
//! ε and in every composition (Zhu, Dong and Wang 2022, arXiv:2106.08567):
//!
//! ```text
//! hull(x) = Σ_{x_i > x} q_i·(x_i − x) + y_m      x_0 = 1 < x_1 < … < x_m,  y_m the δ at x_m
//!   loss  ln x_i   has the mass  x_i·q_i of P    and q_i of Q,            i ≥ 1
//!   loss −ln x_i   has the mass  q_i of P        and x_i·q_i of Q,        i ≥ 1
//!   loss  +∞, −∞   has the mass  y_m of P,       y_m of Q
//!   loss  0        has the rest of both
//! ```

use crate::error::{Result, not_negative};
use crate::gaussian::bisect;
use crate::pld::{Loss, Losses};

/// A smaller ρ counts as this much: f64 could not hold how far its losses are from 0.
const LEAST_RHO: f64 = 1e-16;
/// ln of the δ below which losses count as infinite.
const LN_LEAST: f64 = -300.0;
/// Change of ln δ from one x to the next.
const STEP: f64 = 0.03;
/// Most that ε changes from one x to the next, in units of √ρ or 1.
const WIDEST: f64 = 0.01;

/// A bound of δ at one ε.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Bound {
    epsilon: f64,
    ln_delta: f64,
}

/// Returns losses that dominate every ρ-zCDP mechanism, in either order of its data sets.
pub(crate) fn of_zcdp(rho: f64) -> Result<Losses> {
    let bounds = lower_hull(bounds(not_negative("rho", rho)?.max(LEAST_RHO)));
    let slopes: Vec<f64> = bounds.windows(2).map(|ends| ln_slope(ends[0], ends[1])).collect();
    // ln q_i: a slope less the next one; after the last x there is none.
    let later = slopes.iter().skip(1).copied().chain([f64::NEG_INFINITY]);
    let turns = slopes.iter().zip(later).map(|(slope, next)| slope + ln_less(next - slope));
    let turns: Vec<(f64, f64)> = bounds.iter().skip(1).map(|at| at.epsilon).zip(turns).collect();
    let ln_infinite = bounds.last().map_or(f64::NEG_INFINITY, |last| last.ln_delta);
    let short = rounding(&bounds, &turns, ln_infinite);
    let above = turns.iter().map(|(epsilon, turn)| Loss { loss: *epsilon, ln_mass: turn + epsilon + short });
    let below = turns.iter().map(|(epsilon, turn)| Loss { loss: -epsilon, ln_mass: turn + short });
    let mut losses: Vec<Loss> = above.chain(below).collect();
    let infinite = (ln_infinite + short).exp();
    let sum: f64 = losses.iter().map(|one| one.ln_mass.exp()).sum();
    losses.push(Loss { loss: 0.0, ln_mass: (1.0 - sum - infinite).max(0.0).ln() });
    Losses::of_logarithms(losses, infinite)
}

/// Returns bounds of δ, from ε = 0 upwards: that of order a + 1 at the ε for which it is the best of all orders.
fn bounds(rho: f64) -> Vec<Bound> {
    let epsilon_of = |a: f64| (2.0 * a + 1.0) * rho - (1.0 / a).ln_1p();
    let ln_delta = |a: f64, epsilon: f64| {
        let ln = a * ((a + 1.0) * rho - epsilon) - a * (1.0 / a).ln_1p() - a.ln_1p();
        ln.min(0.0)
    };
    let (_, first) = bisect(0.0, 1.0 / rho + 2.0, |a| epsilon_of(a) >= 0.0);
    let distance = (rho / 2.0).sqrt().min((-(-rho).exp_m1()).sqrt());
    let mut bounds = vec![Bound { epsilon: 0.0, ln_delta: ln_delta(first, 0.0).min(distance.ln()) }];
    let widest = WIDEST * rho.sqrt().max(1.0);
    let mut a = first;
    while bounds.last().is_some_and(|last| last.ln_delta > LN_LEAST) {
        let rise = 2.0 * rho + 1.0 / (a * (a + 1.0));
        a += (STEP / a).min(widest) / rise;
        let epsilon = epsilon_of(a);
        bounds.push(Bound { epsilon, ln_delta: ln_delta(a, epsilon) });
    }
    // The hull of both sides is symmetric: at ε = 0 it is no higher than the chord from any bound to its mirror image.
    let across = |one: &Bound| {
        let far = one.epsilon.exp_m1();
        (2.0 * one.ln_delta.exp() + far) / (2.0 + far)
    };
    let nearest = bounds.iter().skip(1).take_while(|one| one.epsilon < 600.0).map(across);
    let least = nearest.fold(1.0, f64::min).ln();
    bounds[0].ln_delta = bounds[0].ln_delta.min(least);
    bounds
}

/// Leaves out the bounds that lie on or above a chord of others.
fn lower_hull(bounds: Vec<Bound>) -> Vec<Bound> {
    let mut hull: Vec<Bound> = Vec::with_capacity(bounds.len());
    for next in bounds {
        while let [.., before, last] = hull[..] {
            if ln_slope(before, last) > ln_slope(last, next) {
                break;
            }
            hull.pop();
        }
        hull.push(next);
    }
    hull
}

/// Returns ln of how fast δ falls in e^ε from one bound to the next, −∞ where it does not.
fn ln_slope(from: Bound, to: Bound) -> f64 {
    if to.ln_delta >= from.ln_delta {
        return f64::NEG_INFINITY;
    }
    let fall = from.ln_delta + ln_less(to.ln_delta - from.ln_delta);
    fall - from.epsilon - (to.epsilon - from.epsilon).exp_m1().ln()
}

/// Returns ln(1 − e^x) for x ≤ 0.
fn ln_less(x: f64) -> f64 {
    (-x.exp_m1()).ln()
}

/// Returns ln of the factor by which masses must grow such that none of the δ they stand for is below its bound by rounding.
fn rounding(bounds: &[Bound], turns: &[(f64, f64)], ln_infinite: f64) -> f64 {
    let mut ln_delta = ln_infinite;
    let mut ln_slope = f64::NEG_INFINITY;
    let mut most: f64 = 0.0;
    for (from, (epsilon, turn)) in bounds.iter().zip(turns).rev() {
        ln_slope = ln_sum(ln_slope, *turn);
        let width = from.epsilon + (epsilon - from.epsilon).exp_m1().ln();
        ln_delta = ln_sum(ln_delta, ln_slope + width);
        most = most.max(from.ln_delta - ln_delta);
    }
    most + 1e-12
}

fn ln_sum(a: f64, b: f64) -> f64 {
    let top = a.max(b);
    if top == f64::NEG_INFINITY { top } else { top + (-(a - b).abs()).exp().ln_1p() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zcdp;

    const RHOS: [f64; 9] = [1e-18, 1e-9, 1e-4, 0.01, 0.3, 1.0, 5.0, 40.0, 500.0];

    fn delta(losses: &Losses, epsilon: f64) -> f64 {
        let above = losses.iter().rev().filter(|one| one.loss > epsilon);
        let sum: f64 = above.map(|one| one.ln_mass.exp() * -(epsilon - one.loss).exp_m1()).sum();
        sum + losses.infinite()
    }

    #[test]
    fn no_delta_is_below_a_gaussian_s_and_none_above_the_published_conversion() {
        for rho in RHOS {
            let losses = of_zcdp(rho).unwrap();
            for i in 0..60 {
                let epsilon = (rho + 2.0 * (rho * 250.0).sqrt()) * f64::from(i) / 60.0;
                let got = delta(&losses, epsilon);
                let gaussian = zcdp::gaussian_delta(rho, epsilon).unwrap();
                let generic = zcdp::generic_delta(rho, epsilon).unwrap();
                assert!(got >= gaussian, "{rho} {epsilon}: {got:e} below {gaussian:e}");
                if rho > LEAST_RHO {
                    assert!(got <= generic * (1.0 + 1e-3), "{rho} {epsilon}: {got:e} above {generic:e}");
                }
            }
        }
    }

    #[test]
    fn masses_are_those_of_a_pair_and_the_same_in_both_orders() {
        for rho in RHOS {
            let losses = of_zcdp(rho).unwrap();
            let p: f64 = losses.iter().map(|one| one.ln_mass.exp()).sum::<f64>() + losses.infinite();
            let q: f64 = losses.iter().map(|one| (one.ln_mass - one.loss).exp()).sum();
            assert!((p - 1.0).abs() < 1e-10 && q < 1.0 + 1e-10, "{rho}: {p} {q}");
            let turned = losses.reversed().unwrap();
            for epsilon in [0.0, 0.01, 1.0, 10.0] {
                let one = delta(&losses, epsilon);
                let other = delta(&turned, epsilon);
                assert!((one - other).abs() < 1e-9 * one + 1e-14, "{rho} {epsilon}: {one} {other}");
            }
        }
    }

    #[test]
    fn bounds_beyond_the_reach_of_orders_are_used_at_zero() {
        // Randomized response of ε₀ has ρ = ε₀²/2 and δ(0) = tanh(ε₀/2).
        for rho in RHOS {
            let losses = of_zcdp(rho).unwrap();
            let at_zero = delta(&losses, 0.0);
            assert!(
                at_zero >= ((2.0 * rho).sqrt() / 2.0).tanh()
                    && at_zero <= (rho.max(LEAST_RHO) / 2.0).sqrt() * 1.001
            );
        }
    }
}
