//! Lower bounds of ε under random allocation: how far the pessimistic account may be above the truth.

use super::{Bound, Epoch};
use crate::error::{Result, probability};
use crate::pld::Composition;

/// Returns a lower bound of ε at `delta` of some epochs in which a record joins one of `batches` batches. The law is that of one
/// sum in each round that the record moves by the clip norm; a run that moves its sums by less may cost less.
///
/// # Errors
/// Those of [`Epoch::new`], and [`crate::AccountingError::Invalid`] unless 0 < δ < 1.
pub fn epsilon_at_least(noise_multiplier: f64, batches: u64, epochs: u64, delta: f64) -> Result<f64> {
    probability("delta", delta)?;
    let epoch = Epoch::new(noise_multiplier, batches, Bound::Optimistic)?;
    let at_least = |losses| Composition::repeated(losses, epochs).map(|all| all.epsilon_at_least(delta));
    Ok(at_least(epoch.remove)?.max(at_least(epoch.add)?))
}
