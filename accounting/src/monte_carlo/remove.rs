//! Samples for the order P against Q: importance sampling with a defensive mixture.
//!
//! A component (s, λ) draws x = s·m_i + λ·m̄ + noise, i uniform. One has the s that suits a single m_i; the others
//! lie between (1, λ) and (s, 0) on the set where the loss is ε. The first alone is right where the m_i are much
//! alike; where they are nearly orthogonal it misses, without a sign of it, the samples to which many add a little.

use ndarray::{Array2, ArrayView2};

use super::block::{LANES, Lanes, SAMPLES};
use super::exp::exp;
use super::scaled::Scaled;
use crate::gaussian::bisect;

/// Components between (1, λ) and (s, 0).
const MIXED: usize = 6;
const ALL: usize = MIXED + 1;
/// Share of samples for the component of a single m_i.
const SIMPLE: f64 = 0.2;
/// Sums of scaled exponentials below this may have lost terms to underflow.
const TRUSTED: f64 = 1e-250;

/// x = s·m_i + λ·m̄ + noise.
#[derive(Debug, Clone, Copy)]
struct Component {
    s: f64,
    lambda: f64,
    ln_share: f64,
    /// The largest of the exponents that are left out of its weights.
    shift: f64,
}

/// The mixture for one ε.
#[derive(Debug)]
pub(super) struct Mixture<'a> {
    scaled: &'a Scaled,
    components: [Component; ALL],
    /// Step of s between the mixed components, which start at 1.
    step: f64,
    /// exp(−s²g_j/2 − sλ(G1/b)_j − shift), a column a component; the last column is P itself.
    weights: Array2<f64>,
    shift: f64,
}

impl<'a> Mixture<'a> {
    pub fn new(scaled: &'a Scaled, epsilon: f64) -> Self {
        let most = scaled.most();
        let farthest = reach(1.0, |s| scaled.loss_at(s, 0.0) >= epsilon);
        let step = (farthest - 1.0) / (MIXED - 1) as f64;
        let mut components = [Component {
            s: (0.5 + epsilon / most).max(1.0),
            lambda: 0.0,
            ln_share: SIMPLE.ln(),
            shift: 0.0,
        }; ALL];
        for (k, component) in components.iter_mut().take(MIXED).enumerate() {
            component.s = 1.0 + step * k as f64;
            component.lambda = reach(0.0, |lambda| scaled.loss_at(component.s, lambda) >= epsilon);
            component.ln_share = ((1.0 - SIMPLE) / MIXED as f64).ln();
        }
        let mut mixture = Self { scaled, components, step, weights: Array2::zeros((0, 0)), shift: 0.0 };
        mixture.weigh();
        mixture
    }

    fn weigh(&mut self) {
        let b = self.scaled.batches();
        let exponent = |s: f64, lambda: f64, j: usize| {
            -0.5 * s * s * self.scaled.gram[[j, j]] - s * lambda * self.scaled.mean_row[j]
        };
        let most = |s, lambda| (0..b).map(|j| exponent(s, lambda, j)).fold(f64::NEG_INFINITY, f64::max);
        let mut columns = self.components.map(|c| (c.s, c.lambda, most(c.s, c.lambda))).to_vec();
        columns.push((1.0, 0.0, most(1.0, 0.0)));
        let weights = Array2::from_shape_fn((b, ALL + 1), |(j, k)| {
            let (s, lambda, shift) = columns[k];
            (exponent(s, lambda, j) - shift).exp()
        });
        self.weights = weights;
        self.shift = columns[ALL].2;
        self.components.iter_mut().zip(&columns).for_each(|(c, column)| c.shift = column.2);
    }

    /// B: (1 − e^{ε−Y})₊ times the weight lies in [0, B], by the power-mean inequality on the simple component.
    pub fn most(&self, epsilon: f64) -> f64 {
        let s = self.components[MIXED].s;
        let ln_share = self.components[MIXED].ln_share;
        if s == 1.0 {
            return (-ln_share).exp();
        }
        let power = (s - 1.0) * ((s - 1.0) / s).ln() - s.ln();
        ((s - 1.0) * (0.5 * s * self.scaled.most() - epsilon) + power - ln_share).exp()
    }

    /// The component of a sample, given a uniform number.
    pub fn pick(&self, uniform: f64) -> (f64, f64) {
        let mixed = uniform / (1.0 - SIMPLE) * MIXED as f64;
        let component = self.components[(mixed as usize).min(MIXED)];
        (component.s, component.lambda)
    }

    /// Losses Y and weights P/mixture of [`LANES`] samples, the columns from `first` on.
    pub fn weigh_lanes(&self, v: ArrayView2<'_, f64>, first: usize) -> (Lanes, Lanes) {
        let b = self.scaled.batches();
        let (mut most, mut mean) = ([f64::NEG_INFINITY; LANES], [0.0; LANES]);
        let flat = v.to_slice().unwrap_or_default();
        let lanes = |j: usize| -> &[f64] { &flat[j * SAMPLES + first..][..LANES] };
        for j in 0..b {
            for (lane, v) in lanes(j).iter().enumerate() {
                most[lane] = if *v > most[lane] { *v } else { most[lane] };
                mean[lane] += v;
            }
        }
        mean.iter_mut().for_each(|m| *m /= b as f64);
        let sums = self.sums(b, &lanes, &most);
        let (mut losses, mut weights) = ([0.0; LANES], [0.0; LANES]);
        for lane in 0..LANES {
            let value = |j: usize| lanes(j)[lane];
            let column = |k: usize, s: f64, lambda: f64, shift: f64| match sums[k][lane] {
                sum if sum > TRUSTED => sum.ln() + shift + s * most[lane],
                _ => self.log_sum(s, lambda, value),
            };
            let ln_p = column(ALL, 1.0, 0.0, self.shift);
            let mut ln_q = [0.0; ALL];
            for (k, c) in self.components.iter().enumerate() {
                let tilt = c.lambda * mean[lane] - 0.5 * c.lambda * c.lambda * self.scaled.mean_norm;
                ln_q[k] = c.ln_share + tilt + column(k, c.s, c.lambda, c.shift);
            }
            let top = ln_q.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let mixture = top + ln_q.iter().map(|q| (q - top).exp()).sum::<f64>().ln();
            losses[lane] = ln_p - (b as f64).ln();
            weights[lane] = (ln_p - mixture).exp();
        }
        (losses, weights)
    }

    /// Σ_j weights[j, k]·exp(s_k(v_j − max v)) for each component and for P. The s_k of the mixed ones are evenly
    /// spaced, so their exponentials are one times powers of another.
    #[inline(always)]
    fn sums<'v>(&self, b: usize, lanes: &impl Fn(usize) -> &'v [f64], most: &Lanes) -> [Lanes; ALL + 1] {
        let mut sums = [[0.0; LANES]; ALL + 1];
        let flat = self.weights.as_slice().unwrap_or_default();
        let simple = self.components[MIXED].s;
        for j in 0..b {
            let weights = &flat[j * (ALL + 1)..][..ALL + 1];
            let v = lanes(j);
            let (mut power, mut ratio, mut single) = ([0.0; LANES], [0.0; LANES], [0.0; LANES]);
            for lane in 0..LANES {
                let below = v[lane] - most[lane];
                power[lane] = exp(below);
                ratio[lane] = exp(self.step * below);
                single[lane] = exp(simple * below);
            }
            for lane in 0..LANES {
                sums[ALL][lane] += weights[ALL] * power[lane];
                sums[MIXED][lane] += weights[MIXED] * single[lane];
            }
            for (k, sum) in sums.iter_mut().take(MIXED).enumerate() {
                for lane in 0..LANES {
                    sum[lane] += weights[k] * power[lane];
                    power[lane] *= ratio[lane];
                }
            }
        }
        sums
    }

    /// ln Σ_j exp(s·v_j − s²g_j/2 − sλ(G1/b)_j), without underflow.
    fn log_sum(&self, s: f64, lambda: f64, value: impl Fn(usize) -> f64) -> f64 {
        let (gram, row) = (&self.scaled.gram, &self.scaled.mean_row);
        let exponent = |j: usize| s * value(j) - 0.5 * s * s * gram[[j, j]] - s * lambda * row[j];
        let most = (0..row.len()).map(exponent).fold(f64::NEG_INFINITY, f64::max);
        most + (0..row.len()).map(|j| (exponent(j) - most).exp()).sum::<f64>().ln()
    }
}

/// The least x ≥ `from` at which a predicate that turns true holds.
fn reach(from: f64, holds: impl Fn(f64) -> bool) -> f64 {
    if holds(from) {
        return from;
    }
    let mut width = 1.0;
    while !holds(from + width) && width < 1e12 {
        width *= 2.0;
    }
    bisect(from, from + width, holds).1
}
