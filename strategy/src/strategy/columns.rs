//! The columns of any strategy that has a matrix, for schemas that name a user's rounds.

use std::borrow::Cow;
use std::ops::Range;

use ndarray::Array2;

use super::Strategy;
use crate::banded::Banded;
use crate::column_normalised;
use crate::error::{Result, series_length};
use crate::sensitivity::overlaps::Overlaps;

/// The columns of C within n rounds.
pub(crate) struct Columns<'a> {
    n: usize,
    kind: Kind<'a>,
}

enum Kind<'a> {
    Toeplitz(Cow<'a, [f64]>),
    /// Columns of a Toeplitz matrix, each times a factor.
    Scaled {
        c: Cow<'a, [f64]>,
        factors: Vec<f64>,
    },
    Banded(&'a Banded),
    /// Cᵀ, so that a column lies together.
    Dense(Array2<f64>),
}

impl<'a> Columns<'a> {
    /// The columns of any strategy but a tree.
    ///
    /// # Errors
    /// [`crate::StrategyError`] for trees, too many rounds or unusable parameters.
    pub(crate) fn of(strategy: &'a Strategy, n: u64) -> Result<Self> {
        let rounds = series_length(n)?;
        let kind = match strategy {
            Strategy::BandMf(banded) => {
                banded.rounds(n)?;
                Kind::Banded(banded)
            }
            Strategy::Dense(dense) => {
                dense.rounds(n)?;
                Kind::Dense(dense.matrix().t().as_standard_layout().into_owned())
            }
            Strategy::BandToeplitz { c, column_normalised: true } => {
                let norm = column_normalised::norms(c, rounds);
                Kind::Scaled { c: Cow::Borrowed(c), factors: (0..rounds).map(|j| 1.0 / norm(j)).collect() }
            }
            Strategy::Scaled(scaled) => Kind::Scaled {
                c: scaled.column(n)?,
                factors: (0..rounds).map(scaled.factors(rounds)).collect(),
            },
            Strategy::BandToeplitz { c, .. } => Kind::Toeplitz(Cow::Borrowed(&c[..c.len().min(rounds)])),
            Strategy::BandSqrt { .. } | Strategy::Identity => Kind::Toeplitz(strategy.bands(n)?.into()),
            _ => Kind::Toeplitz(strategy.c_column(n)?.into()),
        };
        Ok(Self { n: rounds, kind })
    }

    /// The first column, where C is Toeplitz.
    pub(crate) fn first_of_toeplitz(&self) -> Option<&[f64]> {
        match &self.kind {
            Kind::Toeplitz(c) => Some(c),
            _ => None,
        }
    }

    /// X restricted to ascending `rounds`.
    pub(crate) fn overlaps(&self, rounds: &[usize]) -> Overlaps {
        Overlaps::new(rounds, self.reach(), |i, j| self.overlap(i, j))
    }

    pub(crate) fn reach(&self) -> usize {
        match &self.kind {
            Kind::Toeplitz(c) => c.len(),
            Kind::Scaled { c, .. } => c.len(),
            Kind::Banded(banded) => banded.bands(),
            Kind::Dense(_) => self.n,
        }
    }

    /// X[i, j] for i ≤ j: the product of two columns from row j on.
    fn overlap(&self, i: usize, j: usize) -> f64 {
        self.overlap_within(&(0..self.n), i, j)
    }

    /// The product of columns i ≤ j within `rows` alone.
    pub(crate) fn overlap_within(&self, rows: &Range<usize>, i: usize, j: usize) -> f64 {
        let from = rows.start.max(j);
        let cut = |j: usize| {
            let column = self.column(j);
            let start = from - j;
            let end = rows.end.saturating_sub(j).min(column.len());
            column.get(start..end).unwrap_or_default()
        };
        let product: f64 = cut(i).iter().zip(cut(j)).map(|(x, y)| x * y).sum();
        match &self.kind {
            Kind::Scaled { factors, .. } => product * (factors[i] * factors[j]),
            _ => product,
        }
    }

    /// Column j from its diagonal down to row n−1 or its last band, before any scaling.
    fn column(&self, j: usize) -> &[f64] {
        let rows = self.n - j;
        match &self.kind {
            Kind::Toeplitz(c) => &c[..c.len().min(rows)],
            Kind::Scaled { c, .. } => &c[..c.len().min(rows)],
            Kind::Banded(banded) => banded.column(j, rows),
            Kind::Dense(transposed) => {
                let width = transposed.ncols();
                let flat = transposed.as_slice().unwrap_or_default();
                flat.get(j * width + j..j * width + self.n).unwrap_or_default()
            }
        }
    }
}
