//! Errors and sensitivities of Toeplitz strategies on Toeplitz workloads with their gradients by hand, O(n·p)
//! each way.

use super::Target;
use crate::error::{Result, StrategyError};
use crate::loss::Objective;
use crate::toeplitz::spaced_sum;
use crate::workload::Workload;

/// What stays the same through a search: the weights of b_i² in the error, and the workload's column.
pub(super) struct Setting<'a> {
    pub target: &'a Target,
    /// Σ_{t≥i} w_t: row t of a Toeplitz decoder holds b_0…b_t.
    weights: Vec<f64>,
    /// The first column of A; none for prefix sums, where sums take its place.
    pub column: Option<Vec<f64>>,
}

impl<'a> Setting<'a> {
    /// # Errors
    /// [`StrategyError::NotOptimisable`] for a workload that is not Toeplitz.
    pub fn new(mechanism: &'static str, target: &'a Target) -> Result<Self> {
        let n = crate::error::series_length(target.iterations)?;
        if !target.workload.is_toeplitz() {
            let why = format!("the workload {} is not Toeplitz", target.workload.name());
            return Err(StrategyError::NotOptimisable { mechanism, why });
        }
        let column = match target.workload {
            Workload::Prefix => None,
            _ => target.workload.column(n),
        };
        Ok(Self { target, weights: series_weights(&target.objective, n), column })
    }

    /// Σ_t w_t·e_t² of a decoder b, with its gradient in b.
    pub fn error_squared(&self, b: &[f64]) -> (f64, Vec<f64>) {
        let sum = b.iter().zip(&self.weights).map(|(b, w)| w * b * b).sum();
        (sum, b.iter().zip(&self.weights).map(|(b, w)| 2.0 * w * b).collect())
    }

    /// The decoder's column A·(C⁻¹) from that of C⁻¹ with n entries, and the adjoint of the same map.
    pub fn decoded(&self, inverse: &[f64]) -> Vec<f64> {
        crate::workload::decode(&self.target.workload, inverse).unwrap_or_default()
    }

    /// Σ_i w_{i−j} g_i: the adjoint of [`Self::decoded`] for its first `count` entries.
    pub fn decoded_adjoint(&self, mut g: Vec<f64>, count: usize) -> Vec<f64> {
        match &self.column {
            None => {
                for i in (1..g.len()).rev() {
                    g[i - 1] += g[i];
                }
                g.truncate(count);
                g
            }
            Some(column) => correlate(&g, column, count),
        }
    }
}

/// The weight of b_i² in the error of a Toeplitz decoder: that of all rows from i on. The last row is the worst.
fn series_weights(objective: &Objective, n: usize) -> Vec<f64> {
    match objective {
        Objective::Rms => (0..n).map(|i| (n - i) as f64 / n as f64).collect(),
        Objective::Max | Objective::Last => vec![1.0; n],
        Objective::Weighted(_) => {
            let mut weights = objective.weights(n).unwrap_or_default();
            for i in (1..n).rev() {
                weights[i - 1] += weights[i];
            }
            weights
        }
    }
}

/// ‖C u‖² for participations at 0, b, 2b, …, with its gradient in c.
pub(super) fn spaced(c: &[f64], target: &Target) -> (f64, Vec<f64>) {
    let n = target.iterations;
    let count = target.participation.in_rounds(n) as usize;
    let gap = target.participation.min_sep.min(n) as usize;
    let u = spaced_sum(c, n as usize, gap, count);
    let mut gradient = vec![0.0; c.len()];
    for j in 0..count {
        gradient.iter_mut().zip(u.iter().skip(j * gap)).for_each(|(g, u)| *g += 2.0 * u);
    }
    (u.iter().map(|u| u * u).sum(), gradient)
}

/// The adjoint of x = y/c(x): solves the transposed system, λ_i = (g_i − Σ_{1≤j<p} c_j λ_{i+j})/c_0.
pub(super) fn transposed_solve(c: &[f64], g: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; g.len()];
    for i in (0..g.len()).rev() {
        let reach = (c.len() - 1).min(g.len() - 1 - i);
        let later: f64 = c[1..=reach].iter().zip(&out[i + 1..]).map(|(c, x)| c * x).sum();
        out[i] = (g[i] - later) / c[0];
    }
    out
}

/// Σ_i λ_i x_{i−j} for j < count.
pub(super) fn correlate(lambda: &[f64], x: &[f64], count: usize) -> Vec<f64> {
    (0..count).map(|j| lambda.iter().skip(j).zip(x).map(|(l, x)| l * x).sum()).collect()
}
