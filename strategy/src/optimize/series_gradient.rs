//! ln(loss) of Toeplitz strategies and its gradient by hand, O(n·p) each way.

use super::{Objective, Target};
use crate::toeplitz::spaced_sum;

/// The sum Σ w_i b_i² that is n·RmsError² or MaxError², with its gradient in b.
pub(super) fn error_squared(b: &[f64], objective: Objective) -> (f64, Vec<f64>) {
    let n = b.len();
    let weight = |i: usize| match objective {
        Objective::Rms => (n - i) as f64 / n as f64,
        Objective::Max => 1.0,
    };
    let sum = b.iter().enumerate().map(|(i, b)| weight(i) * b * b).sum();
    (sum, b.iter().enumerate().map(|(i, b)| 2.0 * weight(i) * b).collect())
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
