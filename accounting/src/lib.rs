//! Privacy accounts of correlated-noise mechanisms and of sampled rounds.
//!
//! Without sampling the neighbouring relation is: two data sets are neighbours when one is the other with **all
//! participations of one user zeroed out** (equivalently, for sums of clipped contributions, that user added
//! or removed). A user's contribution to each round has norm at most the clip norm ζ, participations i < j
//! satisfy j − i ≥ min_sep, there are at most max_participations, and the noise is σζ·C⁻¹Z, so that
//!
//! * `sensitivity` is sens(C) per unit clip norm,
//! * `noise_multiplier` is σ, and the mechanism is Gaussian with μ = sens(C)/σ.
//!
//! Under replacement of one user's data the sensitivity doubles; [`Report`] doesn't do that by itself.
//!
//! An [`Event`] says what ran and an [`Account`] what it costs under one [`Neighbouring`] relation, which does the
//! doubling: exactly for Gaussian mechanisms ([`gaussian`]), by privacy-loss distributions where records are
//! sampled ([`pld`]), by Rényi divergences where part of it is only known to be zCDP ([`renyi`]). Sampling counts
//! only where it is part of an event. No figure is below the exact one beyond f64's rounding, but those of
//! [`monte_carlo`], which are estimates with a standard error: what is promised there is a
//! [`Verdict`](monte_carlo::Verdict)'s to say.

mod account;
pub mod amplification;
pub mod calibration;
pub mod clipping;
mod error;
mod event;
pub mod gaussian;
pub mod monte_carlo;
mod neighbouring;
pub mod normal;
pub mod pld;
pub mod renyi;
mod report;
pub mod rewind;
mod search;
pub mod summary;
pub mod tree;
pub mod user_level;
pub mod zcdp;

pub use account::Account;
pub use error::{AccountingError, Result};
pub use event::{Event, MatrixMechanism, Partition, Sampling};
pub use gaussian::calibrate_gaussian;
pub use neighbouring::{Direction, Neighbouring};
pub use report::{Report, account, calibrate};
pub use strategy::Sensitivity;
