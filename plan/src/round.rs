//! From `f64` plans to `f32` coefficients: the one place where they are rounded.
//!
//! The order of every operation here decides bits of the noise, so it is part of the stream's version.

use crate::error::require;
use crate::series;
use crate::{BandRows, Banded, Coefficients, Inverse, Mechanism, PlanError, Tree, TreeSegment};

/// σζ: the product in `f64`, then rounded.
pub(crate) fn scale(noise_multiplier: f64, clip_norm: f64) -> f32 {
    (noise_multiplier * clip_norm) as f32
}

/// The σ that an account may use: no more than σ, nor than the quotient of [`scale`] and ζ. Where `f32` rounds down,
/// less noise is made than σ promises.
pub(crate) fn accounted_noise_multiplier(noise_multiplier: f64, clip_norm: f64) -> f64 {
    noise_multiplier.min(divided_down(scale(noise_multiplier, clip_norm), clip_norm))
}

/// Returns the least σ from `noise_multiplier` on that runs as it is written: its product with `clip_norm`, rounded
/// once to `f32`, is no smaller. Plans whose σ was found by calibration use it, so that they keep what σ was found
/// for.
#[must_use]
pub fn noise_multiplier_to_run(noise_multiplier: f64, clip_norm: f64) -> f64 {
    let scale = scale(noise_multiplier, clip_norm);
    if noise_multiplier <= divided_down(scale, clip_norm) {
        return noise_multiplier;
    }
    let raised = divided_down(scale.next_up(), clip_norm);
    // A value that no plan may hold is left for the plan's checks to name.
    if raised.is_finite() { raised } else { noise_multiplier }
}

/// The largest quotient of `f64` whose product with `clip_norm` is at most `scale`.
fn divided_down(scale: f32, clip_norm: f64) -> f64 {
    let scale = f64::from(scale);
    let nearest = scale / clip_norm;
    // One rounding: the sign of the remainder is exact. The nearest quotient is above by half a place at most.
    if nearest.mul_add(clip_norm, -scale) > 0.0 { nearest.next_down() } else { nearest }
}

/// The coefficients of a mechanism that has been checked for n rows.
///
/// # Errors
/// [`PlanError::Field`] for a number that `f32` can't hold.
pub(crate) fn coefficients(mechanism: &Mechanism, n: u64) -> Result<Coefficients, PlanError> {
    match mechanism {
        Mechanism::Identity => Ok(Coefficients::Identity),
        Mechanism::Tree { restarts, completion } => Ok(Coefficients::Tree(tree(restarts, *completion, n))),
        Mechanism::Blt { theta, omega } => Ok(Coefficients::Blt {
            theta: singles(theta, "mechanism.theta")?,
            omega: singles(omega, "mechanism.omega")?,
            output_scale: Vec::new(),
        }),
        Mechanism::BandToeplitz { coefficients, column_normalised } => {
            let norms = if *column_normalised { column_norms(coefficients, n) } else { Vec::new() };
            toeplitz(
                coefficients,
                output_scale(&norms, |t| {
                    ("mechanism.coefficients".into(), format!("of norm {:e} in column {t}", norms[t]))
                })?,
            )
        }
        Mechanism::BandSqrt { bands } => toeplitz(&series::square_root(*bands as usize), Vec::new()),
        Mechanism::BandMf { columns } => band_rows(columns),
        Mechanism::BandInverse { coefficients } => inverse(coefficients),
        Mechanism::BandInverseSqrt { bands } => inverse(&series::inverse_square_root(*bands as usize)),
        Mechanism::LambdaCgd { lambda } => inverse(&[1.0, -lambda]),
        Mechanism::Dense { matrix } => dense(matrix),
        Mechanism::Scaled { base, column_scales, rounds_per_scale } => {
            let scales = |t: u64| ((t / rounds_per_scale) as usize).min(column_scales.len() - 1);
            let norms = match &**base {
                Mechanism::BandToeplitz { coefficients, column_normalised: true } => {
                    column_norms(coefficients, n)
                }
                _ => vec![1.0; n as usize],
            };
            let rows: Vec<f64> = (0..).zip(&norms).map(|(t, norm)| norm / column_scales[scales(t)]).collect();
            let scaled = output_scale(&rows, |t| {
                let e = scales(t as u64);
                (format!("mechanism.column_scales[{e}]"), column_scales[e].to_string())
            })?;
            let mut coefficients = self::coefficients(base, n)?;
            if let Coefficients::Blt { output_scale, .. }
            | Coefficients::Banded(Banded { output_scale, .. }) = &mut coefficients
            {
                *output_scale = scaled;
            }
            Ok(coefficients)
        }
    }
}

/// What each row is multiplied by; `blamed` names the field and the value of a number that `f32` can't hold.
fn output_scale(rows: &[f64], blamed: impl Fn(usize) -> (String, String)) -> Result<Vec<f32>, PlanError> {
    let one = |(t, row): (usize, &f64)| {
        let (field, given) = blamed(t);
        single_on_diagonal(*row, field, given)
    };
    rows.iter().enumerate().map(one).collect()
}

fn toeplitz(c: &[f64], output_scale: Vec<f32>) -> Result<Coefficients, PlanError> {
    let lags = singles(c, "mechanism.coefficients")?.split_off(1);
    let inverse_diagonal = single_on_diagonal(1.0 / c[0], "mechanism.coefficients[0]", c[0])?;
    let rows = BandRows::Toeplitz { lags, inverse_diagonal };
    Ok(Coefficients::Banded(Banded { bands: c.len(), rows, output_scale }))
}

/// Σ c_i² over the first entries, for each number of them: the squared norms of a full column and of the short ones near n.
pub(crate) fn sums_of_squares(c: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    c.iter()
        .map(|c| {
            sum += c * c;
            sum
        })
        .collect()
}

/// ‖column t‖ for each t.
fn column_norms(c: &[f64], n: u64) -> Vec<f64> {
    let prefix = sums_of_squares(c);
    (0..n).map(|t| prefix[(n - t).min(c.len() as u64) as usize - 1].sqrt()).collect()
}

fn band_rows(columns: &[Vec<f64>]) -> Result<Coefficients, PlanError> {
    let bands = columns[0].len();
    let mut lags = Vec::with_capacity(columns.len() * (bands - 1));
    let mut inverse_diagonal = Vec::with_capacity(columns.len());
    for (t, column) in columns.iter().enumerate() {
        let field = |j: usize, i: usize| format!("mechanism.columns[{j}][{i}]");
        inverse_diagonal.push(single_on_diagonal(1.0 / column[0], field(t, 0), column[0])?);
        for i in 1..bands {
            lags.push(if i > t { 0.0 } else { single(columns[t - i][i], || field(t - i, i))? });
        }
    }
    let rows = BandRows::PerRow { lags, inverse_diagonal };
    Ok(Coefficients::Banded(Banded { bands, rows, output_scale: Vec::new() }))
}

fn inverse(s: &[f64]) -> Result<Coefficients, PlanError> {
    single_on_diagonal(s[0], "mechanism.coefficients[0]", s[0])?;
    let coefficients = singles(s, "mechanism.coefficients")?;
    Ok(Coefficients::Inverse(Inverse::Toeplitz { coefficients }))
}

/// C⁻¹ by forward substitution: row t is (e_t − Σ_{k<t} C[t,k]·row k)/C[t,t], k counting up.
pub(crate) fn inverse_rows(matrix: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut inverse: Vec<Vec<f64>> = Vec::with_capacity(matrix.len());
    for (t, row) in matrix.iter().enumerate() {
        let mut next = vec![0.0; t + 1];
        next[t] = 1.0;
        for (k, above) in inverse.iter().enumerate() {
            for (entry, value) in next.iter_mut().zip(above) {
                *entry -= row[k] * value;
            }
        }
        next.iter_mut().for_each(|entry| *entry /= row[t]);
        inverse.push(next);
    }
    inverse
}

fn dense(matrix: &[Vec<f64>]) -> Result<Coefficients, PlanError> {
    let inverse = inverse_rows(matrix);
    let mut rows = Vec::with_capacity(matrix.len() * (matrix.len() + 1) / 2);
    for (t, row) in inverse.iter().enumerate() {
        single_on_diagonal(row[t], format!("mechanism.matrix[{t}][{t}]"), matrix[t][t])?;
        for &value in row {
            rows.push(single(value, || format!("mechanism.matrix, row {t} of its inverse"))?);
        }
    }
    Ok(Coefficients::Inverse(Inverse::Dense { rows }))
}

pub(crate) fn tree(restarts: &[u64], completion: bool, n: u64) -> Tree {
    let starts = std::iter::once(0).chain(restarts.iter().copied());
    let ends = restarts.iter().copied().chain(std::iter::once(n));
    let segment = |(start, end): (u64, u64)| {
        let rows = end - start;
        // Only a tree that another follows has something to complete.
        let virtual_steps = if completion && end < n { rows.next_power_of_two() - rows } else { 0 };
        TreeSegment { start, rows, virtual_steps }
    };
    Tree { segments: starts.zip(ends).map(segment).collect() }
}

/// BLT, its buffers; banded, the rows it looks back at; tree, the levels of the tallest; others draw Z again.
pub(crate) fn state_slots(coefficients: &Coefficients, iterations: u64) -> usize {
    match coefficients {
        Coefficients::Identity | Coefficients::Inverse(_) => 0,
        Coefficients::Blt { theta, .. } => theta.len(),
        Coefficients::Banded(banded) => {
            (banded.bands - 1).min(usize::try_from(iterations - 1).unwrap_or(usize::MAX))
        }
        Coefficients::Tree(tree) => {
            let leaves = tree.segments.iter().map(|segment| segment.rows + segment.virtual_steps);
            leaves.max().unwrap_or(1).next_power_of_two().ilog2() as usize
        }
    }
}

fn singles(values: &[f64], field: &str) -> Result<Vec<f32>, PlanError> {
    let indexed = values.iter().enumerate();
    indexed.map(|(index, &value)| single(value, || format!("{field}[{index}]"))).collect()
}

fn single(value: f64, field: impl FnOnce() -> String) -> Result<f32, PlanError> {
    let rounded = value as f32;
    let allowed = "a number that f32 can hold";
    if rounded.is_finite() {
        Ok(rounded)
    } else {
        Err(PlanError::field(field(), format!("{value:e}"), allowed))
    }
}

/// Rounds a number that every number of a row is multiplied by: were it to round to 0, there would be no noise.
fn single_on_diagonal(
    value: f64,
    field: impl std::fmt::Display,
    given: impl std::fmt::Display,
) -> Result<f32, PlanError> {
    let rounded = value as f32;
    require(rounded.is_normal(), field, given, "a number that f32 can hold, as can its inverse")?;
    Ok(rounded)
}
