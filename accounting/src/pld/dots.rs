//! The mass of a stretch of the line, put at the losses of its two ends: connecting the dots.
//!
//! The loss never falls along the line, so between two points it lies between what it is at these. All that P has
//! there goes to the two losses such that P's and Q's mass are both kept. That spreads P/Q about its mean, so every
//! δ(ε), of any composition, grows: wherever the two points are, and however far apart.

use super::pair::{Pair, Point};
use crate::normal::ln_cdf;

/// Gauss–Legendre with three nodes on [0, 1].
const NODES: [(f64, f64); 3] =
    [(0.112_701_665_379_258_31, 5.0 / 18.0), (0.5, 8.0 / 18.0), (0.887_298_334_620_741_7, 5.0 / 18.0)];

/// Widest stretch, times the fastest change along the line, that three nodes integrate to f64.
const NARROW: f64 = 0.2;

/// Below this mass of P, as ln, Q's relative to it comes from their logarithms.
const LN_SMALL: f64 = -600.0;

/// Shares the mass of P between two points, times e^{`ln_unit`}: returns the part that goes to the loss at the first
/// point, and the part that goes to the loss at the second.
pub(super) fn shared(pair: &Pair, from: (f64, Point), to: (f64, Point), ln_unit: f64) -> (f64, f64) {
    let width = to.0 - from.0;
    if width <= 0.0 {
        return (0.0, 0.0);
    }
    if width <= narrow_up_to(pair, from.0, to.0) {
        narrow(pair, from, to, ln_unit)
    } else {
        wide(pair, from, to, ln_unit)
    }
}

/// Returns the widest stretch within two points whose mass three nodes of the density give to f64.
pub(super) fn narrow_up_to(pair: &Pair, from: f64, to: f64) -> f64 {
    NARROW / pair.steepest().max(8.0).max(from.abs()).max(to.abs())
}

fn narrow(pair: &Pair, from: (f64, Point), to: (f64, Point), ln_unit: f64) -> (f64, f64) {
    let width = to.0 - from.0;
    let reach = to.1.loss - from.1.loss;
    let mut down = 0.0;
    let mut all = 0.0;
    for (node, weight) in NODES {
        let point = pair.at(from.0 + node * width);
        let mass = (point.ln_density + ln_unit).exp() * width * weight;
        down += mass * share_below(point.loss - from.1.loss, reach);
        all += mass;
    }
    (down, (all - down).max(0.0))
}

fn wide(pair: &Pair, from: (f64, Point), to: (f64, Point), ln_unit: f64) -> (f64, f64) {
    let ln_p = ln_mass(pair.upper(), from.0, to.0);
    let mass = (ln_p + ln_unit).exp();
    let ln_ratio = ln_ratio(pair, from.0, to.0, ln_p);
    let share = share_below(-ln_ratio - from.1.loss, to.1.loss - from.1.loss);
    (mass * share, mass * (1.0 - share))
}

/// Returns the share of mass that goes to the lower of two dots, for mass whose loss is `over` above the lower dot, where
/// the upper dot is `reach` above it: (e^{reach−over} − 1)/(e^reach − 1), between 0 and 1 up to rounding. Where f64 cannot
/// tell, all of it goes up.
pub(super) fn share_below(over: f64, reach: f64) -> f64 {
    // With signs exchanged, as e^reach may be more than f64 holds.
    let beyond = (-reach).exp_m1();
    let share = ((-over).exp_m1() - beyond) / -beyond;
    if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) }
}

/// Returns ln of Q's mass over P's, from their difference where the two are nearly the same.
fn ln_ratio(pair: &Pair, from: f64, to: f64, ln_p: f64) -> f64 {
    if ln_p > LN_SMALL {
        let moved = |components: &mut dyn Iterator<Item = (f64, f64)>| -> f64 {
            components.filter(|(_, s)| *s != 0.0).map(|(ln_w, s)| ln_w.exp() * moved_by(s, from, to)).sum()
        };
        let excess = (moved(&mut pair.lower()) - moved(&mut pair.upper())) / ln_p.exp();
        if excess.abs() < 0.5 {
            return excess.ln_1p();
        }
    }
    ln_mass(pair.lower(), from, to) - ln_p
}

/// Returns how much more mass N(s, 1) has between two points than N(0, 1).
fn moved_by(s: f64, from: f64, to: f64) -> f64 {
    let passed = |x: f64| if s > 0.0 { slice(x - s, x) } else { -slice(x, x - s) };
    passed(from) - passed(to)
}

/// Returns Φ(to) − Φ(from), from the density where the two points are near.
fn slice(from: f64, to: f64) -> f64 {
    let width = to - from;
    if width * from.abs().max(to.abs()).max(8.0) > NARROW {
        return ln_interval(from, to).exp();
    }
    let density = |node: f64| crate::normal::ln_density(from + node * width).exp();
    NODES.iter().map(|(node, weight)| weight * density(*node)).sum::<f64>() * width
}

/// Returns ln Σ w_k (Φ(to − s_k) − Φ(from − s_k)), the mass of a mixture between two points.
pub(super) fn ln_mass(components: impl Iterator<Item = (f64, f64)>, from: f64, to: f64) -> f64 {
    let terms: Vec<f64> =
        components.map(|(ln_weight, s)| ln_weight + ln_interval(from - s, to - s)).collect();
    let top = terms.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    top + terms.iter().map(|term| (term - top).exp()).sum::<f64>().ln()
}

/// Returns ln(Φ(to) − Φ(from)), from the tail that the stretch lies in.
fn ln_interval(from: f64, to: f64) -> f64 {
    if from >= 0.0 {
        return ln_interval(-to, -from);
    }
    if to <= 0.0 {
        let whole = ln_cdf(to);
        return if from == f64::NEG_INFINITY {
            whole
        } else {
            whole + (-(ln_cdf(from) - whole).exp()).ln_1p()
        };
    }
    let outside = if from == f64::NEG_INFINITY { 0.0 } else { ln_cdf(from).exp() };
    let outside = outside + if to == f64::INFINITY { 0.0 } else { ln_cdf(-to).exp() };
    (-outside).ln_1p()
}
