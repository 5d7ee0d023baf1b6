//! How far rows and buffers on the grid go: their standard deviations, in units of s.

use super::coefficients::{GridBandRows, GridBanded, GridCoefficients, GridInverse};
use crate::PlanError;
use crate::error::require;

/// Most products of one recurrence: a second or two.
const MAX_PRODUCTS: u64 = 1 << 31;

/// The rows of Honaker's residual noise: an estimate of a prefix, less the one before. They are no further than this from
/// their node's own noise.
const TREE: f64 = 1.01;

/// Standard deviations in units of s, the largest over all rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Deviations {
    /// Of the rows.
    pub row: f64,
    /// Of a BLT's buffers S_j, in order; empty for others.
    pub buffers: Vec<f64>,
}

/// Computes the deviations of a run of `n` rows; `scale` is s.
pub(super) fn deviations(
    coefficients: &GridCoefficients,
    n: u64,
    scale: f64,
) -> Result<Deviations, PlanError> {
    let row = match coefficients {
        GridCoefficients::Identity { .. } => 1.0,
        GridCoefficients::Tree { .. } => TREE,
        GridCoefficients::Blt { theta, omega, .. } => return blt(theta, omega, n),
        GridCoefficients::Banded(banded) => self::banded(banded, n, scale)?,
        GridCoefficients::Inverse { rows, .. } => inverse(rows),
    };
    Ok(Deviations { row, buffers: Vec::new() })
}

fn affordable(products: u64) -> Result<(), PlanError> {
    let allowed = format!("up to {MAX_PRODUCTS} on a grid, whose rows must be known to fit 32 bits");
    require(products <= MAX_PRODUCTS, "iterations × coefficients of a row", products, allowed)
}

fn banded(banded: &GridBanded, n: u64, scale: f64) -> Result<f64, PlanError> {
    let p = banded.bands - 1;
    match &banded.rows {
        GridBandRows::Toeplitz { lags, scale: row_scale } => {
            affordable(n.saturating_mul(p as u64))?;
            let mut response: Vec<f64> = Vec::with_capacity(n as usize);
            for t in 0..n as usize {
                let before: f64 = lags.iter().zip(response.iter().rev()).map(|(lag, x)| lag * x).sum();
                response.push(if t == 0 { 1.0 } else { -before });
            }
            Ok(response.iter().map(|x| x * x).sum::<f64>().sqrt() * row_scale / scale)
        }
        GridBandRows::PerRow { scales, .. } => {
            affordable(n.saturating_mul(n).saturating_mul(p as u64 + 1) / 2)?;
            let n = n as usize;
            // One column of C⁻¹ at a time: y_t = Σ over impulses j of (response at t)².
            let mut squares = vec![0.0f64; n];
            let mut response = vec![0.0f64; n];
            for (j, own) in scales.iter().enumerate() {
                for t in j..n {
                    let reach = p.min(t - j);
                    let before = &response[t - reach..t];
                    let fed: f64 =
                        banded.lags(t).iter().zip(before.iter().rev()).map(|(lag, x)| lag * x).sum();
                    response[t] = if t == j { own / scale } else { -fed };
                    squares[t] += response[t] * response[t];
                }
            }
            Ok(squares.iter().copied().fold(0.0, f64::max).sqrt())
        }
    }
}

fn blt(theta: &[f64], omega: &[f64], n: u64) -> Result<Deviations, PlanError> {
    affordable(n.saturating_mul(theta.len() as u64))?;
    let mut state = vec![0.0; theta.len()];
    let mut squares = vec![0.0; theta.len()];
    let mut row = 0.0;
    for t in 0..n {
        let taken: f64 = state.iter().zip(omega).map(|(s, omega)| s * omega).sum();
        let x = if t == 0 { 1.0 } else { -taken };
        row += x * x;
        for ((s, theta), square) in state.iter_mut().zip(theta).zip(&mut squares) {
            *s = *s * theta + x;
            *square += *s * *s;
        }
    }
    Ok(Deviations { row: row.sqrt(), buffers: squares.into_iter().map(f64::sqrt).collect() })
}

fn inverse(rows: &GridInverse) -> f64 {
    let norm = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt();
    match rows {
        GridInverse::Toeplitz { coefficients } => norm(coefficients),
        GridInverse::Dense { rows } => {
            let mut largest = 0.0f64;
            let mut start = 0;
            let mut t = 0;
            while start < rows.len() {
                largest = largest.max(norm(&rows[start..=start + t]));
                start += t + 1;
                t += 1;
            }
            largest
        }
    }
}
