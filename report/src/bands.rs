//! The number of bands of a plan's C.

use plan::{Mechanism, Plan};

/// Returns the number of bands of C; `None` where it has none. Cyclic Poisson sampling amplifies only strategies with
/// bands.
#[must_use]
pub fn bands(plan: &Plan) -> Option<u64> {
    of(plan.mechanism())
}

fn of(mechanism: &Mechanism) -> Option<u64> {
    match mechanism {
        Mechanism::Identity => Some(1),
        Mechanism::BandToeplitz { coefficients, .. } => Some(coefficients.len() as u64),
        Mechanism::BandMf { columns } => columns.first().map(|column| column.len() as u64),
        Mechanism::BandSqrt { bands } => Some(*bands),
        Mechanism::Scaled { base, .. } => of(base),
        _ => None,
    }
}
