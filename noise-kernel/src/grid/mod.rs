//! Rows of exact noise on a grid: real Gaussian rows rounded to whole numbers, the rounded rows fed back.
//!
//! [`crate::Generator`] adds binary32 noise, whose last bits tell something of what it was added to. A grid row holds
//! whole numbers n_t = ⌊s_t·z_t − F + ½⌋ of real Gaussians z, F from the rows before. A sum of whole numbers and such a row
//! is a post-processing of the ideal mechanism, so that its accounts hold as they stand. The stream is specified in
//! `docs/grid-stream.md`.
//!
//! * `words`: 48 bits of each uniform, and 256 more; `normals`, `tables`: z̃ with a bound of its error, in binary64; `decide`:
//!   rounding where the bound allows it; `settle`: a row of a block, both ways.
//! * `limbs`, `fixed`, `exact`, `rounding`: whole numbers of any length, the normal to 300 bits, sums of such and their
//!   rounding.
//! * `family`, `check`, `mechanism`, `of_plan`: the numbers of a mechanism; `rows`, `banded`, `feedback`, `tree`, `call`: one call of the
//!   generator on one block; `state`, `task`, `generator`: [`GridGenerator`]; `error`: its errors.
//! * `oracle`, `oracle_tree`: [`GridOracle`], every row once more by exact arithmetic alone.

pub(crate) mod banded;
mod block_copy;
mod call;
mod check;
pub(crate) mod decide;
mod error;
pub(crate) mod exact;
mod family;
pub(crate) mod feedback;
mod fixed;
mod generator;
mod limbs;
mod mechanism;
pub(crate) mod normals;
mod of_plan;
mod oracle;
mod oracle_tree;
mod rounding;
pub(crate) mod rows;
mod settle;
mod state;
mod tables;
mod task;
mod tree;
pub(crate) mod words;

#[cfg(test)]
mod precision;

pub use error::GridRowError;
pub use family::{GridBandRows, GridBanded, GridDeviations, GridFamily, GridInverse};
pub use generator::GridGenerator;
pub use mechanism::GridMechanism;
pub use oracle::GridOracle;
pub use state::{GridElement, GridSnapshot};
