//! plan.toml: what noise a job gets, its canonical form and digest, and the coefficients to run with.
//!
//! A [`Plan`] is checked wholly when it is made: whoever holds one may run it. Its [digest](Plan::digest)
//! covers everything but the [`Layout`], which has a digest of its own.

#![deny(missing_docs)]

mod canonical;
mod check;
mod coefficients;
mod conversion;
mod error;
mod file;
mod layout;
mod mechanism;
mod plan;
mod round;
mod rounded;
mod series;
mod spec;
mod streams;
#[cfg(test)]
mod tests;

pub use coefficients::{BandRows, Banded, Coefficients, Inverse, Tree, TreeSegment};
pub use error::PlanError;
pub use layout::{Layout, Parameter, Placed};
pub use mechanism::Mechanism;
pub use plan::Plan;
pub use round::noise_multiplier_to_run;
pub use rounded::accounted_sensitivity;
pub use spec::{FORMAT, PlanSpec, STREAM_VERSION};
pub use strategy::Participation;
