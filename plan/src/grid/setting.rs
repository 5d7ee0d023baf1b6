//! The fields of `[grid]`.

use std::ops::RangeInclusive;

use crate::PlanError;
use crate::error::require;

/// The steps 2^step that a plan may name: γ and all that is computed with it stay far within `f64`.
const STEPS: RangeInclusive<i32> = -256..=256;

/// The largest share of a contribution's norm that a job's own arithmetic may add.
const MAX_SUMMING_ERROR: f64 = 1.0;

/// The way in which a job's sums come to the grid. Each has its own bound of how far one contribution moves the integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// The sum is rounded to the nearest integer: √d is added to a contribution's norm, in steps.
    Nearest,
    /// The sum plus a uniform number, drawn afresh for every coordinate and round, is rounded down: far less is added.
    Dithered,
    /// Each contribution is clipped, rounded and its integer norm checked before it is summed: nothing is added.
    Contributions,
}

impl Rounding {
    /// Every name, as plan.toml and the command line spell it.
    pub const NAMES: [&'static str; 3] = ["nearest", "dithered", "contributions"];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nearest => "nearest",
            Self::Dithered => "dithered",
            Self::Contributions => "contributions",
        }
    }

    /// Returns the rounding of a name; `None` for another word.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Nearest, Self::Dithered, Self::Contributions].into_iter().find(|one| one.name() == name)
    }
}

/// The grid of a plan's noise. Without one a plan's rows are `f32`, and exact in no sense.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Grid {
    /// The grid's step is 2^step, in the gradient's own units.
    pub step: i32,
    /// The way in which the job's sums come to the grid.
    pub rounding: Rounding,
    /// κ: what the job's floating-point clipping and summing add to a contribution's norm, relative to the clip norm. The
    /// job vouches for it. 0 for [`Rounding::Contributions`], whose sums are exact.
    pub summing_error: f64,
}

impl Grid {
    /// Returns γ = 2^step, in the gradient's own units.
    #[must_use]
    pub fn step_size(&self) -> f64 {
        f64::from(self.step).exp2()
    }

    /// Checks the fields by themselves.
    ///
    /// # Errors
    /// [`PlanError::Field`] naming the field.
    pub(super) fn check(&self) -> Result<(), PlanError> {
        let allowed = format!("{} to {}", STEPS.start(), STEPS.end());
        require(STEPS.contains(&self.step), "grid.step", self.step, allowed)?;
        let kappa = self.summing_error;
        let exact = self.rounding == Rounding::Contributions;
        require(
            !exact || kappa == 0.0,
            "grid.summing_error",
            kappa,
            "0 where grid.rounding is \"contributions\": sums of integers are exact",
        )?;
        require(
            (0.0..=MAX_SUMMING_ERROR).contains(&kappa),
            "grid.summing_error",
            kappa,
            "0 to 1: what the job's clipping and summing add to a contribution's norm, relative to clip_norm",
        )
    }
}

/// κ is the job's word: nothing here can know it.
pub(crate) fn missing_summing_error() -> PlanError {
    PlanError::missing(
        "grid.summing_error",
        "0 to 1, what the job's clipping and summing in floating point add to a contribution's norm, relative to \
         clip_norm; 1.3e-4 is enough for f32 sums of 32 records whose norms are accumulated in f64, and whose \
         integers are then added",
    )
}
