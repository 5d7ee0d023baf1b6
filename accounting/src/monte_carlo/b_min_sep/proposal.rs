//! The distributions that samples are drawn from for one order and one ε, so that losses near ε are not rare.
//!
//! P against Q: a mixture of the pair's own kind. A component (q', s) lets records join with probability q', and makes
//! their columns s times as long. Its ratio to the noise is the pair's own recursion, so weights are exact. Where single
//! rounds reveal little, a larger q' is, to first order, the tilt that leads to large losses; where a single set reveals
//! much, longer columns do. The components lie between these two on the set where the loss is about ε.
//!
//! Q against P: noise moved against the mean of the m_S, by as much as Jensen's inequality asks for, and by as much as
//! makes the loss about ε.

use super::join_rule::JoinRule;
use super::recursion::Tilt;

/// Components between (q', 1) and (q, s).
const MIXED: usize = 5;
/// Share of samples for the component that bounds the weights.
pub const SIMPLE: f64 = 0.3;
/// Largest q' of a component.
const MAX_Q: f64 = 0.98;
/// Largest s that is tried.
const MAX_S: f64 = 64.0;
const HALVINGS: u32 = 12;

#[derive(Debug)]
pub enum Proposal {
    Remove { components: Vec<Component>, most: f64 },
    Add { shifts: [Shift; 2], most: f64 },
}

#[derive(Debug)]
pub struct Component {
    pub tilt: Tilt,
    pub share: f64,
}

/// The proposal x = −λ·m̄ + noise.
#[derive(Debug, Clone, Copy)]
pub struct Shift {
    pub lambda: f64,
    pub share: f64,
}

/// A source of the typical loss of samples from a component.
pub trait Pilot {
    fn of_tilt(&self, q: f64, s: f64) -> f64;
    fn of_shift(&self, lambda: f64) -> f64;
}

impl Proposal {
    /// Builds the proposal for P against Q; `longest` is the largest |m_S|²/σ².
    pub fn remove(rule: JoinRule, norms: &[f64], longest: f64, epsilon: f64, pilot: &impl Pilot) -> Self {
        let simple = (0.5 + epsilon / longest).max(1.0);
        let tilt = |q: f64, s: f64| Tilt::new(JoinRule { q, ..rule }, s, norms);
        let mut components = vec![Component { tilt: tilt(rule.q, simple), share: SIMPLE }];
        let reaches = |q: f64, s: f64| pilot.of_tilt(q, s) >= epsilon;
        let farthest =
            if reaches(rule.q, 1.0) { 1.0 } else { bisect_few(1.0, MAX_S, |s| reaches(rule.q, s)) };
        for k in 0..MIXED {
            let s = 1.0 + (farthest - 1.0) * k as f64 / (MIXED - 1) as f64;
            let q = if rule.q >= MAX_Q || reaches(rule.q, s) {
                rule.q
            } else {
                // Evenly in ln q: rates may be far apart.
                bisect_few(rule.q.ln(), MAX_Q.ln(), |q| reaches(q.exp(), s)).exp()
            };
            components.push(Component { tilt: tilt(q, s), share: (1.0 - SIMPLE) / MIXED as f64 });
        }
        Self::Remove { components, most: most(simple, longest, epsilon) / SIMPLE }
    }

    /// Builds the proposal for Q against P; `mean_norm` is |m̄|²/σ², `half` is half the mean of |m_S|²/σ².
    pub fn add(mean_norm: f64, half: f64, epsilon: f64, pilot: &impl Pilot) -> Self {
        let fall = (epsilon - half).max(0.0);
        let needed = fall / mean_norm;
        // Farther than this a loss of ε is nearly certain, or does not exist.
        let farthest = needed + 40.0 / mean_norm.sqrt();
        let reaches = |lambda: f64| pilot.of_shift(lambda) >= epsilon;
        let typical = if reaches(needed) { needed } else { bisect_few(needed, farthest, reaches) };
        let shifts = [needed, typical].map(|lambda| Shift { lambda, share: 0.5 });
        // On the set where the loss can reach ε, m̄·x is at most −fall where that is above zero.
        let bound = |lambda: f64| (-lambda * fall + 0.5 * lambda * lambda * mean_norm).exp() / 0.5;
        Self::Add { shifts, most: bound(needed).min(if fall > 0.0 { bound(typical) } else { f64::INFINITY }) }
    }

    /// Returns B, which (1 − e^{ε−loss})₊ times the weight can't exceed.
    pub fn most(&self) -> f64 {
        match self {
            Self::Remove { most, .. } | Self::Add { most, .. } => *most,
        }
    }

    /// Picks the component of a sample by a uniform number.
    pub fn pick(&self, uniform: f64) -> usize {
        match self {
            Self::Remove { components, .. } => pick(components.iter().map(|one| one.share), uniform),
            Self::Add { shifts, .. } => pick(shifts.iter().map(|one| one.share), uniform),
        }
    }
}

/// Returns the index of the share that a number in [0, 1) falls into.
fn pick(shares: impl ExactSizeIterator<Item = f64>, uniform: f64) -> usize {
    let last = shares.len() - 1;
    let mut left = uniform;
    let beyond = shares.take(last).take_while(|share| {
        left -= share;
        left >= 0.0
    });
    beyond.count()
}

/// Returns sup (1 − e^ε/L)·L/L_s over L ≥ e^ε, as L_s ≥ L^s·e^{−s(s−1)·longest/2} by the power-mean inequality.
fn most(s: f64, longest: f64, epsilon: f64) -> f64 {
    if s == 1.0 {
        return 1.0;
    }
    let power = (s - 1.0) * ((s - 1.0) / s).ln() - s.ln();
    ((s - 1.0) * (0.5 * s * longest - epsilon) + power).exp()
}

/// Finds roughly where a monotone predicate turns true: proposals need no more than a percent.
fn bisect_few(mut low: f64, mut high: f64, holds: impl Fn(f64) -> bool) -> f64 {
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if holds(middle) { high = middle } else { low = middle }
    }
    high
}
