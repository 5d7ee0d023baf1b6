//! Importance sampling for the order P against Q, with a defensive mixture.
//!
//! A component (s, λ) draws x = s·m_i + λ·m̄ + noise, i uniform. One component has the s that suits a single m_i; the
//! others lie between (1, λ) and (s, 0) on the set where the loss is ε. The first component is enough where the m_i are
//! much alike. Where they are nearly orthogonal it misses the samples to which many m_i add a little, and no standard error
//! would show it.

use super::exp::exp_below;
use super::lanes::{Lanes, Scratch, dot, dot_then_multiply, most, padded};
use super::scaled::Scaled;
use crate::gaussian::bisect;

/// Components between (1, λ) and (s, 0).
const MIXED: usize = 6;
const ALL: usize = MIXED + 1;
/// Share of samples for the component of a single m_i, which alone bounds the weights.
const SIMPLE: f64 = 0.2;
/// Sums of scaled exponentials below this may have lost terms to underflow.
const MIN_TRUSTED_SUM: f64 = 1e-250;

/// The component x = s·m_i + λ·m̄ + noise.
#[derive(Debug, Clone, Copy)]
struct Component {
    s: f64,
    lambda: f64,
    ln_share: f64,
    /// The largest exponent, which is factored out of its weights.
    shift: f64,
}

/// The mixture for one ε.
#[derive(Debug)]
pub(super) struct Mixture<'a> {
    scaled: &'a Scaled,
    components: [Component; ALL],
    /// Step of s between the mixed components, which start at 1.
    step: f64,
    /// exp(−s²g_j/2 − sλ(G1/b)_j − shift) of each component in turn, the last being P itself; zero after the b.
    weights: [Vec<Lanes>; ALL + 1],
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
        let mut mixture = Self { scaled, components, step, weights: Default::default(), shift: 0.0 };
        mixture.tabulate();
        mixture
    }

    /// Tabulates the weights of every component, with their largest exponents factored out.
    fn tabulate(&mut self) {
        let b = self.scaled.batches();
        let exponent = |s: f64, lambda: f64, j: usize| {
            -0.5 * s * s * self.scaled.gram[[j, j]] - s * lambda * self.scaled.mean_row[j]
        };
        let most = |s, lambda| (0..b).map(|j| exponent(s, lambda, j)).fold(f64::NEG_INFINITY, f64::max);
        let mut columns = self.components.map(|c| (c.s, c.lambda, most(c.s, c.lambda))).to_vec();
        columns.push((1.0, 0.0, most(1.0, 0.0)));
        self.weights = std::array::from_fn(|k| {
            let (s, lambda, shift) = columns[k];
            padded((0..b).map(|j| (exponent(s, lambda, j) - shift).exp()), 0.0)
        });
        self.shift = columns[ALL].2;
        self.components.iter_mut().zip(&columns).for_each(|(c, column)| c.shift = column.2);
    }

    /// Returns B: (1 − e^{ε−Y})₊ times the weight lies in [0, B], by the power-mean inequality on the simple component.
    ///
    /// There is little room below it. Let one v_j fall without end while all others have loss ε: every component with
    /// λ > 0 vanishes, and the others are within (1 − 1/b)^{s−1} of the inequality. The only other component with λ = 0
    /// has a worse bound, and cutting such v off, at the price of their probability, gained nothing where it was tried, as
    /// lower v_j remain. So where amplification makes δ far less than B, upper bounds of δ come near to the estimates only
    /// with many samples.
    pub fn most(&self, epsilon: f64) -> f64 {
        let s = self.components[MIXED].s;
        let ln_share = self.components[MIXED].ln_share;
        if s == 1.0 {
            return (-ln_share).exp();
        }
        let power = (s - 1.0) * ((s - 1.0) / s).ln() - s.ln();
        ((s - 1.0) * (0.5 * s * self.scaled.most() - epsilon) + power - ln_share).exp()
    }

    /// Picks the component of a sample by a uniform number; returns its (s, λ).
    pub fn pick(&self, uniform: f64) -> (f64, f64) {
        let mixed = uniform / (1.0 - SIMPLE) * MIXED as f64;
        let component = self.components[(mixed as usize).min(MIXED)];
        (component.s, component.lambda)
    }

    /// Returns the loss Y and the weight P/mixture of a sample v with the given mean.
    pub fn weigh(&self, v: &[Lanes], mean: f64, scratch: &mut Scratch) -> (f64, f64) {
        let most = most(v);
        let sums = self.sums(v, most, scratch);
        let column = |k: usize, s: f64, lambda: f64, shift: f64| match sums[k] {
            sum if sum > MIN_TRUSTED_SUM => sum.ln() + shift + s * most,
            _ => self.log_sum(s, lambda, v.as_flattened()),
        };
        let ln_p = column(ALL, 1.0, 0.0, self.shift);
        let mut ln_q = [0.0; ALL];
        for (k, c) in self.components.iter().enumerate() {
            let tilt = c.lambda * mean - 0.5 * c.lambda * c.lambda * self.scaled.mean_norm;
            ln_q[k] = c.ln_share + tilt + column(k, c.s, c.lambda, c.shift);
        }
        let top = ln_q.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mixture = top + ln_q.iter().map(|q| (q - top).exp()).sum::<f64>().ln();
        (ln_p - (self.scaled.batches() as f64).ln(), (ln_p - mixture).exp())
    }

    /// Returns Σ_j weights[j, k]·exp(s_k(v_j − max v)) for each component and for P. The s_k of the mixed ones are evenly
    /// spaced, so their exponentials are one times powers of another.
    fn sums(&self, v: &[Lanes], most: f64, scratch: &mut Scratch) -> [f64; ALL + 1] {
        let [powers, ratios, singles] = scratch.all();
        exp_below(powers, v, most, 1.0);
        exp_below(ratios, v, most, self.step);
        exp_below(singles, v, most, self.components[MIXED].s);
        let mut all = [0.0; ALL + 1];
        all[ALL] = dot(&self.weights[ALL], powers);
        all[MIXED] = dot(&self.weights[MIXED], singles);
        for (sum, weights) in all.iter_mut().zip(&self.weights).take(MIXED) {
            *sum = dot_then_multiply(weights, powers, ratios);
        }
        all
    }

    /// Returns ln Σ_j exp(s·v_j − s²g_j/2 − sλ(G1/b)_j), without underflow.
    #[cold]
    fn log_sum(&self, s: f64, lambda: f64, v: &[f64]) -> f64 {
        let gram = &self.scaled.gram;
        let row = &self.scaled.mean_row;
        let exponent = |j: usize| s * v[j] - 0.5 * s * s * gram[[j, j]] - s * lambda * row[j];
        let most = (0..row.len()).map(exponent).fold(f64::NEG_INFINITY, f64::max);
        most + (0..row.len()).map(|j| (exponent(j) - most).exp()).sum::<f64>().ln()
    }
}

/// Returns the smallest x ≥ `from` at which a monotone predicate holds.
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
