//! The Gram matrix X = CᵀC near its diagonal: how far the columns of two participations overlap.

use ndarray::ArrayView2;

/// X[j−d, j] for d < reach; beyond that X is zero. Where `stationary`, X depends on d alone.
pub(crate) struct Gram {
    reach: usize,
    stationary: bool,
    /// Row j holds X[j−d, j] at d; one row alone where stationary.
    data: Vec<f64>,
}

impl Gram {
    /// The Gram matrix of the Toeplitz matrix with first column `c` in `n` rounds; O(n·p).
    pub(crate) fn toeplitz(c: &[f64], n: usize) -> Self {
        let reach = c.len();
        let mut data = vec![0.0; n * reach];
        let mut row = vec![0.0; reach];
        for j in (0..n).rev() {
            // One row of C more than column j+1 had: the product of entries n−1−j and n−1−j+d.
            let last = n - 1 - j;
            if last < reach {
                row.iter_mut().zip(&c[last..]).for_each(|(x, later)| *x += c[last] * later);
            }
            data[j * reach..(j + 1) * reach].copy_from_slice(&row);
        }
        Self { reach, stationary: false, data }
    }

    /// The Gram matrix of a Toeplitz matrix so long that no column is cut: the autocorrelation of `c`; O(p²).
    pub(crate) fn stationary(c: &[f64]) -> Self {
        let mut data = vec![0.0; c.len()];
        for (r, c_r) in c.iter().enumerate() {
            data.iter_mut().zip(&c[r..]).for_each(|(x, later)| *x += c_r * later);
        }
        Self { reach: c.len(), stationary: true, data }
    }

    /// The Gram matrix of columns with `reach` entries each, at distances 0 and from `gap` up alone; `overlap(i, j)` is
    /// X[i, j].
    pub(crate) fn banded(n: usize, reach: usize, gap: usize, overlap: impl Fn(usize, usize) -> f64) -> Self {
        let mut data = vec![0.0; n * reach];
        for j in 0..n {
            let row = &mut data[j * reach..(j + 1) * reach];
            row[0] = overlap(j, j);
            (gap..reach.min(j + 1)).for_each(|d| row[d] = overlap(j - d, j));
        }
        Self { reach, stationary: false, data }
    }

    /// A Gram matrix from the whole X, shape (n, n).
    pub(crate) fn dense(x: ArrayView2<f64>) -> Self {
        let n = x.nrows();
        Self::banded(n, n, 1, |i, j| x[[i, j]])
    }

    /// X with row and column j multiplied by `scale(j)`.
    pub(crate) fn scaled(mut self, scale: impl Fn(usize) -> f64) -> Self {
        for (j, row) in self.data.chunks_mut(self.reach).enumerate() {
            let own = scale(j);
            row.iter_mut().take(j + 1).enumerate().for_each(|(d, x)| *x *= own * scale(j - d));
        }
        self
    }

    /// The distance from which on columns do not overlap.
    pub(crate) fn reach(&self) -> usize {
        self.reach
    }

    pub(crate) fn is_stationary(&self) -> bool {
        self.stationary
    }

    /// X[j−d, j]; zero for d ≥ reach.
    pub(crate) fn back(&self, j: usize, d: usize) -> f64 {
        if d >= self.reach {
            return 0.0;
        }
        let row = if self.stationary { 0 } else { j };
        self.data[row * self.reach + d]
    }

    /// X[i, j] in either order.
    pub(crate) fn at(&self, i: usize, j: usize) -> f64 {
        self.back(i.max(j), i.abs_diff(j))
    }
}
