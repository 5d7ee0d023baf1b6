//! The account of tree aggregation: ρ and ε from the sensitivity of [`Tree`].

use strategy::{Participation, Tree};

use crate::error::Result;
use crate::report::Report;

/// Returns ρ = sens²/(2σ²) and the exact Gaussian ε at `delta` of a tree mechanism over `n` rounds.
///
/// Participations satisfy j − i ≥ `min_sep`; papers print MinS = min_sep − 1. Xu et al. (2023) print the ε of ρ rounded
/// to two digits, this function returns the ε of ρ itself.
///
/// # Errors
/// [`crate::AccountingError`] for unusable numbers.
pub fn account(
    tree: &Tree,
    n: u64,
    rule: Participation,
    noise_multiplier: f64,
    delta: f64,
) -> Result<Report> {
    Report::at_delta(tree.sensitivity(n, rule)?, noise_multiplier, delta)
}
