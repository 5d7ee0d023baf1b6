//! Checks of a grid mechanism's numbers before a row is made with them.

use super::family::{GridBandRows, GridBanded, GridDeviations, GridFamily, GridInverse};
use crate::KernelError;
use crate::validate::{check_iterations, check_tree, wrong};

/// Bits of a sum of products of coefficients and rows, before and after the point: binary64 holds 53, rows are 31.
const COEFFICIENT_BITS: i32 = 22;
/// The finest step of a coefficient is 2 to minus this power.
const LEAST_STEP: i32 = 52;
/// Deviations of a row that must lie within 32 bits.
const ROOM: f64 = 13.0;
/// Largest |n|.
pub(crate) const LARGEST: f64 = i32::MAX as f64;
/// Largest coefficient of an inverse or weight of a BLT, and the least that is not 0.
const COEFFICIENTS: (f64, f64) = (1_048_576.0, 1.0 / (1u64 << 60) as f64);

pub(crate) fn check_family(family: &GridFamily, iterations: u64) -> Result<(), KernelError> {
    check_iterations(iterations)?;
    match family {
        GridFamily::Identity => Ok(()),
        GridFamily::Blt { theta, omega } => check_blt(theta, omega),
        GridFamily::Banded(banded) => check_banded(banded, iterations),
        GridFamily::Inverse(inverse) => check_inverse(inverse, iterations),
        GridFamily::Tree(tree) => check_tree(tree, iterations),
    }
}

pub(crate) fn check_deviations(
    deviations: &GridDeviations,
    family: &GridFamily,
    iterations: u64,
) -> Result<(), KernelError> {
    let all = match deviations {
        GridDeviations::Every(deviation) => std::slice::from_ref(deviation),
        GridDeviations::PerRow(_) if matches!(family, GridFamily::Tree(_)) => {
            return Err(wrong("the deviation of a tree", "one for each row", "the same for all nodes"));
        }
        GridDeviations::PerRow(deviations) => {
            length("the number of deviations", deviations, u128::from(iterations))?;
            deviations
        }
    };
    let most = LARGEST / ROOM;
    match all.iter().find(|s| !(1.0..=most).contains(*s)) {
        None => Ok(()),
        Some(bad) => Err(wrong("a row's deviation in grid steps", bad, format!("from 1 to {most:.0}"))),
    }
}

fn check_blt(theta: &[f64], omega: &[f64]) -> Result<(), KernelError> {
    if theta.is_empty() {
        return Err(wrong("the number of BLT buffers", 0, "at least 1"));
    }
    length("the number of BLT output weights", omega, theta.len() as u128)?;
    if let Some(bad) = theta.iter().find(|v| !(-1.0..=1.0).contains(*v)) {
        return Err(wrong("a BLT decay", bad, "from −1 to 1"));
    }
    bounded("a BLT output weight", omega)
}

fn check_banded(banded: &GridBanded, iterations: u64) -> Result<(), KernelError> {
    if banded.bands == 0 {
        return Err(wrong("the number of bands", 0, "at least 1"));
    }
    let back = banded.bands - 1;
    let (lags, expected) = match &banded.rows {
        GridBandRows::Toeplitz(lags) => (lags, back as u128),
        GridBandRows::PerRow(lags) => (lags, u128::from(iterations) * back as u128),
    };
    length("the number of lags", lags, expected)?;
    bounded("a lag", lags)?;
    let sum = |row: &[f64]| row.iter().map(|lag| lag.abs()).sum::<f64>();
    let largest = lags.chunks(back.max(1)).map(sum).fold(0.0, f64::max);
    if largest == 0.0 {
        return Ok(());
    }
    // Sums of coefficients are not rounded where they are multiples of 2^−q, and where not, the check below fails.
    let q = (COEFFICIENT_BITS - ceiling_of_log(largest)).min(LEAST_STEP);
    let steps = 2f64.powi(q);
    match lags.iter().find(|&&lag| (lag * steps).fract() != 0.0) {
        None => Ok(()),
        Some(bad) => Err(wrong("a lag", bad, format!("a multiple of 2^{}, so that sums are exact", -q))),
    }
}

/// The least whole k with 2ᵏ ≥ x.
fn ceiling_of_log(x: f64) -> i32 {
    let mut k = 0;
    while 2f64.powi(k) < x {
        k += 1;
    }
    while 2f64.powi(k - 1) >= x {
        k -= 1;
    }
    k
}

fn check_inverse(inverse: &GridInverse, iterations: u64) -> Result<(), KernelError> {
    let n = u128::from(iterations);
    let (values, on_diagonal): (_, Vec<f64>) = match inverse {
        GridInverse::Toeplitz(coefficients) if coefficients.is_empty() => {
            return Err(wrong("the number of inverse coefficients", 0, "at least 1"));
        }
        GridInverse::Toeplitz(coefficients) => (coefficients, vec![coefficients[0]]),
        GridInverse::Dense(rows) => {
            length("the number of inverse coefficients", rows, n * (n + 1) / 2)?;
            (rows, (1..=iterations as usize).map(|t| rows[t * (t + 1) / 2 - 1]).collect())
        }
    };
    bounded("an inverse coefficient", values)?;
    match on_diagonal.iter().find(|&&v| v == 0.0) {
        None => Ok(()),
        Some(bad) => Err(wrong("the diagonal of the inverse", bad, "other than 0")),
    }
}

fn bounded(what: &'static str, values: &[f64]) -> Result<(), KernelError> {
    let (most, least) = COEFFICIENTS;
    match values.iter().find(|&&v| v != 0.0 && !(least..=most).contains(&v.abs())) {
        None => Ok(()),
        Some(bad) => Err(wrong(what, bad, format!("0, or {least:e} to {most} in absolute value"))),
    }
}

fn length(what: &'static str, values: &[f64], expected: u128) -> Result<(), KernelError> {
    if values.len() as u128 == expected { Ok(()) } else { Err(wrong(what, values.len(), expected)) }
}
