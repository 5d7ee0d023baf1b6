//! ln(error) of bands whose columns have set norms, with its gradient by columns of any length; O(n·p²).

use super::row_loss::RowLoss;
use crate::covariance::Covariance;
use crate::numeric::dot;
use crate::workload::InverseBands;

/// The error of strategies of one shape; its memory is used again for each of them.
pub(super) struct NormalisedError {
    n: usize,
    p: usize,
    covariance: Covariance,
    /// The columns, each of its length within n rows, shape (n, p); entries below row n−1 are zero.
    columns: Vec<f64>,
    /// The norm that each column is given; one unless set.
    lengths: Vec<f64>,
    norms: Vec<f64>,
    gains: Vec<f64>,
    weights: Vec<f64>,
}

impl NormalisedError {
    pub fn new(d: &InverseBands, n: usize, p: usize) -> Self {
        let covariance = Covariance::new(d, n, p);
        let each = || vec![0.0; n];
        Self {
            n,
            p,
            covariance,
            columns: vec![0.0; n * p],
            lengths: vec![1.0; n],
            norms: each(),
            gains: each(),
            weights: each(),
        }
    }

    /// The norms that the columns are given, one for each, to be set before a call.
    pub fn lengths_mut(&mut self) -> &mut [f64] {
        &mut self.lengths
    }

    /// The normalised columns of the last call of [`Self::ln_error`].
    pub fn columns(&self) -> &[f64] {
        &self.columns
    }

    /// The gain of a longer column at the last call of [`Self::ln_error`]: −∂ln(error)/∂ln‖C[:, j]‖, the
    /// curvature by that column up to a factor that all share.
    pub fn gains(&self) -> &[f64] {
        &self.gains
    }

    /// The squared errors of the rows for columns of any length; none for a diagonal that is not positive.
    pub fn rows(&mut self, raw: &[f64]) -> Option<&[f64]> {
        self.normalise(raw).then(|| self.covariance.errors(&self.columns))
    }

    /// ln(error); `columns` holds the columns and becomes the gradient. Infinite for a diagonal that is not
    /// positive, where the line search steps back.
    pub fn ln_error(&mut self, loss: &RowLoss, columns: &mut [f64]) -> f64 {
        if !self.normalise(columns) {
            return f64::INFINITY;
        }
        let value = loss.ln_error(self.covariance.errors(&self.columns), &mut self.weights);
        if value.is_finite() {
            self.covariance.gradient(&self.columns, &self.weights, columns);
            self.remove_lengths(columns);
        }
        value
    }

    fn normalise(&mut self, raw: &[f64]) -> bool {
        let p = self.p;
        for (j, raw) in raw.chunks_exact(p).enumerate() {
            let inside = p.min(self.n - j);
            let norm = dot(&raw[..inside], &raw[..inside]).sqrt();
            if !(raw[0] > 0.0 && norm.is_finite()) {
                return false;
            }
            self.norms[j] = norm;
            let column = &mut self.columns[j * p..][..p];
            let scale = self.lengths[j] / norm;
            column[..inside].iter_mut().zip(raw).for_each(|(c, raw)| *c = raw * scale);
        }
        true
    }

    /// From the gradient by normalised columns to that by the given ones.
    fn remove_lengths(&mut self, gradient: &mut [f64]) {
        let columns = self.columns.chunks_exact(self.p);
        let lengths = self.lengths.iter().zip(&self.norms);
        let each = gradient.chunks_exact_mut(self.p).zip(columns).zip(lengths).zip(&mut self.gains);
        for (((gradient, column), (length, norm)), gain) in each {
            let along = dot(gradient, column);
            let share = along / (length * length);
            gradient.iter_mut().zip(column).for_each(|(g, c)| *g = (*g - c * share) * length / norm);
            *gain = -along;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimize::Objective;
    use crate::workload::{LearningRates, Momentum};

    #[test]
    fn gradients_are_central_differences_for_every_loss() {
        let n = 14;
        let p = 4;
        let rates = LearningRates::CoolDown { from: 5, last: 0.2, iterations: n as u64 };
        let momentum = Momentum { momentum: 0.9, weight_decay: 0.01, learning_rates: rates };
        let weighted = Objective::Weighted((0..n).map(|t| (t % 3) as f64).collect());
        for d in [InverseBands::Difference, InverseBands::Momentum(momentum)] {
            for objective in [Objective::Rms, Objective::Max, Objective::Last, weighted.clone()] {
                let mut loss = Some(RowLoss::first(&objective, n));
                while let Some(one) = loss {
                    check(&d, &one, n, p);
                    loss = one.next(&objective, n);
                }
            }
        }
    }

    fn check(d: &InverseBands, loss: &RowLoss, n: usize, p: usize) {
        let columns: Vec<f64> =
            (0..n * p).map(|k| 1.0 / (1 + k % p) as f64 + 0.1 * (k as f64).sin()).collect();
        let mut error = NormalisedError::new(d, n, p);
        error.lengths_mut().iter_mut().enumerate().for_each(|(j, r)| *r = 1.0 + 0.5 * (j as f64).cos());
        let mut gradient = columns.clone();
        let size = error.ln_error(loss, &mut gradient).abs().max(1.0);
        for k in 0..n * p {
            let mut at = |by: f64| {
                let mut moved = columns.clone();
                moved[k] += by;
                error.ln_error(loss, &mut moved)
            };
            let step = 2e-5;
            let expected =
                (8.0 * (at(step) - at(-step)) - (at(2.0 * step) - at(-2.0 * step))) / (12.0 * step);
            let off = (gradient[k] - expected).abs();
            assert!(
                off < 1e-6 * expected.abs() + 1e-8 * size,
                "{d:?} {loss:?} {k}: {} {expected}",
                gradient[k]
            );
        }
    }

    #[test]
    fn a_diagonal_that_is_not_positive_is_outside() {
        let mut error = NormalisedError::new(&InverseBands::Difference, 2, 1);
        let loss = RowLoss::first(&Objective::Rms, 2);
        assert_eq!(error.ln_error(&loss, &mut [1.0, 0.0]), f64::INFINITY);
        assert_eq!(error.ln_error(&loss, &mut [1.0, f64::NAN]), f64::INFINITY);
        assert!(error.rows(&[-1.0, 1.0]).is_none());
    }
}
