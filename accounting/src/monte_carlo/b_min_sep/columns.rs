//! The columns of a banded C.

use strategy::{Banded, Strategy, column_normalised};

use crate::error::{Result, invalid};
use crate::monte_carlo::gram::not_negative;

/// The columns of a banded C: column t holds rows t to t + bands − 1, as far as there are rounds.
#[derive(Debug, Clone)]
pub struct Columns {
    entries: Vec<f64>,
    bands: usize,
    rounds: usize,
    /// One column for all rounds.
    is_toeplitz: bool,
}

impl Columns {
    /// Reads the columns of a strategy over `n` rounds.
    ///
    /// # Errors
    /// More bands than `min_sep`, or a negative entry.
    pub fn new(strategy: &Strategy, n: u64, min_sep: u64) -> Result<Self> {
        let rounds = n as usize;
        let columns = match strategy {
            Strategy::BandMf(banded) => {
                // Fewer rounds than the matrix has use its leading block; more are refused here.
                strategy.c_row(n, 0)?;
                Self::of_banded(banded, rounds)
            }
            Strategy::BandToeplitz { c, column_normalised: true } => {
                strategy.validate()?;
                Self::of_banded(&column_normalised::columns(c, n)?, rounds)
            }
            Strategy::Scaled(scaled) => Self::of_banded(&scaled.columns(n)?, rounds),
            Strategy::Dense(dense) => {
                strategy.c_row(n, 0)?;
                let entry = |row: usize, column: usize| dense.matrix()[[row, column]];
                let rows = |column: usize| (column..rounds).rev().find(|row| entry(*row, column) != 0.0);
                let last = |column: usize| rows(column).unwrap_or(column) + 1 - column;
                let bands = (0..rounds).map(last).max().unwrap_or(1);
                Self::of_entries(entry, bands, rounds)
            }
            _ => {
                let mut entries = strategy.c_column(n)?;
                entries.truncate(1 + entries.iter().rposition(|c| *c != 0.0).unwrap_or(0));
                Self { bands: entries.len(), entries, rounds, is_toeplitz: true }
            }
        };
        if columns.bands as u64 > min_sep {
            let allowed = "at most min_sep: columns that a record can take together must not overlap";
            return Err(invalid("bands of C", columns.bands as f64, allowed));
        }
        columns.entries.iter().try_for_each(|c| not_negative(*c).map(drop))?;
        Ok(columns)
    }

    fn of_banded(banded: &Banded, rounds: usize) -> Self {
        Self::of_entries(|row, column| banded.entry(row, column), banded.bands().min(rounds), rounds)
    }

    fn of_entries(entry: impl Fn(usize, usize) -> f64, bands: usize, rounds: usize) -> Self {
        let mut entries = vec![0.0; rounds * bands];
        for (column, entries) in entries.chunks_exact_mut(bands).enumerate() {
            let rows = column..rounds.min(column + bands);
            entries.iter_mut().zip(rows).for_each(|(to, row)| *to = entry(row, column));
        }
        Self { entries, bands, rounds, is_toeplitz: false }
    }

    pub fn rounds(&self) -> usize {
        self.rounds
    }

    fn column(&self, t: usize) -> &[f64] {
        let first = if self.is_toeplitz { 0 } else { t * self.bands };
        &self.entries[first..][..self.bands.min(self.rounds - t)]
    }

    /// Returns |c_t|² of each column.
    pub fn norms(&self) -> Vec<f64> {
        (0..self.rounds).map(|t| self.column(t).iter().map(|c| c * c).sum()).collect()
    }

    /// Computes c_t·y of each column.
    pub fn products(&self, y: &[f64], to: &mut [f64]) {
        if !self.is_toeplitz {
            for (t, to) in to.iter_mut().enumerate() {
                *to = self.column(t).iter().zip(&y[t..]).map(|(c, y)| c * y).sum();
            }
            return;
        }
        to.fill(0.0);
        // Band by band, so that neighbouring rounds are added side by side.
        for (i, c) in self.entries.iter().enumerate() {
            to.iter_mut().zip(&y[i..]).for_each(|(to, y)| *to += c * y);
        }
    }

    /// Computes Σ_t weight_t·c_t over the given rounds.
    pub fn sum(&self, weights: impl Iterator<Item = (usize, f64)>, to: &mut [f64]) {
        to.fill(0.0);
        for (t, weight) in weights {
            to[t..].iter_mut().zip(self.column(t)).for_each(|(to, c)| *to += weight * c);
        }
    }
}
