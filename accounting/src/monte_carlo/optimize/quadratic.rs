//! Σ H∘G of a Toeplitz C as a function of its first column c, with its gradient in O(n·b).
//!
//! With s the column summed over the epochs, m_i is s moved down by i, so that G[i, i+d] = Σ_{u<n−i−d} s_u·s_{u+d}: only
//! the sum of H along diagonal d matters, except in the last b rounds, where the later batches have no share.

use ndarray::Array2;

use super::super::gram::epochs_summed;

/// H, one diagonal after the other.
pub(super) struct Quadratic {
    n: usize,
    b: usize,
    /// The prefix sums of each diagonal d, doubled off the main one, as H has both sides.
    diagonals: Vec<Vec<f64>>,
}

impl Quadratic {
    /// Prepares a symmetric H for `n` rounds.
    pub fn new(h: &Array2<f64>, n: u64) -> Self {
        let b = h.nrows();
        let diagonal = |d: usize| {
            let sides = if d == 0 { 1.0 } else { 2.0 };
            let mut sums: Vec<f64> = (d..b).map(|k| sides * h[[k - d, k]]).collect();
            (1..sums.len()).for_each(|i| sums[i] += sums[i - 1]);
            sums
        };
        Self { n: n as usize, b, diagonals: (0..b).map(diagonal).collect() }
    }

    /// Returns ΣH∘G of the column c, which is as long as there are bands, and writes its derivatives to `by`.
    pub fn value(&self, c: &[f64], by: &mut [f64]) -> f64 {
        let n = self.n;
        let b = self.b;
        let mut column = vec![0.0; n];
        column.iter_mut().zip(c).for_each(|(to, c)| *to = *c);
        let s = epochs_summed(&column, b);
        let mut by_s = vec![0.0; n];
        let mut value = 0.0;
        for (d, sums) in self.diagonals.iter().enumerate() {
            let whole = sums.last().copied().unwrap_or_default();
            let full = n + 1 - b;
            let mut products = 0.0;
            for ((u, s_u), s_d) in s.iter().enumerate().take(full).zip(&s[d..]) {
                products += s_u * s_d;
                by_s[u] += whole * s_d;
            }
            by_s[d..d + full].iter_mut().zip(&s).for_each(|(by, s)| *by += whole * s);
            value += whole * products;
            // Batch k has no round left for u ≥ n − k.
            for u in full..n - d {
                let weight = sums[n - 1 - u - d];
                value += weight * s[u] * s[u + d];
                by_s[u] += weight * s[u + d];
                by_s[u + d] += weight * s[u];
            }
        }
        for u in (b..n).rev() {
            by_s[u - b] += by_s[u];
        }
        by.iter_mut().zip(by_s).for_each(|(to, by)| *to = by);
        value
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::gram::toeplitz_gram;
    use super::*;

    #[test]
    fn is_the_sum_over_the_gram_matrix() {
        let n = 20;
        let b = 5;
        let h = Array2::from_shape_fn((b, b), |(i, j)| 1.0 / (1.0 + (i * j) as f64) + 0.1 * (i + j) as f64);
        let quadratic = Quadratic::new(&h, n as u64);
        for bands in [3, 20] {
            let c: Vec<f64> = (0..bands).map(|i| 1.0 / (1.0 + i as f64)).collect();
            let direct = |c: &[f64]| {
                let mut column = vec![0.0; n];
                column[..bands].copy_from_slice(c);
                (toeplitz_gram(&column, b).unwrap() * &h).sum()
            };
            let mut by = vec![0.0; bands];
            assert!((quadratic.value(&c, &mut by) - direct(&c)).abs() < 1e-12);
            for (k, by) in by.iter().enumerate() {
                let moved = |step: f64| {
                    let mut c = c.clone();
                    c[k] += step;
                    direct(&c)
                };
                let difference = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                assert!((by - difference).abs() < 1e-7 * (1.0 + by.abs()), "{k}: {by} {difference}");
            }
        }
    }
}
