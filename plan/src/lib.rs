//! plan.toml: what noise a job gets, its canonical form and digest, and the coefficients to run with.

mod coefficients;

pub use coefficients::{BandRows, Banded, Coefficients, Inverse, Tree, TreeSegment};
