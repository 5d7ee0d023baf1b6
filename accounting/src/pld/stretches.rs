//! Losses of mechanisms on a line, cut into stretches: connecting the dots for any two densities.

use super::dots::share_below;
use super::losses::{Loss, Losses};
use crate::error::Result;

/// A stretch of outputs: its masses under both data sets, and the losses that all of its losses lie between.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Stretch {
    /// ln of P's mass.
    pub ln_p: f64,
    /// ln of Q's mass.
    pub ln_q: f64,
    /// The smallest loss.
    pub low: f64,
    /// The largest loss.
    pub high: f64,
}

/// Builds losses whose δ is nowhere below that of the stretches: P's mass of each goes to its smallest and its largest loss, such
/// that Q's mass stays as well.
pub(crate) fn of_stretches(stretches: impl IntoIterator<Item = Stretch>, infinite: f64) -> Result<Losses> {
    let mut losses = Vec::new();
    for Stretch { ln_p, ln_q, low, high } in stretches {
        if high <= low {
            losses.push(Loss { loss: high, ln_mass: ln_p });
            continue;
        }
        let down = share_below(ln_p - ln_q - low, high - low);
        losses.push(Loss { loss: low, ln_mass: ln_p + down.ln() });
        losses.push(Loss { loss: high, ln_mass: ln_p + (1.0 - down).ln() });
    }
    // Masses that are summed in f64 miss 1 by their rounding.
    let sum: f64 = losses.iter().map(|one| one.ln_mass.exp()).sum::<f64>() + infinite;
    let scale = if (sum - 1.0).abs() < 1e-9 { -sum.ln() } else { 0.0 };
    losses.iter_mut().for_each(|one| one.ln_mass += scale);
    Losses::of_logarithms(losses, infinite)
}
