//! Privacy accounts of correlated-noise mechanisms.
//!
//! The neighbouring relation throughout: two data sets are neighbours when one is the other with **all
//! participations of one user zeroed out** (equivalently, for sums of clipped contributions, that user added
//! or removed). A user's contribution to each round has norm at most the clip norm ζ, participations i < j
//! satisfy j − i ≥ min_sep, there are at most max_participations, and the noise is σζ·C⁻¹Z, so that
//!
//! * `sensitivity` is sens(C) per unit clip norm,
//! * `noise_multiplier` is σ, and the mechanism is Gaussian with μ = sens(C)/σ.
//!
//! Under replacement of one user's data the sensitivity doubles; no function here does that by itself.
//! Amplification by sampling is not in this crate: every account holds for any order of participation.

mod account;
pub mod amplified;
pub mod calibration;
pub mod clipping;
mod error;
mod event;
pub mod gaussian;
mod neighbouring;
pub mod normal;
pub mod pld;
pub mod renyi;
mod report;
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
