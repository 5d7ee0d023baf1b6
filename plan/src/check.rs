//! Checks of a plan's values. Everything is checked before anything runs; the first fault found is reported.

use crate::conversion::SCALED;
use crate::error::require;
use crate::{Mechanism, Participation, PlanError, PlanSpec, round};

/// Rows are numbered in 32 bits wherever they are stored; trees then number their nodes in 33.
const MAX_ITERATIONS: u64 = u32::MAX as u64;

/// Most bands of a mechanism that names them by count alone: no file bounds them, and state grows with them.
const MAX_BANDS: u64 = 1 << 20;

/// Most rows of a column-normalised plan or of one with scaled columns, which keeps one number for each row.
const MAX_NORMALISED_ITERATIONS: u64 = 1 << 26;

/// Checks all fields.
pub(crate) fn spec(spec: &PlanSpec) -> Result<(), PlanError> {
    let rounds = spec.chacha_rounds;
    require(matches!(rounds, 12 | 20), "chacha_rounds", rounds, "20 or 12")?;
    iterations(spec.iterations)?;
    let sigma = spec.noise_multiplier;
    let clip = spec.clip_norm;
    require(sigma.is_finite() && sigma >= 0.0, "noise_multiplier", sigma, "a finite number ≥ 0")?;
    require(clip.is_finite() && clip > 0.0, "clip_norm", clip, "a finite number > 0")?;
    // A scale that vanishes in f32 would serve no noise at all under a guarantee that counts on it.
    let scale = round::scale(sigma, clip);
    let served = scale.is_normal() || sigma == 0.0;
    let allowed = format!("a product with clip_norm between {:e} and {:e}", f32::MIN_POSITIVE, f32::MAX);
    require(served, "noise_multiplier", format!("{sigma:e} with clip_norm {clip:e}"), allowed)?;
    participation(spec.participation)?;
    mechanism(&spec.mechanism, spec.iterations)
}

/// Checks the number of rows.
pub(crate) fn iterations(n: u64) -> Result<(), PlanError> {
    require((1..=MAX_ITERATIONS).contains(&n), "iterations", n, format!("1 to {MAX_ITERATIONS}"))
}

/// Checks that a plan can hold a participation rule.
pub(crate) fn participation(rule: Participation) -> Result<(), PlanError> {
    let b = rule.min_sep;
    let k = rule.max_participations;
    require(
        in_toml(b),
        "participation.min_sep",
        b,
        "1 or more (rounds i < j of one user satisfy j − i ≥ min_sep)",
    )?;
    require(in_toml(k), "participation.max_participations", k, "1 or more")
}

/// At least 1, and no more than TOML's largest integer, so that every plan can be written down.
fn in_toml(count: u64) -> bool {
    (1..=i64::MAX as u64).contains(&count)
}

/// Checks the parameters of a mechanism for a run of `n` rows.
pub(crate) fn mechanism(mechanism: &Mechanism, n: u64) -> Result<(), PlanError> {
    match mechanism {
        Mechanism::Identity => Ok(()),
        Mechanism::Tree { restarts, .. } => tree(restarts, n),
        Mechanism::Blt { theta, omega } => blt(theta, omega),
        Mechanism::BandToeplitz { coefficients, column_normalised } => {
            let allowed = format!("at most {MAX_NORMALISED_ITERATIONS} where mechanism.column_normalised");
            require(!column_normalised || n <= MAX_NORMALISED_ITERATIONS, "iterations", n, allowed)?;
            first_column(coefficients, n)
        }
        Mechanism::BandInverse { coefficients } => first_column(coefficients, n),
        Mechanism::BandMf { columns } => band_columns(columns, n),
        Mechanism::BandSqrt { bands } | Mechanism::BandInverseSqrt { bands } => {
            let most = n.min(MAX_BANDS);
            require((1..=most).contains(bands), "mechanism.bands", bands, bands_allowed(most))
        }
        Mechanism::LambdaCgd { lambda } => {
            require((0.0..1.0).contains(lambda), "mechanism.lambda", lambda, "0 ≤ λ < 1")
        }
        Mechanism::Dense { matrix } => dense(matrix, n),
        Mechanism::Scaled { base, column_scales, rounds_per_scale } => {
            let allowed =
                format!("at most {MAX_NORMALISED_ITERATIONS} where mechanism.column_scales is given");
            require(n <= MAX_NORMALISED_ITERATIONS, "iterations", n, allowed)?;
            let may_be_scaled = matches!(**base, Mechanism::Blt { .. } | Mechanism::BandToeplitz { .. });
            require(may_be_scaled, "mechanism.column_scales", format!("given for {}", base.name()), SCALED)?;
            self::mechanism(base, n)?;
            scales(column_scales, *rounds_per_scale)
        }
    }
}

fn scales(scales: &[f64], rounds: u64) -> Result<(), PlanError> {
    require(in_toml(rounds), "mechanism.rounds_per_scale", rounds, "1 or more")?;
    require(!scales.is_empty(), "mechanism.column_scales", "empty", "at least one number")?;
    let mut last = f64::MAX;
    for (index, &scale) in scales.iter().enumerate() {
        let allowed = "finite numbers > 0 that never rise";
        require(scale > 0.0 && scale <= last, format!("mechanism.column_scales[{index}]"), scale, allowed)?;
        last = scale;
    }
    Ok(())
}

fn bands_allowed(most: u64) -> String {
    format!("1 to {most} (no more than iterations)")
}

fn tree(restarts: &[u64], n: u64) -> Result<(), PlanError> {
    let mut before = 0;
    for (index, &round) in restarts.iter().enumerate() {
        let allowed = format!("increasing rounds from 1 to {} (less than iterations)", n - 1);
        require(before < round && round < n, format!("mechanism.restarts[{index}]"), round, allowed)?;
        before = round;
    }
    Ok(())
}

fn blt(theta: &[f64], omega: &[f64]) -> Result<(), PlanError> {
    let lengths = format!("{} numbers, mechanism.omega {}", theta.len(), omega.len());
    require(!theta.is_empty(), "mechanism.theta", "empty", "at least one number")?;
    require(theta.len() == omega.len(), "mechanism.theta", lengths, "as many as mechanism.omega")?;
    for (index, &theta) in theta.iter().enumerate() {
        require(theta > 0.0 && theta <= 1.0, format!("mechanism.theta[{index}]"), theta, "0 < θ ≤ 1")?;
    }
    for (index, &omega) in omega.iter().enumerate() {
        let allowed = "a finite number > 0";
        require(omega.is_finite() && omega > 0.0, format!("mechanism.omega[{index}]"), omega, allowed)?;
    }
    Ok(())
}

fn first_column(coefficients: &[f64], n: u64) -> Result<(), PlanError> {
    let length = coefficients.len() as u64;
    require(
        (1..=n).contains(&length),
        "mechanism.coefficients",
        format!("{length} numbers"),
        bands_allowed(n),
    )?;
    finite_numbers(coefficients, "mechanism.coefficients")?;
    diagonal(coefficients[0], "mechanism.coefficients[0]")
}

fn band_columns(columns: &[Vec<f64>], n: u64) -> Result<(), PlanError> {
    let given = format!("{} columns", columns.len());
    require(columns.len() as u64 == n, "mechanism.columns", given, format!("{n} columns (iterations)"))?;
    let bands = columns.first().map_or(0, Vec::len);
    let allowed = bands_allowed(n);
    require((1..=n).contains(&(bands as u64)), "mechanism.columns[0]", format!("{bands} numbers"), allowed)?;
    for (j, column) in columns.iter().enumerate() {
        let field = format!("mechanism.columns[{j}]");
        let given = format!("{} numbers", column.len());
        require(column.len() == bands, &field, given, format!("{bands} numbers, as many as columns[0]"))?;
        finite_numbers(column, &field)?;
        diagonal(column[0], format!("{field}[0]"))?;
        let inside = bands.min(columns.len() - j);
        for (i, &beyond) in column.iter().enumerate().skip(inside) {
            require(beyond == 0.0, format!("{field}[{i}]"), beyond, "0 (it lies beyond the last row)")?;
        }
    }
    Ok(())
}

fn dense(matrix: &[Vec<f64>], n: u64) -> Result<(), PlanError> {
    let given = format!("{} rows", matrix.len());
    require(matrix.len() as u64 == n, "mechanism.matrix", given, format!("{n} rows (iterations)"))?;
    for (t, row) in matrix.iter().enumerate() {
        let field = format!("mechanism.matrix[{t}]");
        let allowed = format!("{} numbers (the lower triangle alone)", t + 1);
        require(row.len() == t + 1, &field, format!("{} numbers", row.len()), allowed)?;
        finite_numbers(row, &field)?;
        diagonal(row[t], format!("{field}[{t}]"))?;
    }
    Ok(())
}

fn finite_numbers(numbers: &[f64], field: &str) -> Result<(), PlanError> {
    match numbers.iter().position(|number| !number.is_finite()) {
        None => Ok(()),
        Some(index) => Err(PlanError::field(format!("{field}[{index}]"), numbers[index], "a finite number")),
    }
}

/// A zero on the diagonal of C, or of C⁻¹, leaves a matrix without an inverse; a sign there is only Z's sign.
fn diagonal(value: f64, field: impl std::fmt::Display) -> Result<(), PlanError> {
    require(value > 0.0, field, value, "a number > 0 (it is on the matrix's diagonal)")
}
