//! Estimates and upper bounds of the cost of a composition, without a grid.

use super::composition::Composition;
use super::cumulant::Cumulant;
use super::saddle::{CumulantSum, Saddle};
use super::window_choice::{LN_SMALLEST_TAIL, LN_UNCUT_SHARE, MAX_STEEPNESS};

/// Largest distance of the dots whose cumulant bounds the exact one.
const STEP: f64 = 0.02;

impl Composition {
    /// Returns an upper bound of ε at `delta`: (K(θ) − ln δ)/θ at one θ.
    pub(super) fn chernoff_epsilon(&self, delta: f64) -> f64 {
        // Half of δ is left for the mass that the quadrature doesn't reach, and for losses without a bound.
        if self.infinite() > 0.25 * delta {
            return f64::INFINITY;
        }
        let goal = (0.5 * delta).ln();
        let ln_tail = (goal + LN_UNCUT_SHARE - self.rounds().ln()).max(LN_SMALLEST_TAIL);
        let cumulants = self.bounding(ln_tail);
        let Saddle { theta, moments } = CumulantSum { parts: &cumulants }.for_delta(goal, 1e3);
        (moments.value - goal) / theta * (1.0 + 1e-9)
    }

    /// Returns an upper bound of ln δ(ε): K(θ) − θε at one θ.
    pub(super) fn chernoff_ln_delta(&self, epsilon: f64) -> f64 {
        let cumulants = self.bounding(LN_SMALLEST_TAIL);
        let Saddle { theta, moments } = CumulantSum { parts: &cumulants }.for_epsilon(epsilon, MAX_STEEPNESS);
        // K and θε are nearly equal where θ is large; and the mass above the quadrature is at most a tail of each round.
        let rounding = 8.0 * f64::EPSILON * theta * epsilon.abs();
        let unseen = self.infinite() + self.rounds() * LN_SMALLEST_TAIL.exp();
        ln_sum(moments.value - theta * epsilon + rounding, unseen.ln())
    }

    fn bounding(&self, ln_tail: f64) -> Vec<(Cumulant, u64)> {
        self.parts().map(|(classes, count)| (Cumulant::bounding(classes, ln_tail, STEP), count)).collect()
    }

    /// Returns an estimate of ε at `delta` from the saddle alone, a hundred times as fast as a grid. It is off by a factor
    /// that changes slowly: good to start a search with, but no bound.
    pub(crate) fn rough_epsilon(&self, delta: f64) -> f64 {
        let ln_tail = (delta.ln() + LN_UNCUT_SHARE - self.rounds().ln()).max(LN_SMALLEST_TAIL);
        let parts = self.cumulants(ln_tail);
        let sum = CumulantSum { parts: &parts };
        sum.likely_epsilon(sum.for_delta(delta.ln(), 1e3))
    }
}

/// Returns ln(e^a + e^b).
fn ln_sum(a: f64, b: f64) -> f64 {
    let top = a.max(b);
    if top == f64::NEG_INFINITY { top } else { top + (-(a - b).abs()).exp().ln_1p() }
}
