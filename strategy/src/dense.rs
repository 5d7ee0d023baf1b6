//! Dense lower triangular strategies for small n.

use ndarray::{Array2, Axis, Slice};

use crate::error::{Result, invalid};
use crate::participation::{Errors, Participation, Sensitivity};
use crate::sensitivity::{gram::Gram, worst};

/// Most rounds of a dense strategy: its matrix and its Gram matrix then take 256 MiB.
pub const MAX_DENSE: usize = 4096;

/// A lower triangular n×n strategy with a positive diagonal.
#[derive(Debug, Clone, PartialEq)]
pub struct Dense {
    c: Array2<f64>,
}

impl Dense {
    /// Returns a dense strategy from its matrix.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for a matrix that is empty, not square, larger than [`MAX_DENSE`],
    /// not lower triangular, not finite, or with a diagonal entry that is not positive.
    pub fn new(c: Array2<f64>) -> Result<Self> {
        let (rows, columns) = c.dim();
        if rows != columns || rows == 0 || rows > MAX_DENSE {
            return Err(invalid(
                "shape of C",
                format!("({rows}, {columns})"),
                format!("(n, n) with 1 ≤ n ≤ {MAX_DENSE}"),
            ));
        }
        for ((i, j), value) in c.indexed_iter() {
            if !value.is_finite() || (j > i && *value != 0.0) || (i == j && *value <= 0.0) {
                return Err(invalid(
                    "entry of C",
                    format!("{value} at ({i}, {j})"),
                    "finite, zero above the diagonal, above zero on it",
                ));
            }
        }
        Ok(Self { c })
    }

    /// Returns the matrix C, shape (n, n).
    #[must_use]
    pub fn matrix(&self) -> &Array2<f64> {
        &self.c
    }

    /// Returns the number of rounds n the matrix was made for.
    #[must_use]
    pub fn iterations(&self) -> usize {
        self.c.nrows()
    }

    /// Returns C⁻¹, shape (n, n), lower triangular; O(n³).
    #[must_use]
    pub fn inverse(&self) -> Array2<f64> {
        let n = self.iterations();
        let mut out = Array2::zeros((n, n));
        for t in 0..n {
            for (j, value) in self.inverse_row(t).into_iter().enumerate() {
                out[[t, j]] = value;
            }
        }
        out
    }

    /// Refuses more rounds than the matrix has; fewer use its leading block.
    pub(crate) fn rounds(&self, n: u64) -> Result<usize> {
        let most = self.iterations();
        usize::try_from(n)
            .ok()
            .filter(|n| (1..=most).contains(n))
            .ok_or_else(|| invalid("iterations", n, format!("1 to {most}, the rows of this matrix")))
    }

    /// Returns sens(C) per unit clip norm over the first `n` rounds, for participations with j − i ≥ `min_sep`.
    ///
    /// The worst pattern is searched, O(n³ + n²k) and more for small n; flagged exact where a contribution
    /// attains the bound found.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for an unusable rule or more rounds than the matrix has.
    pub fn sensitivity(&self, n: u64, rule: Participation) -> Result<Sensitivity> {
        rule.check()?;
        let rounds = self.rounds(n)?;
        let leading = self.c.slice_axis(Axis(0), Slice::from(..rounds));
        let leading = leading.slice_axis(Axis(1), Slice::from(..rounds));
        let gram = leading.t().dot(&leading);
        Ok(worst(&Gram::dense(gram.view()), rounds, rule, false)?.sensitivity())
    }

    /// Returns the prefix-sum errors over the first `n` rounds in units of σζ; O(n³).
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for more rounds than the matrix has.
    pub fn errors(&self, n: u64) -> Result<Errors> {
        let rounds = self.rounds(n)?;
        let mut row = vec![0.0; rounds];
        let mut total = 0.0;
        let mut max = 0.0_f64;
        let mut last = 0.0;
        for t in 0..rounds {
            // Row t of B = A·C⁻¹ is the sum of the rows of C⁻¹ up to t.
            row.iter_mut().zip(self.inverse_row(t)).for_each(|(b, x)| *b += x);
            last = row.iter().map(|b| b * b).sum();
            total += last;
            max = max.max(last);
        }
        Ok(Errors { rms: (total / rounds as f64).sqrt(), max: max.sqrt(), last: f64::sqrt(last) })
    }

    /// Row `t` of C⁻¹, t+1 numbers; O(t²).
    pub(crate) fn inverse_row(&self, t: usize) -> Vec<f64> {
        solve_row(t, self.iterations(), |i, j| self.c[[i, j]])
    }
}

/// Row `t` of the inverse of a lower triangular matrix with `bands` diagonals, by back substitution in
/// x·C = e_t. O(t·bands).
pub(crate) fn solve_row(t: usize, bands: usize, entry: impl Fn(usize, usize) -> f64) -> Vec<f64> {
    let mut x = vec![0.0; t + 1];
    for j in (0..=t).rev() {
        let unit = if j == t { 1.0 } else { 0.0 };
        let later: f64 = (j + 1..=t.min(j + bands - 1)).map(|i| x[i] * entry(i, j)).sum();
        x[j] = (unit - later) / entry(j, j);
    }
    x
}
