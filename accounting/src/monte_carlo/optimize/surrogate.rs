//! The surrogate of the sensitivity in a search without samples: √(2ΣH∘G) has the value and slope of σ at C up to a factor.
//!
//! σ is the larger one of two, one for each order of neighbours. Optima often lie where both are equal: a search that
//! knew the larger one alone would make the other larger with its next step, and then go back and forth. So the surrogate
//! holds both, with the distance of the smaller, and takes a smooth maximum.

use super::super::balls_in_bins::BallsInBins;
use super::super::gradient::{Slope, noise_by_gram};
use super::super::pair::LossSampler;
use super::super::stream::Draw;
use super::quadratic::Quadratic;
use crate::error::Result;
use crate::neighbouring::Direction;

/// An order whose δ is a smaller share of the other's is left out: it does not come to bind within a search.
const MIN_DELTA_SHARE: f64 = 1e-3;
/// The smooth maximum lies above the larger one by at most ln 2 over this.
const SHARPNESS: f64 = 300.0;

pub(super) struct Surrogate {
    orders: Vec<Order>,
    /// The derivatives of one order by the column.
    by: Vec<f64>,
}

struct Order {
    h: Quadratic,
    /// The distance of its ln σ below that of the order that binds.
    behind: f64,
}

impl Surrogate {
    /// Builds the surrogate around a mechanism of `n` rounds, at the σ that it needs for ε.
    pub fn new(mechanism: &BallsInBins, sigma: f64, epsilon: f64, n: u64, draw: Draw) -> Result<Self> {
        let found = mechanism.delta_with(sigma, epsilon, draw)?;
        let scaled = mechanism.scaled(sigma)?;
        let worse = found.worse().delta;
        let order = |direction| {
            let delta = found.of(direction).delta;
            (delta > 0.0 && delta >= MIN_DELTA_SHARE * worse).then(|| {
                let Slope { h, fall } = noise_by_gram(&scaled, direction, epsilon, draw);
                Order { h: Quadratic::new(&h, n), behind: (worse / delta).ln() * delta / fall }
            })
        };
        Ok(Self { orders: Direction::BOTH.into_iter().filter_map(order).collect(), by: Vec::new() })
    }

    /// Returns ln of the surrogate for the first column c, and writes its derivatives to `by`; +∞ where it has no value.
    pub fn ln(&mut self, c: &[f64], by: &mut [f64]) -> f64 {
        by.fill(0.0);
        self.by.resize(by.len(), 0.0);
        let mut all = f64::NEG_INFINITY;
        let mut weight = 0.0;
        for Order { h, behind } in &self.orders {
            let value = h.value(c, &mut self.by);
            if value <= 0.0 {
                return f64::INFINITY;
            }
            let ln = 0.5 * (2.0 * value).ln() - behind;
            // Weights e^{kx} of the smooth maximum, updated whichever order is larger.
            let most = all.max(ln);
            let before = weight * (SHARPNESS * (all - most)).exp();
            let now = (SHARPNESS * (ln - most)).exp();
            by.iter_mut().zip(&self.by).for_each(|(by, own)| {
                *by = (before * *by + now * own / (2.0 * value)) / (before + now);
            });
            (all, weight) = (most, before + now);
        }
        all + weight.ln() / SHARPNESS
    }
}

#[cfg(test)]
mod tests {
    use strategy::Strategy;

    use super::super::super::calibrate::search;
    use super::super::super::stream::Purpose;
    use super::*;

    const N: u64 = 32;

    fn column(last: f64) -> Vec<f64> {
        let mut c = vec![0.0; N as usize];
        c[..4].copy_from_slice(&[1.0, 0.6, 0.3, last]);
        c
    }

    fn sigma(mechanism: &BallsInBins, epsilon: f64, draw: Draw) -> f64 {
        let worse = |sigma: f64, draw: Draw| Ok(mechanism.delta_with(sigma, epsilon, draw)?.worse().delta);
        search(mechanism.longest(), (epsilon, 1e-3), draw, None, worse).unwrap()
    }

    /// Compares ln σ of strategies near that of the surrogate, on the same samples, with the slope of the surrogate.
    #[test]
    fn it_follows_sigma() {
        let draw = Draw { samples: 1 << 16, seed: 5, purpose: Purpose::Search };
        let banded =
            |last: f64| Strategy::BandToeplitz { c: column(last)[..4].to_vec(), column_normalised: false };
        for epsilon in [0.5, 2.0, 4.0] {
            let mechanism = BallsInBins::new(&banded(0.2), N, 8).unwrap();
            let here = sigma(&mechanism, epsilon, draw);
            let mut surrogate = Surrogate::new(&mechanism, here, epsilon, N, draw).unwrap();
            let mut by = vec![0.0; N as usize];
            for last in [0.15, 0.19, 0.2, 0.21, 0.25] {
                let moved = BallsInBins::new(&banded(last), N, 8).unwrap();
                let change = (sigma(&moved, epsilon, draw) / here).ln();
                let said = surrogate.ln(&column(last), &mut by);
                let off = said - change;
                assert!((-2e-3..3e-3).contains(&off), "ε = {epsilon}, {last}: {said} for {change}");
            }
            let c = column(0.2);
            surrogate.ln(&c, &mut by);
            let slopes = by.clone();
            for k in [0, 1, 3, 9, 31] {
                let mut moved = |step: f64| {
                    let mut c = c.clone();
                    c[k] += step;
                    surrogate.ln(&c, &mut by)
                };
                let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!((slopes[k] - difference).abs() < 1e-6, "{k}: {} {difference}", slopes[k]);
            }
        }
    }
}
