//! Plans whose noise is exact on a grid of integers: what `[grid]` says, and all that follows from it.
//!
//! Grid step γ = 2^step in the gradient's own units; s = σζ/γ is the noise's deviation in steps. Rows are
//! n_t = ⌊s_t·z_t − Σ_{j<t} C′_tj·n_j + ½⌋, integers of 32 bits, and a job adds them to sums that it has rounded to the
//! same grid. `docs/grid.md` has the theorems that the figures here rest on.
//!
//! * `setting`: [`Grid`] and [`Rounding`], the fields of `[grid]`; `choose`: a step and a rounding that fit.
//! * `coefficients`: [`GridCoefficients`], the numbers that run; `exact`: how they come from a mechanism.
//! * `deviation`: how far rows and buffers go; `figures`: [`GridFigures`], what an account takes from all of it.
//! * `summing`: [`summing_error`], κ of sums in `f32`.
//! * `matrix`: the matrix that is accounted for; `grid_plan`: [`GridPlan`], the checked whole.

mod choose;
mod coefficients;
mod deviation;
mod exact;
mod figures;
mod grid_plan;
mod matrix;
mod setting;
mod summing;

pub use choose::choose;
pub use coefficients::{GridBandRows, GridBanded, GridCoefficients, GridInverse};
pub use figures::{GridFigures, MAX_FAILURE};
pub use grid_plan::GridPlan;
pub(crate) use setting::missing_summing_error;
pub use setting::{Grid, Rounding};
pub use summing::{NormType, summing_error};
