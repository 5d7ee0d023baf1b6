//! Importance sampling for the order Q against P: noise moved against the mean of the m_i, so that the loss −Y reaches ε.

use super::exp::exp_below;
use super::lanes::{Lanes, Scratch, most, sum};
use super::scaled::Scaled;

/// The proposal x = −λ·m̄ + noise.
#[derive(Debug)]
pub(super) struct Shift<'a> {
    scaled: &'a Scaled,
    /// The fall of the mean of v that is necessary, by Jensen's inequality, for the loss to reach ε.
    fall: f64,
    pub lambda: f64,
}

impl<'a> Shift<'a> {
    pub fn new(scaled: &'a Scaled, epsilon: f64) -> Self {
        let half = 0.5 * scaled.gram.diag().sum() / scaled.batches() as f64;
        let fall = (epsilon - half).max(0.0);
        Self { scaled, fall, lambda: fall / scaled.mean_norm }
    }

    /// Returns B: (1 − e^{ε+Y})₊ times the weight lies in [0, B].
    pub fn most(&self) -> f64 {
        (-0.5 * self.fall * self.fall / self.scaled.mean_norm).exp()
    }

    /// Returns the loss −Y and the weight Q/proposal of a sample v with the given mean.
    pub fn weigh(&self, v: &[Lanes], mean: f64, scratch: &mut Scratch) -> (f64, f64) {
        let [exponents, powers, _] = scratch.all();
        let pairs = v.as_flattened().iter().zip(self.scaled.halves.as_flattened());
        let to = exponents.as_flattened_mut().iter_mut();
        to.zip(pairs).for_each(|(to, (v, half))| *to = v - half);
        let most = most(exponents);
        exp_below(powers, exponents, most, 1.0);
        let loss = -(most + (sum(powers) / self.scaled.batches() as f64).ln());
        let weight = self.lambda * mean + 0.5 * self.lambda * self.lambda * self.scaled.mean_norm;
        (loss, weight.exp())
    }
}
