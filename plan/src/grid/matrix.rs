//! The matrix that rows on the grid apply, in `f64`: C_tj = C′_tj·s/s_t of the numbers that run.

use ndarray::Array2;
use strategy::{Banded, Blt, Dense, Strategy};

use super::coefficients::{GridBandRows, GridBanded, GridCoefficients, GridInverse};
use crate::PlanError;
use crate::conversion::{inverted, refused};

/// Returns the strategy of `n` rows that runs with `coefficients`; `nominal` is that of the plan.
pub(super) fn matrix(
    coefficients: &GridCoefficients,
    nominal: &Strategy,
    n: u64,
    scale: f64,
) -> Result<Strategy, PlanError> {
    let strategy = match coefficients {
        GridCoefficients::Identity { .. } => Strategy::Identity,
        GridCoefficients::Tree { .. } => nominal.clone(),
        GridCoefficients::Blt { theta, omega, .. } => {
            Strategy::Blt(Blt::new(theta.clone(), omega.clone()).map_err(refused)?)
        }
        GridCoefficients::Banded(banded) => self::banded(banded, n, scale)?,
        GridCoefficients::Inverse { rows: GridInverse::Toeplitz { coefficients }, .. } => {
            Strategy::BandInverse { s: coefficients.clone() }
        }
        GridCoefficients::Inverse { rows: GridInverse::Dense { rows }, .. } => {
            Strategy::Dense(Dense::new(inverted(rows, n as usize)).map_err(refused)?)
        }
    };
    strategy.validate().map_err(refused)?;
    Ok(strategy)
}

fn banded(banded: &GridBanded, n: u64, scale: f64) -> Result<Strategy, PlanError> {
    let p = banded.bands;
    match &banded.rows {
        GridBandRows::Toeplitz { lags, scale: row_scale } => {
            let diagonal = scale / row_scale;
            let c = std::iter::once(diagonal).chain(lags.iter().map(|lag| lag * diagonal)).collect();
            Ok(Strategy::BandToeplitz { c, column_normalised: false })
        }
        GridBandRows::PerRow { scales, .. } => {
            let n = n as usize;
            let entry = |j: usize, i: usize| match (j + i, i) {
                (t, _) if t >= n => 0.0,
                (t, 0) => scale / scales[t],
                (t, i) => banded.lags(t)[i - 1] * (scale / scales[t]),
            };
            let columns = Array2::from_shape_fn((n, p), |(j, i)| entry(j, i));
            Ok(Strategy::BandMf(Banded::new(columns).map_err(refused)?))
        }
    }
}
