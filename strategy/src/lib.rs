//! Strategy matrices for correlated noise: what is added in round t is σζ·(C⁻¹Z)_t.
//!
//! Pure f64 mathematics, without randomness, clock or I/O. The conventions everywhere:
//!
//! * n (`iterations`) rounds, counted from 0; lower triangular n×n matrices; the workload A is the prefix sum unless a
//!   [`Workload`] is given.
//! * Participations i < j of one user satisfy **j − i ≥ min_sep**; at most `max_participations` of them.
//! * Sensitivities are per unit clip norm, errors in units of σζ, and losses = error × sensitivity; none is
//!   squared unless the name says so.
//!
//! Start at [`Strategy`], [`Participation`] and [`optimize::optimize`].

pub mod banded;
pub mod banded_inverse;
pub mod blt;
pub mod column_normalised;
mod covariance;
mod decoder;
pub mod dense;
mod dense_loss;
mod error;
mod kind;
mod loss;
mod numeric;
pub mod optimize;
mod participation;
mod patterns;
mod sensitivity;
pub mod series;
mod state_space;
mod strategy;
pub mod toeplitz;
pub mod tree;
pub mod workload;

pub use banded::Banded;
pub use blt::Blt;
pub use dense::Dense;
pub use error::{MAX_SERIES, Result, StrategyError};
pub use kind::MechanismKind;
pub use loss::Objective;
pub use participation::{Errors, Participation, Sensitivity};
pub use sensitivity::Schema;
pub use strategy::{MAX_BANDS, MAX_STREAMED, Strategy};
pub use tree::Tree;
pub use workload::Workload;
