//! plan.toml: everything that decides a job's noise, its canonical form and digest, and the coefficients to run with.
//!
//! A [`Plan`] is checked as a whole when it is built, so that every `Plan` may run. Its [digest](Plan::digest) covers
//! everything but the [`Layout`], which has a digest of its own. Symbols are those of the [notation](strategy#notation)
//! of crate `strategy`.
//!
//! ```
//! use plan::Plan;
//!
//! let plan = Plan::from_toml_str(
//!     r#"
//!     format = 1
//!     stream_version = 3
//!     iterations = 2000
//!     noise_multiplier = 7.379
//!     clip_norm = 1.0
//!     participation = { min_sep = 400, max_participations = 5 }
//!     mechanism = { name = "blt", theta = [0.99, 0.5], omega = [0.125, 0.25] }
//!     "#,
//! )?;
//! println!("sensitivity {:.3}", plan.accounted_sensitivity()?.value);
//! println!("{} f32 of state for each coordinate", plan.state_slots());
//!
//! // The digest goes into every key. A plan that is written and read again has the same one.
//! let again = Plan::from_toml_str(&plan.to_toml_string()?)?;
//! assert_eq!(plan.digest(), again.digest());
//! # Ok::<(), plan::PlanError>(())
//! ```
//!
//! # Layout
//!
//! * `plan`: [`Plan`], the checked whole; `spec`: [`PlanSpec`], the fields it is built from.
//! * `file`: the shape of plan.toml; `check`: the values it may hold; `error`: [`PlanError`].
//! * `mechanism`: [`Mechanism`]; `conversion`: the way between it and [`strategy::Strategy`], both directions.
//! * `extension`: a plan of more rounds whose matrix begins with the shorter one's.
//! * `canonical`: the text that digests are taken of; `layout`: [`Layout`].
//! * `round`, `series`: from f64 to the f32 [`Coefficients`], the one place where they are rounded.
//! * [`grid`]: plans whose noise is exact on a grid of integers; `grid_file`: `[grid]` in plan.toml.
//! * `rounded`: the matrix that these coefficients apply, and the sensitivity that an account uses.
//! * `streams`: the i.i.d. streams that rows are made of.

#![deny(missing_docs)]

mod canonical;
mod check;
mod coefficients;
mod conversion;
mod error;
mod extension;
mod file;
pub mod grid;
mod grid_file;
mod layout;
mod mechanism;
mod plan;
mod round;
mod rounded;
mod series;
mod spec;
mod stability;
mod streams;
#[cfg(test)]
mod tests;

pub use coefficients::{BandRows, Banded, Coefficients, Inverse, Tree, TreeSegment};
pub use error::PlanError;
pub use grid::{Grid, GridCoefficients, GridFigures, GridPlan, Rounding};
pub use layout::{Layout, Parameter, ParameterRange};
pub use mechanism::Mechanism;
pub use plan::Plan;
pub use round::noise_multiplier_to_run;
pub use rounded::accounted_sensitivity;
pub use spec::{FORMAT, PlanSpec, STREAM_VERSION};
pub use strategy::Participation;
