//! Samples for the order Q against P: noise moved against the mean of the m_i, so that the loss −Y reaches ε.

use ndarray::ArrayView2;

use super::block::{LANES, Lanes, SAMPLES};
use super::exp::exp;
use super::scaled::Scaled;

/// x = −λ·m̄ + noise.
#[derive(Debug)]
pub(super) struct Shift<'a> {
    scaled: &'a Scaled,
    /// How far the mean of v must fall, by Jensen's inequality, before the loss can reach ε.
    fall: f64,
    pub lambda: f64,
}

impl<'a> Shift<'a> {
    pub fn new(scaled: &'a Scaled, epsilon: f64) -> Self {
        let half = 0.5 * scaled.gram.diag().sum() / scaled.batches() as f64;
        let fall = (epsilon - half).max(0.0);
        Self { scaled, fall, lambda: fall / scaled.mean_norm }
    }

    /// B: (1 − e^{ε+Y})₊ times the weight lies in [0, B].
    pub fn most(&self) -> f64 {
        (-0.5 * self.fall * self.fall / self.scaled.mean_norm).exp()
    }

    /// Losses −Y and weights Q/proposal of [`LANES`] samples, the columns from `first` on.
    pub fn weigh_lanes(&self, v: ArrayView2<'_, f64>, first: usize) -> (Lanes, Lanes) {
        let b = self.scaled.batches();
        let (mut most, mut mean) = ([f64::NEG_INFINITY; LANES], [0.0; LANES]);
        let flat = v.to_slice().unwrap_or_default();
        let lanes = |j: usize| -> &[f64] { &flat[j * SAMPLES + first..][..LANES] };
        for j in 0..b {
            let half = 0.5 * self.scaled.gram[[j, j]];
            for (lane, v) in lanes(j).iter().enumerate() {
                let exponent = v - half;
                most[lane] = if exponent > most[lane] { exponent } else { most[lane] };
                mean[lane] += v;
            }
        }
        let mut sums = [0.0; LANES];
        for j in 0..b {
            let half = 0.5 * self.scaled.gram[[j, j]];
            for (lane, v) in lanes(j).iter().enumerate() {
                sums[lane] += exp(v - half - most[lane]);
            }
        }
        let (mut losses, mut weights) = ([0.0; LANES], [0.0; LANES]);
        for lane in 0..LANES {
            losses[lane] = -(most[lane] + (sums[lane] / b as f64).ln());
            let tilt = self.lambda * mean[lane] / b as f64;
            weights[lane] = (tilt + 0.5 * self.lambda * self.lambda * self.scaled.mean_norm).exp();
        }
        (losses, weights)
    }
}
