//! The best of a random number of runs: Rényi divergences after Papernot and Steinke (2021, arXiv:2110.03620).
//!
//! With K runs, each of divergence ε(λ), the best of them has at most
//!
//! ```text
//! ε(λ) + (1+η)·min_λ̂ [(1 − 1/λ̂)·ε(λ̂) − ln γ / λ̂] + ln E[K] / (λ−1)     K truncated negative binomial (Theorem 2)
//! ε(λ) + E[K]·δ̂ + ln E[K] / (λ−1),  δ̂ = δ(ln(1 + 1/(λ−1)))               K Poisson (Theorem 6)
//! ```
//!
//! That is a statement on one pair of laws of a run. Where runs may leave the mechanism whose divergences these are, each with
//! a probability of at most τ, the selection leaves that of the mechanism's runs with at most E[K]·τ.

use super::run_count::RunCount;
use crate::error::Result;
use crate::renyi;

/// Orders that a selection is known at: up to about 160.
const ORDERS: usize = 300;

/// The divergences of the best of several runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// Ascending orders, those of [`renyi::orders`], with the divergence of the worse direction.
    curve: Vec<(f64, f64)>,
}

impl Selection {
    /// Computes the divergences of the best of `mean` runs on average, from those of one run, which are the worse of both
    /// directions. Without a `shape` the number of runs is Poisson.
    pub fn new(run: impl Fn(f64) -> Result<f64>, mean: f64, shape: Option<f64>) -> Result<Self> {
        let divergence = |order: f64| Ok((order, run(order)?));
        let one: Vec<(f64, f64)> = renyi::orders().take(ORDERS).map(divergence).collect::<Result<_>>()?;
        let runs = RunCount::new(mean, shape)?;
        let curve = match shape {
            Some(shape) => truncated(&one, mean, shape, runs.ln_gamma()),
            None => poisson(&one, mean),
        };
        Ok(Self { curve: rising(curve) })
    }

    /// Returns the divergence at an order, rounded up.
    pub fn at(&self, order: f64) -> f64 {
        // Divergences rise in the order, so that of the next known order bounds one in between.
        let place = self.curve.partition_point(|(known, _)| *known < order);
        self.curve.get(place).map_or(f64::INFINITY, |(_, divergence)| *divergence)
    }
}

fn truncated(one: &[(f64, f64)], mean: f64, shape: f64, ln_gamma: f64) -> Vec<(f64, f64)> {
    let cost = |(order, divergence): &(f64, f64)| (1.0 - 1.0 / order) * divergence - ln_gamma / order;
    let least = one.iter().map(cost).fold(f64::INFINITY, f64::min);
    // At order 1 nothing of ε counts, but all of ln γ.
    let constant = (1.0 + shape) * least.min(-ln_gamma);
    one.iter().map(|(order, d)| (*order, d + constant + mean.ln() / (order - 1.0))).collect()
}

fn poisson(one: &[(f64, f64)], mean: f64) -> Vec<(f64, f64)> {
    // δ of one run at ε, by the same divergences.
    let ln_delta = |epsilon: f64| {
        let bound =
            |(order, d): &(f64, f64)| (order - 1.0) * (d - epsilon + (-1.0 / order).ln_1p()) - order.ln();
        one.iter().map(bound).fold(0.0, f64::min)
    };
    let best = |(order, d): &(f64, f64)| {
        let delta = ln_delta((1.0 / (order - 1.0)).ln_1p()).exp();
        (*order, d + mean * delta + (mean.ln() / (order - 1.0)).max(0.0))
    };
    one.iter().map(best).collect()
}

/// A divergence is at most that of any larger order.
fn rising(mut curve: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let mut least = f64::INFINITY;
    for (_, divergence) in curve.iter_mut().rev() {
        least = divergence.min(least);
        *divergence = least;
    }
    curve
}
