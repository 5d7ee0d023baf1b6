//! Strategy matrices for correlated noise: the noise added in round t is σζ·(C⁻¹Z)_t.
//!
//! The crate is pure f64 mathematics, without randomness, clock or I/O: sensitivities and errors of every mechanism,
//! and the optimizers that find their parameters. Start at [`Strategy`], [`Participation`] and [`optimize::optimize`].
//!
//! ```
//! use std::ops::ControlFlow;
//! use strategy::optimize::{Family, Objective, Target, optimize};
//! use strategy::{Participation, Strategy};
//!
//! // 200 rounds; a user takes part at most 4 times, at least 50 rounds apart.
//! let rule = Participation::new(50, 4)?;
//! let target = Target::new(200, rule, Objective::Rms);
//! let found = optimize(Family::Blt { buffers: 2 }, &target, &mut |_| ControlFlow::Continue(()))?;
//! println!("RMS error {:.3} σζ at sensitivity {:.3}", found.rms_error, found.sensitivity.value);
//! assert!(found.converged);
//! assert!(found.loss < 0.6 * target.loss(&Strategy::Identity)?);
//! # Ok::<(), strategy::StrategyError>(())
//! ```
//!
//! # Conventions
//!
//! * n (`iterations`) rounds, counted from 0; lower triangular n×n matrices; the workload A is the prefix sum unless a
//!   [`Workload`] is given.
//! * Participations i < j of one user satisfy **j − i ≥ min_sep**; there are at most `max_participations` of them.
//! * Sensitivities are per unit clip norm, errors in units of σζ, and losses are error × sensitivity; none is squared
//!   unless its name says so.
//!
//! # Notation
//!
//! | symbol | name in the API | meaning |
//! |---|---|---|
//! | n | `n`, `iterations` | rounds of the run; rows of every matrix |
//! | d | `dimension` (crate `plan`) | coordinates of the model; columns of Z |
//! | d of a BLT | [`Blt::buffers`] | number of its buffers |
//! | Z | `Stream` (crate `noise-kernel`) | independent standard normals, n×d |
//! | C | [`Strategy`] | strategy matrix, n×n and lower triangular |
//! | C⁻¹ | [`Strategy::c_inverse_row`] | noising matrix: row t of σζ·C⁻¹Z is added in round t |
//! | A | [`Workload`] | queries: row t of A·(gradients + noise) is released in round t |
//! | B = A·C⁻¹ | [`Strategy::row_errors_squared`] | decoder: the noise of the released rows is σζ·BZ |
//! | σ | `noise_multiplier` (crate `plan`) | noise multiplier, in units of the clip norm |
//! | ζ | `clip_norm` (crate `plan`) | largest norm of one contribution |
//! | b | [`Participation::min_sep`] | least j − i between two participations i < j of one user |
//! | k | [`Participation::max_participations`] | most participations of one user |
//! | p, b̂ | `bands` | diagonals of C, or of C⁻¹; the papers write b̂ |
//! | θ, ω | [`Blt::theta`], [`Blt::omega`] | decays and output weights of a BLT's buffers |
//! | φ, φ̂ | – | 1−θ, and 1−θ̂ for the decays θ̂ of the inverse BLT |
//! | c, s | `c`, `s` | first columns of a Toeplitz C and of a Toeplitz C⁻¹ |
//! | X = CᵀC | – | Gram matrix: how far columns overlap |
//! | sens(C) | [`Sensitivity`] | largest ‖C u‖₂ of one user's allowed contributions of norm ≤ 1 |
//! | e_t | [`Errors`] | error of row t, √(Σ_j B_tj²) |
//! | loss | [`optimize::Target::loss`] | error × sens(C): the error at a given privacy |
//! | β, λ, η_t | [`workload::Momentum`] | momentum, weight decay and learning rate of round t |
//! | λ | [`Strategy::LambdaCgd`] | the one parameter of λ-CGD |
//!
//! # Layout
//!
//! * `strategy`: [`Strategy`], the enum over all mechanisms, and what needs to know all of them (rows, errors on a
//!   workload, sensitivities by schema).
//! * [`banded`], [`banded_inverse`], [`blt`], [`column_normalised`], [`dense`], [`scaled`], [`toeplitz`], [`tree`]: one
//!   mechanism each; [`series`] is the arithmetic of Toeplitz matrices.
//! * `sensitivity`, `patterns`: worst participation patterns, exact or bounded.
//! * [`workload`], `decoder`, `covariance`, `state_space`, `dense_loss`: errors and their gradients.
//! * [`optimize`]: the optimizers, one file for each family.
//! * `kind`, `participation`, `loss`, `error`, `numeric`: the types and small tools that all of these share.

#![deny(missing_docs)]

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
pub mod scaled;
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
pub use scaled::{ColumnScales, Scaled};
pub use sensitivity::Schema;
pub use strategy::{MAX_BANDS, MAX_STREAMED, Strategy};
pub use tree::Tree;
pub use workload::Workload;
