//! From a mechanism to the numbers that run on the grid: the one place where they are rounded.
//!
//! The account is of the numbers as they come out of here, so no rounding here is an error of it.

use super::coefficients::{GridBandRows, GridBanded, GridCoefficients, GridInverse};
use crate::error::require;
use crate::{Mechanism, PlanError, round, series};

/// Rows of 32 bits times Σ|lags|·2^q stay within the 53 bits of a binary64.
const SUM_BITS: i32 = 22;

/// Fewest fraction bits of lags: with fewer, C would no longer be the optimized one.
const LEAST_FRACTION_BITS: i32 = 12;

/// Most fraction bits, for lags that are all small; more gain nothing.
const MOST_FRACTION_BITS: i32 = 40;

/// Most lags of a mechanism with lags for each row.
const MAX_LAGS: u64 = 1 << 26;

/// The coefficients of a mechanism that has been checked for `n` rows; `scale` is s.
pub(super) fn coefficients(mechanism: &Mechanism, n: u64, scale: f64) -> Result<GridCoefficients, PlanError> {
    let inverse =
        |coefficients| GridCoefficients::Inverse { scale, rows: GridInverse::Toeplitz { coefficients } };
    Ok(match mechanism {
        Mechanism::Identity => GridCoefficients::Identity { scale },
        Mechanism::Tree { restarts, completion } => {
            GridCoefficients::Tree { scale, tree: round::tree(restarts, *completion, n) }
        }
        Mechanism::Blt { theta, omega } => {
            GridCoefficients::Blt { scale, theta: theta.clone(), omega: omega.clone() }
        }
        Mechanism::BandToeplitz { coefficients, column_normalised: false } => toeplitz(coefficients, scale)?,
        Mechanism::BandToeplitz { coefficients, column_normalised: true } => {
            normalised(coefficients, n, scale)?
        }
        Mechanism::BandSqrt { bands } => toeplitz(&series::square_root(*bands as usize), scale)?,
        Mechanism::BandMf { columns } => {
            let p = columns[0].len();
            per_row(p, n, scale, |t, i| columns[t - i][i])?
        }
        Mechanism::BandInverse { coefficients } => inverse(coefficients.clone()),
        Mechanism::BandInverseSqrt { bands } => inverse(series::inverse_square_root(*bands as usize)),
        Mechanism::LambdaCgd { lambda } => inverse(vec![1.0, -lambda]),
        Mechanism::Dense { matrix } => GridCoefficients::Inverse {
            scale,
            rows: GridInverse::Dense { rows: round::inverse_rows(matrix).concat() },
        },
        Mechanism::Scaled { base, column_scales, rounds_per_scale } => match &**base {
            Mechanism::BandToeplitz { coefficients: c, column_normalised } => {
                let last = column_scales.len() - 1;
                let scale_of = |j: usize| column_scales[((j as u64 / rounds_per_scale) as usize).min(last)];
                let prefix = round::sums_of_squares(c);
                let norm = |j: usize| prefix[(n as usize - j).min(c.len()) - 1].sqrt();
                let divisor = |j: usize| if *column_normalised { norm(j) } else { 1.0 };
                per_row(c.len(), n, scale, |t, i| c[i] * scale_of(t - i) / divisor(t - i))?
            }
            other => {
                return Err(PlanError::field(
                    "mechanism.column_scales",
                    format!("given for {} on a grid", other.name()),
                    "scales where mechanism.name is band-toeplitz, or rows of floating-point numbers",
                ));
            }
        },
    })
}

fn toeplitz(c: &[f64], scale: f64) -> Result<GridCoefficients, PlanError> {
    let mut lags: Vec<f64> = c[1..].iter().map(|lag| lag / c[0]).collect();
    let fraction_bits = to_dyadic(&mut lags, c.len() - 1)?;
    let rows = GridBandRows::Toeplitz { lags, scale: scale / c[0] };
    Ok(GridCoefficients::Banded(GridBanded { bands: c.len(), fraction_bits, rows }))
}

/// C\[t, j\] = c_{t−j}/‖column j‖, whose short last columns have norms of their own.
fn normalised(c: &[f64], n: u64, scale: f64) -> Result<GridCoefficients, PlanError> {
    let prefix = round::sums_of_squares(c);
    let norm = |j: usize| prefix[(n as usize - j).min(c.len()) - 1].sqrt();
    per_row(c.len(), n, scale, |t, i| c[i] / norm(t - i))
}

/// `entry(t, i)` is C\[t, t−i\].
fn per_row(
    bands: usize,
    n: u64,
    scale: f64,
    entry: impl Fn(usize, usize) -> f64,
) -> Result<GridCoefficients, PlanError> {
    let p = bands - 1;
    let numbers = n.saturating_mul(p as u64);
    let allowed = format!(
        "up to {MAX_LAGS} on a grid where rows differ; band-toeplitz without column_normalised has no limit"
    );
    require(numbers <= MAX_LAGS, "iterations × (bands − 1)", numbers, allowed)?;
    let mut lags = Vec::with_capacity(numbers as usize);
    let mut scales = Vec::with_capacity(n as usize);
    for t in 0..n as usize {
        let diagonal = entry(t, 0);
        scales.push(scale / diagonal);
        lags.extend((1..bands).map(|i| if i > t { 0.0 } else { entry(t, i) / diagonal }));
    }
    let fraction_bits = to_dyadic(&mut lags, p)?;
    let rows = GridBandRows::PerRow { lags, scales };
    Ok(GridCoefficients::Banded(GridBanded { bands, fraction_bits, rows }))
}

/// Rounds lags to integers times 2^−q, and returns the largest q with which sums are exact. `width` lags are a row.
fn to_dyadic(lags: &mut [f64], width: usize) -> Result<i32, PlanError> {
    let largest = |lags: &[f64]| {
        let rows = lags.chunks(width.max(1)).map(|row| row.iter().map(|lag| lag.abs()).sum());
        rows.fold(0.0, f64::max)
    };
    let sum = largest(lags);
    if sum == 0.0 {
        return Ok(0);
    }
    let mut bits = (SUM_BITS - sum.log2().ceil() as i32).min(MOST_FRACTION_BITS);
    loop {
        let allowed = "so small beside the diagonal that 12 fraction bits are left on the grid; fewer bands, or smaller \
                       coefficients after the first";
        let value = format!("of sum {sum:.3} in a row, which leaves {bits} fraction bits");
        require(bits >= LEAST_FRACTION_BITS, "mechanism", value, allowed)?;
        let unit = f64::from(bits).exp2();
        let rounded: Vec<f64> = lags.iter().map(|lag| (lag * unit).round_ties_even() / unit).collect();
        if largest(&rounded) * unit <= f64::from(SUM_BITS).exp2() {
            lags.copy_from_slice(&rounded);
            return Ok(bits);
        }
        bits -= 1;
    }
}
