//! κ of sums in `f32`, from how many records are added and how long they are.

use crate::PlanError;
use crate::error::require;

/// Half of the relative spacing of `f32`: what one rounding is off by at most.
const UNIT: f64 = 1.0 / (1u64 << 24) as f64;

/// Roundings of a norm's root, of the scale that follows from it, and of the scaled record.
const SCALING: f64 = 8.0;

/// The type that the squares of a record's coordinates are added in for its norm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormType {
    /// As Opacus and most programs do. The order alone decides how much of a norm is lost, so all of it counts.
    Float32,
    /// Next to nothing is lost.
    Float64,
}

impl NormType {
    /// Every name, as the command line spells it.
    pub const NAMES: [&'static str; 2] = ["float32", "float64"];

    /// Returns the type of a name; `None` for another word.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "float32" => Some(Self::Float32),
            "float64" => Some(Self::Float64),
            _ => None,
        }
    }

    fn unit(self) -> f64 {
        match self {
            Self::Float32 => UNIT,
            Self::Float64 => 1.0 / (1u64 << 53) as f64,
        }
    }
}

/// Returns κ for up to `records` clipped vectors of `dimension` coordinates that are added in `f32`, in any order, and whose sum
/// is then rounded to the grid: `rustle.grid.summing_error` of Python. It holds where each vector depends on one record alone
/// and products are not shortened (TF32, bf16).
///
/// A record passes at most `records` roundings of relative size u on its way into the sum, so neighbouring sums differ by
/// 2·records²·u/(1 − records·u) more than in real numbers. d squares added with roundings of size v make a norm too small by
/// e^(dv/2) at most.
///
/// # Errors
/// [`PlanError::Field`] for `batch_size`, or for the `norm_dtype` that is too coarse for so many coordinates.
pub fn summing_error(records: u64, dimension: u64, norms: NormType) -> Result<f64, PlanError> {
    let micro_batches = "1 or more, and so few that `f32` keeps bits of their sum: the size of a micro-batch whose sum is \
                         rounded to the grid, where integers are then added";
    let roundings = records as f64 * UNIT;
    require(records >= 1 && roundings < 0.5, "batch_size", records, micro_batches)?;
    let short = (dimension as f64 / 2.0 + SCALING) * norms.unit();
    let allowed = "float64 for so many coordinates, in which norms are then to be accumulated; float32 keeps too few bits of \
                   their squares";
    require(short < 0.5, "norm_dtype", "float32", allowed)?;
    let clipping = short.exp_m1() + SCALING * UNIT;
    let summing_error = clipping + 2.0 * roundings * records as f64 / (1.0 - roundings) * (1.0 + clipping);
    require(summing_error <= 1.0, "batch_size", records, micro_batches)?;
    Ok(summing_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_pythons_helper() {
        // `rustle.grid.summing_error(records, 1_000_000, norm_dtype=…)`, which is the same formula in another language.
        for (records, norms, expected) in [
            (8, NormType::Float64, 8.106_294_477_877_143e-6),
            (32, NormType::Float64, 1.225_474_962_158_785_9e-4),
            (1024, NormType::Float64, 0.125_008_166_368_113_6),
            (32, NormType::Float32, 0.030_377_587_794_774_234),
        ] {
            let found = summing_error(records, 1_000_000, norms).unwrap();
            assert!((found / expected - 1.0).abs() < 1e-12, "{records}: {found}");
        }
    }

    #[test]
    fn what_keeps_no_bits_is_refused_with_the_way_out() {
        for (records, dimension, norms, words) in [
            (0, 10, NormType::Float32, "batch_size"),
            (1 << 23, 10, NormType::Float64, "micro-batch"),
            (3000, 10, NormType::Float64, "micro-batch"),
            (32, 1 << 24, NormType::Float32, "float64 for so many coordinates"),
        ] {
            let said = summing_error(records, dimension, norms).unwrap_err().to_string();
            assert!(said.contains(words), "{records}: {said}");
        }
        assert!(summing_error(32, 1_000_000_000, NormType::Float64).is_ok());
    }
}
