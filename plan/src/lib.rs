//! plan.toml: what noise a job gets, its canonical form and digest, and the coefficients to run with.
//!
//! A [`Plan`] is checked wholly when it is made: whoever holds one may run it. Its [digest](Plan::digest)
//! covers everything but the [`Layout`], which has a digest of its own.

mod canonical;
mod check;
mod coefficients;
mod error;
mod file;
mod layout;
mod mechanism;
mod round;
mod rounded;
mod series;
mod spec;
mod strategies;
mod streams;
#[cfg(test)]
mod tests;

pub use coefficients::{BandRows, Banded, Coefficients, Inverse, Tree, TreeSegment};
pub use error::PlanError;
pub use layout::{Layout, Parameter, Placed};
pub use mechanism::Mechanism;
pub use round::noise_multiplier_to_run;
pub use spec::{FORMAT, Participation, Plan, PlanSpec, STREAM_VERSION};
