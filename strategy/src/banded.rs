//! General p-banded strategies: n×p free numbers, column j of C holding `columns[[j, i]]` at row j+i.

use ndarray::Array2;

use crate::error::{Result, all_finite, invalid};
use crate::participation::{Errors, Participation, Sensitivity};
use crate::patterns::{MAX_TABLE, worst_pattern};
use crate::sensitivity::{gram::Gram, worst};

/// A lower triangular matrix with p bands, C[j+i, j] = columns[[j, i]]; entries below row n−1 are ignored.
#[derive(Debug, Clone, PartialEq)]
pub struct Banded {
    columns: Array2<f64>,
}

impl Banded {
    /// Returns a banded strategy from its columns, shape (n, p).
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for an empty array, more bands than rounds, a number that is not
    /// finite or a diagonal entry (column 0 of the array) that is not positive.
    pub fn new(columns: Array2<f64>) -> Result<Self> {
        let (n, p) = columns.dim();
        if n == 0 || p == 0 || p > n {
            return Err(invalid("shape of columns", format!("({n}, {p})"), "(n, p) with 1 ≤ p ≤ n"));
        }
        let columns = columns.as_standard_layout().into_owned();
        all_finite("column entry", columns.as_slice().unwrap_or_default())?;
        if let Some(d) = columns.column(0).iter().find(|d| **d <= 0.0) {
            return Err(invalid("diagonal entry", d, "above zero"));
        }
        Ok(Self { columns })
    }

    /// Returns the columns, shape (n, p).
    #[must_use]
    pub fn columns(&self) -> &Array2<f64> {
        &self.columns
    }

    /// Returns the number of rounds n the matrix was made for.
    #[must_use]
    pub fn iterations(&self) -> usize {
        self.columns.nrows()
    }

    /// Returns the number of bands p.
    #[must_use]
    pub fn bands(&self) -> usize {
        self.columns.ncols()
    }

    /// Returns the same strategy with every column divided by its norm within n rows, so that each has norm one.
    #[must_use]
    pub fn normalised(&self) -> Self {
        let n = self.iterations();
        let mut columns = self.columns.clone();
        for (j, mut column) in columns.rows_mut().into_iter().enumerate() {
            let norm = column.iter().take(n - j).map(|c| c * c).sum::<f64>().sqrt();
            column /= norm;
        }
        Self { columns }
    }

    /// Returns C[row, column].
    #[must_use]
    pub fn entry(&self, row: usize, column: usize) -> f64 {
        match row.checked_sub(column) {
            Some(band) if band < self.bands() => self.columns[[column, band]],
            _ => 0.0,
        }
    }

    /// X[i,j] = (CᵀC)[i,j] within the first `n` rows.
    fn gram(&self, n: usize, i: usize, j: usize) -> f64 {
        let first = i.min(j);
        let last = i.max(j);
        let above = self.column(first, n - first).iter().skip(last - first);
        above.zip(self.column(last, n - last)).map(|(x, y)| x * y).sum()
    }

    /// Column j from its diagonal down, at most `rows` numbers.
    pub(crate) fn column(&self, j: usize, rows: usize) -> &[f64] {
        let p = self.bands();
        let flat = self.columns.as_slice().unwrap_or_default();
        flat.get(j * p..j * p + p.min(rows)).unwrap_or_default()
    }

    /// Refuses more rounds than the matrix has; fewer use its leading block.
    pub(crate) fn rounds(&self, n: u64) -> Result<usize> {
        let most = self.iterations();
        usize::try_from(n)
            .ok()
            .filter(|n| (1..=most).contains(n))
            .ok_or_else(|| invalid("iterations", n, format!("1 to {most}, the rows of this band matrix")))
    }

    /// Returns sens(C) per unit clip norm over the first `n` rounds, for participations with j − i ≥ `min_sep`.
    ///
    /// Exact when p ≤ min_sep (one user's columns do not overlap: dynamic programming over column norms);
    /// otherwise the worst pattern is searched, and exact where a contribution attains the bound found.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for an unusable rule, too many rounds, or n·k beyond memory.
    pub fn sensitivity(&self, n: u64, rule: Participation) -> Result<Sensitivity> {
        rule.check()?;
        let rounds = self.rounds(n)?;
        let count = rule.in_rounds(n) as usize;
        if (count + 1).saturating_mul(rounds + 1) > MAX_TABLE {
            return Err(invalid(
                "iterations × max_participations",
                rounds * count,
                format!("up to {MAX_TABLE}"),
            ));
        }
        let gap = rule.min_sep.min(n) as usize;
        if self.bands() <= gap || count == 1 {
            let norms: Vec<f64> = (0..rounds).map(|j| self.gram(rounds, j, j)).collect();
            return Ok(Sensitivity::exact_squared(worst_pattern(&norms, gap, count).0));
        }
        let gram = Gram::banded(rounds, self.bands(), gap, |i, j| self.gram(rounds, i, j));
        Ok(worst(&gram, rounds, rule, false)?.sensitivity())
    }

    /// Returns the prefix-sum errors over the first `n` rounds in units of σζ; O(n·p²) time, O(p²) memory.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for more rounds than the matrix has.
    pub fn errors(&self, n: u64) -> Result<Errors> {
        let rounds = self.rounds(n)?;
        let squared = crate::covariance::row_errors(
            self.columns.view(),
            &crate::workload::InverseBands::Difference,
            rounds,
        );
        let total: f64 = squared.iter().sum();
        let max = squared.iter().copied().fold(0.0, f64::max);
        Ok(Errors {
            rms: (total / rounds as f64).sqrt(),
            max: max.sqrt(),
            last: squared.last().copied().unwrap_or_default().sqrt(),
        })
    }

    /// Row `t` of C⁻¹, t+1 numbers, by back substitution in O(t·p).
    pub(crate) fn inverse_row(&self, t: usize) -> Vec<f64> {
        crate::dense::solve_row(t, self.bands(), |i, j| self.entry(i, j))
    }
}
