//! A plan's grid, checked as a whole.

use strategy::Strategy;

use super::coefficients::GridCoefficients;
use super::deviation::{Deviations, deviations};
use super::exact;
use super::figures::{DEVIATIONS, GridFigures, Run};
use super::matrix::matrix;
use super::setting::{Grid, Rounding};
use crate::error::require;
use crate::{Layout, PlanError, PlanSpec};

/// Least s: a noise of fewer steps would be seen to be rounded.
const LEAST_SCALE: f64 = 64.0;

/// Largest σ√d/s with which `nearest` costs next to nothing: ζ′ is larger than ζ by this share.
pub(super) const NEAREST: f64 = 2.5e-4;

/// The same for `dithered`, whose share is an eighth of the square.
const DITHERED: f64 = 0.0447;

/// The same for `contributions`, which lose half of it from their clip norm.
const CONTRIBUTIONS: f64 = 0.02;

/// The numbers that a plan's rows on the grid are made with, and what accounts take from them.
#[derive(Clone, Debug)]
pub struct GridPlan {
    grid: Grid,
    coefficients: GridCoefficients,
    figures: GridFigures,
    matrix: Strategy,
}

impl GridPlan {
    /// Checks `grid` for the other fields of a plan, which have been checked, and computes all that follows.
    ///
    /// # Errors
    /// [`PlanError::Field`] or [`PlanError::Missing`] naming the field and what to do.
    pub(crate) fn new(spec: &PlanSpec, grid: Grid, nominal: &Strategy) -> Result<Self, PlanError> {
        grid.check()?;
        let dimension = dimension(spec)?;
        let n = spec.iterations;
        let scale = scale(spec, grid);
        check_scale(scale)?;
        check_rounding(grid, share(spec, grid, dimension))?;
        let coefficients = exact::coefficients(&spec.mechanism, n, scale)?;
        let deviations = deviations(&coefficients, n, scale)?;
        let run = Run {
            grid,
            coefficients: &coefficients,
            deviations: &deviations,
            dimension,
            iterations: n,
            clip_norm: spec.clip_norm,
            scale,
        };
        check_range(&run, &deviations)?;
        let figures = run.figures()?;
        let matrix = matrix(&coefficients, nominal, n, scale)?;
        Ok(Self { grid, coefficients, figures, matrix })
    }

    /// Returns the fields of `[grid]`.
    #[must_use]
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Returns the numbers that rows are made with.
    #[must_use]
    pub fn coefficients(&self) -> &GridCoefficients {
        &self.coefficients
    }

    /// Returns the figures that accounts and statements take.
    #[must_use]
    pub fn figures(&self) -> &GridFigures {
        &self.figures
    }

    /// Returns true where a release is a function of the ideal mechanism's (theorem 1); false where it is only close to it
    /// (theorem 2), as with the feedback of a BLT in binary64.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.figures.feedback_error == 0.0
    }

    /// The matrix that runs.
    pub(crate) fn matrix(&self) -> &Strategy {
        &self.matrix
    }

    /// The `f32` that a worker's state takes up for each coordinate, where a float plan has `slots`: buffers of a BLT
    /// are binary64.
    pub(crate) fn state_slots(&self, slots: usize) -> usize {
        if matches!(self.coefficients, GridCoefficients::Blt { .. }) { 2 * slots } else { slots }
    }
}

/// d, which the account depends on.
pub(super) fn dimension(spec: &PlanSpec) -> Result<u64, PlanError> {
    spec.layout.as_ref().map(Layout::dimension).ok_or_else(|| {
        PlanError::missing("layout.dimension", "given where there is [grid]: the account depends on it")
    })
}

/// s = σζ/γ: one product, and an exact division by a power of two.
pub(super) fn scale(spec: &PlanSpec, grid: Grid) -> f64 {
    spec.noise_multiplier * spec.clip_norm / grid.step_size()
}

/// σ√d/s = γ√d/ζ, beside which the rounding's cost is small or not.
pub(super) fn share(spec: &PlanSpec, grid: Grid, dimension: u64) -> f64 {
    grid.step_size() * (dimension as f64).sqrt() / spec.clip_norm
}

fn check_scale(scale: f64) -> Result<(), PlanError> {
    let allowed = format!("a step with s = σζ/2^step at least {LEAST_SCALE}: a smaller step, or more noise");
    require(
        scale >= LEAST_SCALE && scale.is_finite(),
        "grid.step",
        format!("one with s = {scale:e}"),
        allowed,
    )
}

fn check_rounding(grid: Grid, share: f64) -> Result<(), PlanError> {
    let name = grid.rounding.name();
    let limit = match grid.rounding {
        Rounding::Nearest => NEAREST,
        Rounding::Dithered => DITHERED,
        Rounding::Contributions => CONTRIBUTIONS,
    };
    let instead = match grid.rounding {
        Rounding::Nearest => "take \"dithered\", or a smaller step",
        Rounding::Dithered | Rounding::Contributions => "take a smaller step",
    };
    let allowed = format!("{name:?} with σ√d/s up to {limit}; {instead}");
    require(share <= limit, "grid.rounding", format!("{name:?} with σ√d/s = {share:.2e}"), allowed)
}

fn check_range(run: &Run<'_>, deviations: &Deviations) -> Result<(), PlanError> {
    let distance = run.distance();
    let value = format!(
        "one with s = {:e}, where rows of {:.3} s reach the end of 32 bits at {distance:.1} deviations",
        run.scale, deviations.row
    );
    let allowed = format!("a step with {DEVIATIONS} deviations or more: a larger step");
    require(distance >= DEVIATIONS, "grid.step", value, allowed)
}

/// Returns whether rows stay within 32 bits with this step.
pub(super) fn in_range(spec: &PlanSpec, grid: Grid) -> Result<bool, PlanError> {
    let scale = scale(spec, grid);
    let coefficients = exact::coefficients(&spec.mechanism, spec.iterations, scale)?;
    let deviations = deviations(&coefficients, spec.iterations, scale)?;
    let run = Run {
        grid,
        coefficients: &coefficients,
        deviations: &deviations,
        dimension: 1,
        iterations: spec.iterations,
        clip_norm: spec.clip_norm,
        scale,
    };
    Ok(run.distance() >= DEVIATIONS)
}
