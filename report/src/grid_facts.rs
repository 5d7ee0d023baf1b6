//! What a statement and `rustle plan show` say of a plan's grid.

use plan::Plan;
use serde::Serialize;

/// The grid of a plan and the figures that its account takes from it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GridFacts {
    /// The grid's step is 2^step, in the gradient's own units.
    pub step: i32,
    /// The way in which the job's sums come to the grid.
    pub rounding: &'static str,
    /// κ: what the job's clipping and summing add to a contribution's norm; its own word.
    pub summing_error: f64,
    /// ζ′, in the gradient's own units: no contribution moves the rounded sum further.
    pub clip_norm_accounted: f64,
    /// The σ of every account, in units of ζ′.
    pub noise_multiplier_accounted: f64,
    /// s = σζ/2^step, the noise's deviation in steps.
    pub deviation: f64,
    /// True where a release is a function of the ideal mechanism's (theorem 1), false where it is close to it (theorem 2).
    pub exact: bool,
    /// η, in steps: how far a BLT's feedback is from exact.
    pub feedback_error: f64,
    /// What η adds to the sensitivity.
    pub sensitivity_added: f64,
    /// Probability that a row leaves 32 bits.
    pub range_failure: f64,
    /// Probability that a BLT's buffer goes further than η was computed for.
    pub buffer_failure: f64,
    /// Probability that dither moves a unit's contributions further than ζ′.
    pub rounding_failure: f64,
}

impl GridFacts {
    /// Returns the facts of a plan's grid; `None` for a plan whose rows are `f32`.
    pub fn of(plan: &Plan) -> Option<Self> {
        let on_grid = plan.on_grid()?;
        let grid = on_grid.grid();
        let figures = on_grid.figures();
        Some(Self {
            step: grid.step,
            rounding: grid.rounding.name(),
            summing_error: grid.summing_error,
            clip_norm_accounted: figures.clip_norm,
            noise_multiplier_accounted: figures.noise_multiplier,
            deviation: figures.scale,
            exact: on_grid.is_exact(),
            feedback_error: figures.feedback_error,
            sensitivity_added: figures.sensitivity_added,
            range_failure: figures.range_failure,
            buffer_failure: figures.buffer_failure,
            rounding_failure: figures.rounding_failure,
        })
    }
}
