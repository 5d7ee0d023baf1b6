//! Rows and columns of C and C⁻¹ of a [`Strategy`].

use super::Strategy;
use crate::column_normalised;
use crate::error::{Result, StrategyError, invalid, series_length};
use crate::series::invert;

impl Strategy {
    /// Returns the first `count` coefficients of a Toeplitz C.
    ///
    /// # Errors
    /// [`StrategyError::NotToeplitz`] or [`StrategyError::NoMatrix`] where one column does not describe it;
    /// [`StrategyError::Invalid`] for unusable parameters or count.
    pub fn c_column(&self, count: u64) -> Result<Vec<f64>> {
        self.require_toeplitz()?;
        let length = series_length(count)?;
        match self {
            Self::Blt(blt) => Ok(blt.coefficients(length)),
            _ => match self.inverse_bands(count)? {
                Some(s) => invert(&s, length),
                None => Ok(padded(self.bands(count)?, length)),
            },
        }
    }

    /// Returns the first `count` coefficients of a Toeplitz C⁻¹.
    ///
    /// # Errors
    /// Fails as [`Self::c_column`] does.
    pub fn c_inverse_column(&self, count: u64) -> Result<Vec<f64>> {
        self.require_toeplitz()?;
        let length = series_length(count)?;
        match self {
            Self::Blt(blt) => Ok(blt.inverse_coefficients(length)),
            _ => match self.inverse_bands(count)? {
                Some(s) => Ok(padded(s, length)),
                None => invert(&self.bands(count)?, length),
            },
        }
    }

    /// Returns row `t` of C in a run of `n` rounds: t+1 numbers, columns 0…t.
    ///
    /// # Errors
    /// [`StrategyError::NoMatrix`] for trees; [`StrategyError::Invalid`] for t ≥ n or unusable parameters.
    pub fn c_row(&self, n: u64, t: u64) -> Result<Vec<f64>> {
        let row = self.check_row(n, t)?;
        match self {
            Self::BandMf(banded) => Ok((0..=row).map(|j| banded.entry(row, j)).collect()),
            Self::Dense(dense) => Ok((0..=row).map(|j| dense.matrix()[[row, j]]).collect()),
            Self::BandToeplitz { c, column_normalised: true } => {
                Ok(column_normalised::row(c, n as usize, row))
            }
            Self::Scaled(scaled) => scaled.row(n as usize, row),
            _ => self.c_column(t + 1).map(reversed),
        }
    }

    /// Returns row `t` of C⁻¹ in a run of `n` rounds: t+1 numbers, the weights of z_0…z_t.
    ///
    /// # Errors
    /// Fails as [`Self::c_row`] does.
    pub fn c_inverse_row(&self, n: u64, t: u64) -> Result<Vec<f64>> {
        let row = self.check_row(n, t)?;
        match self {
            Self::BandMf(banded) => Ok(banded.inverse_row(row)),
            Self::Dense(dense) => Ok(dense.inverse_row(row)),
            Self::BandToeplitz { c, column_normalised: true } => {
                column_normalised::inverse_row(c, n as usize, row)
            }
            Self::Scaled(scaled) => scaled.inverse_row(n as usize, row),
            _ => self.c_inverse_column(t + 1).map(reversed),
        }
    }

    fn require_toeplitz(&self) -> Result<()> {
        self.validate()?;
        match self {
            Self::Tree(_) => Err(StrategyError::NoMatrix { mechanism: self.name() }),
            Self::BandMf(_)
            | Self::Dense(_)
            | Self::Scaled(_)
            | Self::BandToeplitz { column_normalised: true, .. } => {
                Err(StrategyError::NotToeplitz { mechanism: self.name() })
            }
            _ => Ok(()),
        }
    }

    fn check_row(&self, n: u64, t: u64) -> Result<usize> {
        self.validate()?;
        match self {
            Self::Tree(_) => return Err(StrategyError::NoMatrix { mechanism: self.name() }),
            Self::BandMf(banded) => drop(banded.rounds(n)?),
            Self::Dense(dense) => drop(dense.rounds(n)?),
            _ => drop(series_length(n)?),
        }
        if t >= n {
            return Err(invalid("round", t, format!("0 to {}, the rounds of this run", n - 1)));
        }
        Ok(t as usize)
    }
}

fn padded(mut values: Vec<f64>, length: usize) -> Vec<f64> {
    values.resize(length, 0.0);
    values
}

fn reversed(mut values: Vec<f64>) -> Vec<f64> {
    values.reverse();
    values
}
