//! Unknowns of columns in which a search settles in half the steps: the change of C is Y·F, with Y the unknowns.
//!
//! A change δC moves B = A·C⁻¹ by −B·δC·C⁻¹, whose size hardly depends on the lag but grows with the frequency along a row of δC,
//! as C⁻¹ is near a square root of differences. For δC = Y·C that factor is gone. F is C's approximation that costs little: the
//! first numbers of (1−x)^(−½).

use crate::numeric::add;
use crate::series::band_sqrt;

/// Numbers of (1−x)^(−½) that are taken: more save no step (n = 1000, 128 bands), and half as many cost one.
const TAPS: usize = 16;

/// F, lower triangular and Toeplitz with ones on its diagonal.
pub(super) struct ColumnFilter {
    /// F[j+k, j] for k = 1, 2, …
    below: Vec<f64>,
}

impl ColumnFilter {
    /// The filter of columns that are all free.
    pub fn new(bands: usize) -> Self {
        Self { below: band_sqrt(TAPS.min(bands)).split_off(1) }
    }

    /// No filter: F = I.
    pub fn none() -> Self {
        Self { below: Vec::new() }
    }

    /// Y ← Y·F in the band; shape (n, p), entry (j, i) being that of row j + i and column j.
    pub fn apply(&self, columns: &mut [f64], p: usize) {
        // Column j takes those after it, which are still as they were.
        for from in (0..columns.len()).step_by(p) {
            let (own, later) = columns[from..].split_at_mut(p);
            for ((lag, f), other) in (1..).zip(&self.below).zip(later.chunks_exact(p)) {
                add(&mut own[lag..], *f, &other[..p - lag]);
            }
        }
    }

    /// The transpose of [`Self::apply`], for gradients.
    pub fn apply_transposed(&self, gradient: &mut [f64], p: usize) {
        for from in (0..gradient.len()).step_by(p).rev() {
            let (earlier, own) = gradient[..from + p].split_at_mut(from);
            for ((lag, f), other) in (1..).zip(&self.below).zip(earlier.rchunks_exact(p)) {
                add(&mut own[..p - lag], *f, &other[lag..]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_multiplies_by_a_toeplitz_matrix() {
        for (n, p) in [(7, 3), (40, 20), (5, 1), (3, 3)] {
            let given: Vec<f64> = (0..n * p).map(|i| (i as f64).sin()).collect();
            let mut filtered = given.clone();
            ColumnFilter::new(p).apply(&mut filtered, p);
            let f = band_sqrt(TAPS.min(p));
            for j in 0..n {
                for i in 0..p {
                    // (Y·F)[j+i, j] = Σ_k Y[j+i, j+k]·F[j+k, j].
                    let inside = (0..f.len()).filter(|k| *k <= i && j + k < n);
                    let expected: f64 = inside.map(|k| given[(j + k) * p + i - k] * f[k]).sum();
                    assert!((filtered[j * p + i] - expected).abs() < 1e-14, "{n} {p}: {j} {i}");
                }
            }
            let mut none = given.clone();
            ColumnFilter::none().apply(&mut none, p);
            assert_eq!(none, given);
        }
    }

    #[test]
    fn gradients_pass_by_the_transpose() {
        let n = 50;
        let p = 24;
        let x: Vec<f64> = (0..n * p).map(|i| (i as f64).sin()).collect();
        let y: Vec<f64> = (0..n * p).map(|i| (i as f64 * 1.3).cos()).collect();
        let filter = ColumnFilter::new(p);
        let mut forward = x.clone();
        let mut back = y.clone();
        filter.apply(&mut forward, p);
        filter.apply_transposed(&mut back, p);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        assert!((dot(&forward, &y) - dot(&x, &back)).abs() < 1e-10);
    }
}
