//! The points on which sums of likelihood ratios are kept, and the law of one ratio on them.

use super::law::{Bound, Law, Moments};
use crate::gaussian::{NODES, bisect};
use crate::normal::{ln_cdf, ln_density};

/// Distance of neighbouring points, in standard deviations of the mean of all ratios: ε is then off by less than a part in
/// 10⁴ for each ten convolutions.
const RESOLUTION: f64 = 0.01;
/// Most points of one grid; a grid that would have more is made coarser.
const MAX_POINTS: usize = 6000;
/// Largest ratio of neighbouring points, less one, where `MAX_POINTS` allow it.
const WIDEST: f64 = 0.05;
/// Most that the mean's standard deviation counts as.
const MAX_DEVIATION: f64 = 0.5;

/// Tail of one ratio, in standard deviations, that isn't resolved: 10^−30 of the mass with the record.
const REACH: f64 = 11.5;
/// The mass with the record at the largest sums that isn't resolved.
const HIGH: f64 = 1e-30;
/// Most mass at the smallest values of a sum that isn't resolved.
const LOW: f64 = 1e-9;
/// log₁₀ of the most mass of a zero sum.
const ZERO_DIGITS: f64 = -28.0;

/// The ratios of one epoch: t of them, each e^{sz − s²/2} of a unit Gaussian z, where s = 1/σ.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ratios {
    s: f64,
    count: f64,
}

impl Ratios {
    pub fn new(noise_multiplier: f64, count: u64) -> Self {
        Self { s: 1.0 / noise_multiplier, count: count as f64 }
    }

    /// Returns the points for sums of `terms` ratios, from zero through `low` to `high`.
    ///
    /// A point x stands for at most count/x values in any sum that is at least the mean, which is how far apart points may
    /// be for the whole sum to be resolved to `RESOLUTION` of its deviation.
    pub fn grid(&self, terms: u64, low: f64, high: f64) -> Vec<f64> {
        let deviation = ((self.s * self.s).exp_m1() / self.count).sqrt().min(MAX_DEVIATION);
        let mut unit = RESOLUTION * deviation;
        let mut widest = WIDEST;
        loop {
            let points = self.points(terms as f64, (low, high), unit, widest);
            if points.len() <= MAX_POINTS {
                return points;
            }
            // Both: where every step is the widest already, a larger unit alone would remove no point.
            unit *= 1.2;
            widest *= 1.2;
        }
    }

    fn points(&self, terms: f64, (low, high): (f64, f64), unit: f64, widest: f64) -> Vec<f64> {
        let mut points = vec![0.0];
        let mut x = low;
        while x < high && points.len() <= MAX_POINTS {
            points.push(x);
            let relative = if x < terms {
                (self.count / terms).sqrt()
            } else if x < self.count {
                (self.count / x).sqrt()
            } else {
                1.0
            };
            x += x * (unit * relative).min(widest);
        }
        points.push(high);
        points
    }

    /// Returns the law of one ratio.
    pub fn one(&self, bound: Bound) -> Law {
        let s = self.s;
        let (_, lowest) = bisect(-40.0, 0.0, |z| ln_cdf(z) >= self.low(1).ln());
        let ratio = |z: f64| (s * z - 0.5 * s * s).exp();
        let highest = REACH + s;
        let grid = self.grid(1, ratio(lowest), ratio(highest));
        let place = |x: f64| (x.ln() + 0.5 * s * s) / s;
        let mut moments = Moments::new(grid.len());
        // Below the first point, and above the last, by the normal distribution's tails.
        moments.mass[0] = ln_cdf(place(grid[1])).exp();
        moments.moment[0] = ln_cdf(place(grid[1]) - s).exp();
        for (cell, ends) in grid.windows(2).enumerate().skip(1) {
            let from = place(ends[0]);
            let width = place(ends[1]) - from;
            for (node, weight) in NODES {
                let z = from + node * width;
                let mass = ln_density(z).exp() * width * weight;
                moments.mass[cell] += mass;
                moments.moment[cell] += mass * (ratio(z) - ends[0]).max(0.0);
            }
        }
        let last = grid.len() - 1;
        let top = place(grid[last]);
        moments.mass[last] = ln_cdf(-top).exp();
        moments.moment[last] = (ln_cdf(s - top).exp() - grid[last] * moments.mass[last]).max(0.0);
        moments.law(&grid, 0.0, bound)
    }

    /// Returns the most mass at the lower end of a sum of `terms` that isn't resolved: so little that no sum of all is zero.
    fn low(&self, terms: u64) -> f64 {
        10f64.powf(ZERO_DIGITS * terms as f64 / self.count).min(LOW)
    }

    /// Returns the law of the sum of all ratios.
    pub fn sum(&self, bound: Bound) -> Law {
        let mut rest = self.count as u64;
        let mut power = self.one(bound);
        let mut terms = 1;
        let mut sum: Option<(Law, u64)> = None;
        loop {
            if rest & 1 == 1 {
                sum = Some(match sum {
                    None => (power.clone(), terms),
                    Some((law, others)) => (self.added(&law, &power, others + terms, bound), others + terms),
                });
            }
            rest >>= 1;
            if rest == 0 {
                break;
            }
            terms *= 2;
            power = self.doubled(&power, terms, bound);
        }
        sum.map_or(power, |(law, _)| law)
    }

    fn added(&self, one: &Law, other: &Law, terms: u64, bound: Bound) -> Law {
        // From the lower bottom on: either term may be zero, and mass must not move there from above.
        let low = one.bottom().min(other.bottom());
        let grid = self.grid(terms, low, one.top() + other.top());
        self.trimmed(one.plus(other, &grid, bound), terms, bound)
    }

    fn doubled(&self, one: &Law, terms: u64, bound: Bound) -> Law {
        let grid = self.grid(terms, one.bottom(), 2.0 * one.top());
        self.trimmed(one.doubled(&grid, bound), terms, bound)
    }

    fn trimmed(&self, mut law: Law, terms: u64, bound: Bound) -> Law {
        law.trim(self.low(terms), HIGH * terms as f64, bound);
        law
    }
}
