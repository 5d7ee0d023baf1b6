//! Toeplitz strategies with a scale of the columns for each participation: coefficients and scales together.
//!
//! The scales are s_e for the rounds from e·min_sep on, e < k, the last one to the end; the unknowns are the ratios
//! s_e/s_{e−1}, logistic functions of free numbers, so that scales never rise and [`crate::scaled`]'s pattern (0, b, 2b, …)
//! is the worst at every step: the loss is exact for any number of bands. Rounds after the last scale's begin are in no
//! worst pattern of their own, and have no reason for a scale that is smaller still.

mod blt;
mod choice;
mod error;
mod normalised;
mod problem;
mod toeplitz;

pub(super) use blt::{optimize as optimize_blt, optimize_auto as optimize_blt_auto};
pub(super) use toeplitz::optimize as optimize_toeplitz;
