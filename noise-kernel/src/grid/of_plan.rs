//! The mechanism of a plan on a grid.

use super::family::{GridBandRows, GridBanded, GridDeviations, GridFamily, GridInverse};
use super::mechanism::GridMechanism;
use crate::KernelError;
use plan::GridCoefficients;

impl GridMechanism {
    /// Returns the mechanism of a plan's coefficients, number for number: the account is of the same ones.
    ///
    /// # Errors
    /// Those of [`GridMechanism::new`].
    pub fn of_plan(coefficients: &GridCoefficients, iterations: u64) -> Result<Self, KernelError> {
        let every = |scale: &f64| GridDeviations::Every(*scale);
        match coefficients {
            GridCoefficients::Identity { scale } => Self::new(GridFamily::Identity, every(scale), iterations),
            GridCoefficients::Blt { scale, theta, omega } => {
                let family = GridFamily::Blt { theta: theta.clone(), omega: omega.clone() };
                Self::new(family, every(scale), iterations)
            }
            GridCoefficients::Banded(banded) => {
                let (rows, deviations) = match &banded.rows {
                    plan::grid::GridBandRows::Toeplitz { lags, scale } => {
                        (GridBandRows::Toeplitz(lags.clone()), every(scale))
                    }
                    plan::grid::GridBandRows::PerRow { lags, scales } => {
                        (GridBandRows::PerRow(lags.clone()), GridDeviations::PerRow(scales.clone()))
                    }
                };
                let family = GridFamily::Banded(GridBanded { bands: banded.bands, rows });
                Self::new(family, deviations, iterations)
            }
            GridCoefficients::Inverse { scale, rows } => {
                let rows = match rows {
                    plan::grid::GridInverse::Toeplitz { coefficients } => {
                        GridInverse::Toeplitz(coefficients.clone())
                    }
                    plan::grid::GridInverse::Dense { rows } => GridInverse::Dense(rows.clone()),
                };
                Self::new(GridFamily::Inverse(rows), every(scale), iterations)
            }
            GridCoefficients::Tree { scale, tree } => {
                Self::new(GridFamily::Tree(tree.clone()), every(scale), iterations)
            }
        }
    }
}
