//! Rows of exact noise on a grid: vectors made elsewhere, the oracle, ranges, backends, restarts, statistics, refusals.

#![allow(clippy::unwrap_used)]

mod cases;
mod feedback_error;
mod golden;
mod rechecks;
mod refusals;
mod same_rows;
mod statistics;
