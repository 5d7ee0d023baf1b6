//! Refuses matrices whose noise grows without bound over a run: rows of noise, and C itself, stay far within `f32`.
//!
//! A recurrence of C⁻¹ with a pole outside the unit circle multiplies its noise every few rows, until `f32` holds it no more
//! and a row is served as infinity or NaN. Long before, nothing is left of a gradient that such a row is added to. So a row
//! may have at most 2²⁴ times the noise that its own z has, which is where a gradient of the clip norm falls below the last
//! digit of an `f32`. The same holds for the entries of C where a plan names C⁻¹: they decide the sensitivity.

use crate::{BandRows, Banded, Coefficients, Inverse, PlanError};

/// The most by which a row of C⁻¹ may exceed its own diagonal.
const MAX_GROWTH: f64 = (1u64 << 24) as f64;

/// The largest standard deviation of a row's values: 64 of them fit in `f32`, which no value exceeds with a probability above
/// e^−2000.
const MAX_ROW: f64 = f32::MAX as f64 / 64.0;

/// Most rows of a recurrence that does not depend on the row; where it doesn't grow in the last quarter of
/// them, it is taken not to grow after them.
const MOST_ROWS: u64 = 1 << 20;

/// Most products of one check.
const MOST_PRODUCTS: u64 = 1 << 28;

/// Growth between the last quarters of a response that rounding may cause.
const ROUNDING: f64 = 1e-9;

/// Checks that no row of a run leaves `f32`; `scale` is σζ.
pub(crate) fn check(coefficients: &Coefficients, n: u64, scale: f32) -> Result<(), PlanError> {
    let largest = match coefficients {
        Coefficients::Identity | Coefficients::Tree(_) => 1.0,
        Coefficients::Blt { theta, omega, output_scale } => scaled(blt(theta, omega, n)?, output_scale),
        Coefficients::Banded(banded) => self::banded(banded, n)?,
        Coefficients::Inverse(inverse) => self::inverse(inverse, n)?,
    };
    let row = largest * f64::from(scale);
    if row <= MAX_ROW {
        return Ok(());
    }
    let value = format!("{row:e} times the norm of a row of C⁻¹ with clip_norm");
    Err(PlanError::field(
        "noise_multiplier",
        value,
        format!("at most {MAX_ROW:e}, so that rows stay within f32"),
    ))
}

fn banded(banded: &Banded, n: u64) -> Result<f64, PlanError> {
    let unscaled = match &banded.rows {
        BandRows::Toeplitz { lags, inverse_diagonal } => {
            let lags: Vec<f64> =
                lags.iter().map(|lag| f64::from(*lag) * f64::from(*inverse_diagonal)).collect();
            toeplitz(&lags, n, "C⁻¹")? * f64::from(*inverse_diagonal)
        }
        BandRows::PerRow { lags, inverse_diagonal } => per_row(lags, inverse_diagonal, banded.bands)?,
    };
    Ok(scaled(unscaled, &banded.output_scale))
}

/// A bound of rows that are multiplied by the output scales.
fn scaled(unscaled: f64, output_scale: &[f32]) -> f64 {
    let widest = output_scale.iter().fold(0.0f32, |most, scale| most.max(*scale));
    if output_scale.is_empty() { unscaled } else { unscaled * f64::from(widest) }
}

fn inverse(inverse: &Inverse, n: u64) -> Result<f64, PlanError> {
    match inverse {
        Inverse::Toeplitz { coefficients } => {
            let first = f64::from(coefficients[0]);
            let lags: Vec<f64> = coefficients[1..].iter().map(|s| f64::from(*s) / first).collect();
            toeplitz(&lags, n, "C")?;
            let norm = lags.iter().map(|lag| lag * lag).sum::<f64>().sqrt();
            grown(norm, lags.len() as u64, "C⁻¹")?;
            Ok(first.hypot(norm * first))
        }
        Inverse::Dense { rows } => {
            let mut largest = 0.0f64;
            let mut start = 0;
            for t in 0..n as usize {
                let row = &rows[start..=start + t];
                let norm = row.iter().map(|x| f64::from(*x) * f64::from(*x)).sum::<f64>().sqrt();
                grown(norm / f64::from(row[t]), t as u64, "C⁻¹")?;
                largest = largest.max(norm);
                start += t + 1;
            }
            Ok(largest)
        }
    }
}

/// Returns a bound of the norm of x, the response of x_t = \[t = 0\] − Σ_i lags\[i−1\]·x_{t−i} to one impulse.
fn toeplitz(lags: &[f64], n: u64, matrix: &str) -> Result<f64, PlanError> {
    // With 1 ≥ c_1 ≥ c_2 ≥ … ≥ 0 the response stays within 1: (1−x)c(x) is 1 − Σ d_k x^k with d_k ≥ 0 and Σ d_k ≤ 1, so
    // its inverse has coefficients between 0 and 1, whose differences are the response.
    let falls = lags.iter().try_fold(1.0, |last, lag| (*lag >= 0.0 && *lag <= last).then_some(*lag));
    // Nor does it leave 1 where no row takes more than what rows before it gave.
    let is_dominated = lags.iter().map(|lag| lag.abs()).sum::<f64>() <= 1.0;
    if falls.is_some() || is_dominated {
        return Ok((n as f64).sqrt());
    }
    let p = lags.len() as u64;
    let rows = n.min(MOST_ROWS).min((MOST_PRODUCTS / p.max(1)).max(2 * p));
    let mut response: Vec<f64> = Vec::with_capacity(rows as usize);
    respond(rows, n, matrix, |t| {
        let reach = t.min(lags.len());
        let before: f64 = lags[..reach].iter().zip(response.iter().rev()).map(|(lag, x)| lag * x).sum();
        let x = if t == 0 { 1.0 } else { -before };
        response.push(x);
        x
    })
}

/// Returns a bound of the norm of the rows of a BLT's C⁻¹.
fn blt(theta: &[f32], omega: &[f32], n: u64) -> Result<f64, PlanError> {
    // C's first column falls from 1, as above.
    if omega.iter().map(|omega| f64::from(*omega)).sum::<f64>() <= 1.0 {
        return Ok((n as f64).sqrt());
    }
    let mut buffers = vec![0.0; theta.len()];
    respond(n.min(MOST_ROWS), n, "C⁻¹", |t| {
        let taken: f64 = buffers.iter().zip(omega).map(|(s, omega)| s * f64::from(*omega)).sum();
        let x = if t == 0 { 1.0 } else { -taken };
        for (s, theta) in buffers.iter_mut().zip(theta) {
            *s = *s * f64::from(*theta) + x;
        }
        x
    })
}

/// Returns a bound of the norm over `n` rows of a response, of which `rows` are computed.
fn respond(rows: u64, n: u64, matrix: &str, mut next: impl FnMut(usize) -> f64) -> Result<f64, PlanError> {
    let mut square = 0.0;
    let mut quarters = [0.0f64; 4];
    for t in 0..rows {
        let x = next(t as usize);
        square += x * x;
        grown(square.sqrt(), t, matrix)?;
        let quarter = &mut quarters[(4 * t / rows) as usize];
        *quarter = quarter.max(x.abs());
    }
    if rows == n {
        return Ok(square.sqrt());
    }
    // The last quarters: the first row, 1, would hide a pole of small amplitude in the first half.
    if quarters[3] > quarters[2] * (1.0 + ROUNDING) {
        return Err(unstable(format!("rows of {matrix} still grow after {rows} rows")));
    }
    let largest = quarters[2].max(quarters[3]);
    Ok((square + largest * largest * (n - rows) as f64).sqrt())
}

/// Returns the largest row of C⁻¹ times a vector of signs, whose mean square is the square of the row's norm.
fn per_row(lags: &[f32], inverse_diagonal: &[f32], bands: usize) -> Result<f64, PlanError> {
    let p = bands - 1;
    let unit = inverse_diagonal.iter().fold(0.0f64, |most, x| most.max(f64::from(*x)));
    let mut rows: Vec<f64> = Vec::with_capacity(inverse_diagonal.len());
    let mut largest = 0.0f64;
    for (t, inverse) in inverse_diagonal.iter().enumerate() {
        let lags = &lags[t * p..t * p + p.min(t)];
        let before: f64 = lags.iter().zip(rows.iter().rev()).map(|(lag, y)| f64::from(*lag) * y).sum();
        let y = (sign(t as u64) - before) * f64::from(*inverse);
        largest = largest.max(y.abs());
        grown(largest / unit, t as u64, "C⁻¹")?;
        rows.push(y);
    }
    Ok(largest)
}

/// A sign without a pattern: a bit of SplitMix64 of t.
fn sign(t: u64) -> f64 {
    let mut z = (t + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    if z >> 63 == 0 { 1.0 } else { -1.0 }
}

/// Refuses growth beyond the limit, NaN included.
fn grown(growth: f64, row: u64, matrix: &str) -> Result<(), PlanError> {
    if growth <= MAX_GROWTH {
        return Ok(());
    }
    Err(unstable(format!("row {row} of {matrix} is {growth:.3e} times its diagonal")))
}

fn unstable(why: String) -> PlanError {
    PlanError::field(
        "mechanism",
        format!("unstable: {why}"),
        format!("at most {MAX_GROWTH} times; fewer iterations, or smaller coefficients after the first"),
    )
}
