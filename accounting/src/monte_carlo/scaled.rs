//! One problem at one σ, in units in which the noise has variance 1.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, ArrayView2, ArrayViewMut2, Axis, Slice};

use super::centre::Centre;
use super::lanes::{Lanes, padded};

/// Rows of L that are multiplied at once: only the part right of the diagonal within them is wasted work.
const ROWS: usize = 32;

/// G/σ² with the derived quantities that proposals need. A sample is v with v_j = x·m_j/σ².
#[derive(Debug)]
pub(super) struct Scaled {
    /// G/σ².
    pub gram: Array2<f64>,
    /// L/σ, G = LLᵀ.
    pub factor: Array2<f64>,
    /// G1/(bσ²): the products with the mean m̄.
    pub mean_row: Array1<f64>,
    /// |m̄|²/σ².
    pub mean_norm: f64,
    /// |m_j|²/(2σ²).
    pub halves: Vec<Lanes>,
    /// The batch with the longest m_i.
    pub longest: usize,
    /// σ².
    pub variance: f64,
}

impl Scaled {
    pub fn new(gram: &Array2<f64>, factor: &Array2<f64>, sigma: f64) -> Self {
        let gram = gram / (sigma * sigma);
        let b = gram.nrows();
        let mean_row = gram.sum_axis(Axis(0)) / b as f64;
        let mean_norm = mean_row.sum() / b as f64;
        let longest = (0..b).max_by(|i, j| gram[[*i, *i]].total_cmp(&gram[[*j, *j]])).unwrap_or_default();
        let halves = padded((0..b).map(|j| 0.5 * gram[[j, j]]), 0.0);
        Self { gram, factor: factor / sigma, mean_row, mean_norm, halves, longest, variance: sigma * sigma }
    }

    pub fn batches(&self) -> usize {
        self.gram.nrows()
    }

    /// Returns the largest |m_i|²/σ².
    pub fn most(&self) -> f64 {
        self.gram[[self.longest, self.longest]]
    }

    /// Computes L·w/σ, one sample in each row.
    pub fn correlate(&self, w: ArrayView2<'_, f64>, mut noise: ArrayViewMut2<'_, f64>) {
        let b = self.batches();
        for first in (0..b).step_by(ROWS) {
            let end = b.min(first + ROWS);
            let rows = Slice::from(first..end);
            let before = Slice::from(..end);
            let left = w.slice_axis(Axis(1), before);
            let right = self.factor.slice_axis(Axis(0), rows);
            let right = right.slice_axis(Axis(1), before);
            general_mat_mul(1.0, &left, &right.t(), 0.0, &mut noise.slice_axis_mut(Axis(1), rows));
        }
    }

    /// Computes v at the centre plus and minus the noise.
    pub fn around(&self, centre: Centre, noise: &[f64], plus: &mut [f64], minus: &mut [f64]) {
        let Centre { batch, s, lambda } = centre;
        let row = self.gram.row(batch).to_slice().unwrap_or_default();
        let mean_row = self.mean_row.as_slice().unwrap_or_default();
        let sides = plus.iter_mut().zip(minus);
        for (((plus, minus), noise), (g, m)) in sides.zip(noise).zip(row.iter().zip(mean_row)) {
            let mean = s * g + lambda * m;
            (*plus, *minus) = (mean + noise, mean - noise);
        }
    }

    /// Returns the mean of v at the centre.
    pub fn mean_at(&self, Centre { batch, s, lambda }: Centre) -> f64 {
        s * self.mean_row[batch] + lambda * self.mean_norm
    }

    /// Returns Y at x = s·m_i + λ·m̄, where i is the longest.
    pub fn loss_at(&self, s: f64, lambda: f64) -> f64 {
        let exponent =
            |j: usize| s * self.gram[[self.longest, j]] + lambda * self.mean_row[j] - 0.5 * self.gram[[j, j]];
        let most = (0..self.batches()).map(exponent).fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = (0..self.batches()).map(|j| (exponent(j) - most).exp()).sum();
        most + (sum / self.batches() as f64).ln()
    }
}
