//! A step and a rounding that fit a run.

use super::grid_plan::{NEAREST, dimension, in_range, share};
use super::setting::{Grid, Rounding, missing_summing_error};
use crate::{PlanError, PlanSpec, check};

/// s is at most 2^27: finer steps gain nothing that a digit of ε would show.
const LARGEST_SCALE_BITS: i32 = 27;

/// Steps that are tried, each twice as large as the one before.
const TRIES: i32 = 64;

/// Returns the finest grid of a run: the least step with s at most 2²⁷ whose rows stay 13 deviations within 32 bits, and the
/// rounding asked for, or `nearest` where that costs next to nothing and `dithered` elsewhere. `spec.grid` is not read.
///
/// # Errors
/// [`PlanError::Missing`] without a layout or a summing error; [`PlanError::Field`] for fields that no plan can hold.
pub fn choose(
    spec: &PlanSpec,
    rounding: Option<Rounding>,
    summing_error: Option<f64>,
) -> Result<Grid, PlanError> {
    check::spec(spec)?;
    let dimension = dimension(spec)?;
    let noise = spec.noise_multiplier * spec.clip_norm;
    if noise == 0.0 {
        return Err(PlanError::field("noise_multiplier", 0.0, "above 0 where there is [grid]"));
    }
    let exact = rounding == Some(Rounding::Contributions);
    let summing_error = summing_error.or(exact.then_some(0.0)).ok_or_else(missing_summing_error)?;
    let least = noise.log2().ceil() as i32 - LARGEST_SCALE_BITS;
    let grid = |step| Grid { step, rounding: rounding.unwrap_or(Rounding::Nearest), summing_error };
    for step in least..least + TRIES {
        let found = grid(step);
        if in_range(spec, found)? {
            let coarse = rounding.is_none() && share(spec, found, dimension) > NEAREST;
            return Ok(if coarse { Grid { rounding: Rounding::Dithered, ..found } } else { found });
        }
    }
    Err(PlanError::field(
        "mechanism",
        "one whose rows fit no 32 bits",
        "smaller coefficients after the first",
    ))
}
