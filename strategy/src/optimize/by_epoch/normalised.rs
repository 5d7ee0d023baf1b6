//! ln(loss) of a Toeplitz strategy whose columns are normalised and scaled, one column of the decoder at a time; O(n²).
//!
//! With ρ_t = ν_t/s_t, ν_t the norm of column t within n rounds, C⁻¹ = diag(ρ)·T⁻¹. Columns of one user cannot overlap, so
//! sens(C)² = Σ_{e<k} s_e².

use super::problem::{Problem, by_free, values};
use crate::numeric::dot;
use crate::optimize::band_toeplitz::{column, pull};
use crate::series::{convolve_at, prefix_sums};

/// The setting, for so many bands.
pub(super) struct Normalised<'a> {
    problem: &'a Problem,
    bands: usize,
}

impl<'a> Normalised<'a> {
    pub fn new(problem: &'a Problem, bands: usize) -> Self {
        Self { problem, bands }
    }

    /// ln(loss) with its gradient by the ratios of coefficients and those of scales.
    pub fn ln_loss(&self, x: &[f64], gradient: &mut [f64]) -> f64 {
        let Problem { n, gap, .. } = *self.problem;
        let (x, ratios) = x.split_at(self.bands - 1);
        let c = column(x);
        let scales = values(ratios);
        let squares = prefix_sums(&c.iter().map(|c| c * c).collect::<Vec<_>>());
        let square_of = |t: usize| squares[(n - t).min(c.len()) - 1];
        let stretch = |t: usize| (t / gap).min(scales.len() - 1);
        let rho: Vec<f64> = (0..n).map(|t| square_of(t).sqrt() / scales[stretch(t)]).collect();
        let Decoder { square, by_rho, by_inverse, inverse } = Decoder::new(&c, &rho);
        let sensitivity = dot(&scales, &scales);
        // By ln ρ_t, of half the logarithm of the squared error: what scales and norms have of it.
        let mut by_ln_scales: Vec<f64> = scales.iter().map(|s| s * s / sensitivity).collect();
        let mut by_square = vec![0.0; c.len()];
        for t in 0..n {
            let by_ln = 0.5 * by_rho[t] * rho[t] / square;
            by_ln_scales[stretch(t)] -= by_ln;
            by_square[(n - t).min(c.len()) - 1] += 0.5 * by_ln / square_of(t);
        }
        // Column i of T is in every norm of more than i entries.
        let mut by: Vec<f64> =
            by_through_inverse(&c, &inverse, &by_inverse).iter().map(|by| 0.5 * by / square).collect();
        let mut later = 0.0;
        for i in (0..c.len()).rev() {
            later += by_square[i];
            by[i] += 2.0 * c[i] * later;
        }
        let (by_x, by_ratios) = gradient.split_at_mut(self.bands - 1);
        pull(x, &c, &by, by_x);
        by_free(ratios, &by_ln_scales, by_ratios);
        0.5 * (square / n as f64 * sensitivity).ln()
    }
}

/// Σ_tj B_tj² of B = A·diag(ρ)·T⁻¹ with its derivatives by ρ and by the column of T⁻¹.
struct Decoder {
    square: f64,
    by_rho: Vec<f64>,
    by_inverse: Vec<f64>,
    inverse: Vec<f64>,
}

impl Decoder {
    fn new(c: &[f64], rho: &[f64]) -> Self {
        let n = rho.len();
        let mut inverse: Vec<f64> = Vec::with_capacity(n);
        for t in 0..n {
            let impulse = if t == 0 { 1.0 } else { 0.0 };
            inverse.push((impulse - convolve_at(c, &inverse, t)) / c[0]);
        }
        let mut square = 0.0;
        let mut by_rho = vec![0.0; n];
        let mut by_inverse = vec![0.0; n];
        let mut sums = vec![0.0; n];
        for j in 0..n {
            let rho = &rho[j..];
            let sums = &mut sums[..n - j];
            let mut sum = 0.0;
            for ((to, rho), x) in sums.iter_mut().zip(rho).zip(&inverse) {
                sum += rho * x;
                *to = sum;
            }
            square += dot(sums, sums);
            let mut later = 0.0;
            for i in (0..n - j).rev() {
                later += 2.0 * sums[i];
                by_rho[j + i] += later * inverse[i];
                by_inverse[i] += later * rho[i];
            }
        }
        Self { square, by_rho, by_inverse, inverse }
    }
}

/// From derivatives by x, where C·x = (1, 0, …), to those by c: −Σ_i λ_i·x_{i−j} with Cᵀλ the former.
fn by_through_inverse(c: &[f64], inverse: &[f64], by: &[f64]) -> Vec<f64> {
    let lambda = crate::decoder::transposed_solve(c, by);
    (0..c.len()).map(|j| -dot(&lambda[j..], inverse)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::optimize::{Objective, Target};
    use crate::participation::Participation;
    use crate::scaled::{Base, Scaled};
    use crate::strategy::Strategy;

    #[test]
    fn gradients_are_central_differences_and_values_the_strategies() {
        for (n, gap, count) in [(23, 6, 4), (18, 6, 3), (30, 5, 3)] {
            let target = Target::new(n, Participation::new(gap, count).unwrap(), Objective::Rms);
            let problem = Problem::new("band-toeplitz", &target).unwrap().unwrap();
            let bands = 5;
            let mut x = vec![-0.5, 0.3, 0.9, 0.2];
            x.extend((1..count).map(|e| 2.0 - 0.4 * e as f64));
            let normalised = Normalised::new(&problem, bands);
            let mut gradient = vec![0.0; x.len()];
            let value = normalised.ln_loss(&x, &mut gradient);
            let base = Base::BandToeplitz { c: column(&x[..4]), column_normalised: true };
            let scaled = Scaled::new(base, problem.scales(&x[4..]).unwrap()).unwrap();
            let known = target.loss(&Strategy::Scaled(scaled)).unwrap();
            assert!((value.exp() / known - 1.0).abs() < 1e-11, "{n}: {} {known}", value.exp());
            for (i, gradient) in gradient.iter().enumerate() {
                let at = |by: f64| {
                    let mut moved = x.clone();
                    moved[i] += by;
                    normalised.ln_loss(&moved, &mut vec![0.0; x.len()])
                };
                let expected = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((gradient - expected).abs() < 1e-8, "{n} {i}: {gradient} {expected}");
            }
        }
    }
}
