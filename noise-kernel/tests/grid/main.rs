//! Rows of exact noise on a grid: vectors made elsewhere, theorem 1 in rationals, the oracle, ranges, backends, restarts, statistics, refusals.

#![allow(clippy::unwrap_used)]

mod cases;
mod equivariance;
mod feedback_error;
mod golden;
mod rechecks;
mod refusals;
mod same_rows;
mod statistics;
