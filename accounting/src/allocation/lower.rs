//! Lower bounds of ε under random allocation: how far the pessimistic account may be above the truth.

use super::several::Statistic;
use super::{Bound, Epoch, check};
use crate::error::{Result, probability};
use crate::gaussian;
use crate::pld::{Composition, Losses};

/// Returns a lower bound of ε at `delta` of some epochs in which a record joins `participations` of `batches` batches. The law is
/// that of one sum in each round that the record moves by the clip norm; a run that moves its sums by less may cost less.
///
/// Of one batch it is all but exact. Of several it is what the best of two statistics shows: the sum over all rounds, and the one that
/// would decide best if each round had the record with probability k/t.
///
/// # Errors
/// Those of [`Epoch::new`], [`crate::AccountingError::Invalid`] unless 0 < δ < 1 and a record joins 1 to `batches` batches, and
/// [`crate::AccountingError::OutOfReach`] of more than 2^16 batches where it joins several.
pub fn epsilon_at_least(
    noise_multiplier: f64,
    batches: u64,
    participations: u64,
    epochs: u64,
    delta: f64,
) -> Result<f64> {
    probability("delta", delta)?;
    check(noise_multiplier, batches, participations)?;
    if participations == 1 {
        let epoch = Epoch::new(noise_multiplier, batches, Bound::Optimistic)?;
        let at_least = |losses| Composition::repeated(losses, epochs).map(|all| all.epsilon_at_least(delta));
        return Ok(at_least(epoch.remove)?.max(at_least(epoch.add)?));
    }
    // The sum of all rounds is a Gaussian of variance t·E that the record moves by k·E/σ.
    let moved = participations as f64 * (epochs as f64 / batches as f64).sqrt() / noise_multiplier;
    let of_sum = gaussian::epsilon(delta, moved)?;
    if participations == batches {
        return Ok(of_sum);
    }
    let Statistic { remove, add, rounding } = Statistic::new(noise_multiplier, batches, participations)?;
    let at_least = |losses: Losses| -> Result<f64> {
        let all = Composition::repeated(losses, epochs)?;
        let most = all.epsilon_at_least(delta);
        // δ of the computed laws is off by no more than this, up to ε of `most`.
        let off = epochs as f64 * rounding * (1.0 + most.exp());
        let within = delta + off < 1.0;
        Ok(if within { all.epsilon_at_least(delta + off).min(most) } else { 0.0 })
    };
    Ok(of_sum.max(at_least(remove)?).max(at_least(add)?))
}
