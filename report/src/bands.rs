//! How many bands a plan's C has.

use plan::{Mechanism, Plan};

/// The bands of C, where it has any: what cyclic Poisson sampling is amplified by.
#[must_use]
pub fn bands(plan: &Plan) -> Option<u64> {
    match plan.mechanism() {
        Mechanism::Identity => Some(1),
        Mechanism::BandToeplitz { coefficients, .. } => Some(coefficients.len() as u64),
        Mechanism::BandMf { columns } => columns.first().map(|column| column.len() as u64),
        Mechanism::BandSqrt { bands } => Some(*bands),
        _ => None,
    }
}
