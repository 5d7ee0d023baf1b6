//! Privacy losses that are known one by one: the distribution of mechanisms that no pair of Gaussians describes.

use std::sync::Arc;

use crate::error::{AccountingError, Result};

/// Most losses of one distribution: 16 MiB of them.
pub const MAX_LOSSES: usize = 1 << 20;

/// The farthest that masses may sum from 1.
const SUM_TOLERANCE: f64 = 1e-9;

/// Smallest finite logarithm of a mass that is kept.
const LN_SMALLEST: f64 = -745.0;

/// One loss ln P/Q, in nats, with the logarithm of P's mass there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loss {
    /// ln P/Q.
    pub loss: f64,
    /// ln of P's mass.
    pub ln_mass: f64,
}

/// The distribution, under P, of a privacy loss that takes finitely many values, and +∞.
#[derive(Debug, Clone, PartialEq)]
pub struct Losses {
    /// In ascending order of the loss.
    losses: Arc<[Loss]>,
    infinite: f64,
}

impl Losses {
    /// Builds a distribution of (loss, mass of P) in any order, and the mass whose loss is +∞. Masses of zero are left out.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] unless losses are finite, masses are in [0, 1], the masses sum to 1, and Q's mass, the
    /// sum of e^{−loss} times P's, is at most 1.
    pub fn new(losses: impl IntoIterator<Item = (f64, f64)>, infinite: f64) -> Result<Self> {
        let logs = losses.into_iter().map(|(loss, mass)| Loss { loss, ln_mass: mass.ln() });
        Self::of_logarithms(logs.collect(), infinite)
    }

    /// Builds a distribution from logarithms of masses, which may be smaller than f64 holds.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn of_logarithms(mut losses: Vec<Loss>, infinite: f64) -> Result<Self> {
        let invalid = |what, value, allowed| AccountingError::Invalid { what, value, allowed };
        if losses.len() > MAX_LOSSES {
            return Err(invalid("number of losses", losses.len() as f64, "at most 2^20"));
        }
        if let Some(wrong) = losses.iter().find(|one| !one.loss.is_finite()) {
            return Err(invalid("privacy loss", wrong.loss, "finite"));
        }
        if let Some(wrong) = losses.iter().find(|one| one.ln_mass.is_nan() || one.ln_mass > SUM_TOLERANCE) {
            return Err(invalid("mass of a privacy loss", wrong.ln_mass.exp(), "0 to 1"));
        }
        if !(0.0..=1.0).contains(&infinite) {
            return Err(invalid("mass of an infinite privacy loss", infinite, "0 to 1"));
        }
        losses.retain(|one| one.ln_mass > LN_SMALLEST);
        losses.sort_by(|a, b| a.loss.total_cmp(&b.loss));
        let p: f64 = losses.iter().map(|one| one.ln_mass.exp()).sum::<f64>() + infinite;
        if (p - 1.0).abs() > SUM_TOLERANCE {
            return Err(invalid("sum of the losses' masses", p, "1"));
        }
        let q: f64 = losses.iter().map(|one| (one.ln_mass - one.loss).exp()).sum();
        if q > 1.0 + SUM_TOLERANCE {
            return Err(invalid("sum of the losses' masses under the other data set", q, "at most 1"));
        }
        Ok(Self { losses: losses.into(), infinite })
    }

    /// Returns the mass of P whose loss is +∞.
    #[must_use]
    pub fn infinite(&self) -> f64 {
        self.infinite
    }

    /// Iterates over the finite losses, in ascending order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Loss> + '_ {
        self.losses.iter().copied()
    }

    /// Returns the losses that are left when up to e^{`ln_tail`} of P's mass at the largest of them counts as infinite, and
    /// that mass.
    pub(super) fn kept(&self, ln_tail: f64) -> (&[Loss], f64) {
        let most = ln_tail.exp();
        let mut cut = 0.0;
        let mut end = self.losses.len();
        while let Some(last) = end.checked_sub(1).and_then(|at| self.losses.get(at)) {
            let more = cut + last.ln_mass.exp();
            // One loss stays, so that there is a distribution to look at.
            if more > most || end == 1 {
                break;
            }
            cut = more;
            end -= 1;
        }
        (&self.losses[..end], self.infinite + cut)
    }

    /// Returns the losses with their masses as nodes of a quadrature, but for those of the tail, and the largest of them.
    pub(super) fn nodes(&self, ln_tail: f64) -> (impl Iterator<Item = (f64, f64)> + '_, f64) {
        let kept = self.kept(ln_tail).0;
        let top = kept.last().map_or(f64::NEG_INFINITY, |one| one.loss);
        (kept.iter().map(|one| (one.ln_mass, one.loss)), top)
    }

    /// Returns the largest loss, +∞ included.
    pub(super) fn top(&self) -> f64 {
        let finite = self.losses.last().map_or(f64::NEG_INFINITY, |one| one.loss);
        if self.infinite > 0.0 { f64::INFINITY } else { finite }
    }

    /// Returns the masses, under P and under Q, of the losses above a level.
    pub(super) fn above(&self, level: f64) -> (f64, f64) {
        let from = self.losses.partition_point(|one| one.loss <= level);
        let above = &self.losses[from..];
        let p = above.iter().rev().map(|one| one.ln_mass.exp()).sum::<f64>() + self.infinite;
        (p, above.iter().rev().map(|one| (one.ln_mass - one.loss).exp()).sum())
    }

    /// Returns up to `count` levels from `from` upwards.
    pub(super) fn levels(&self, from: f64, count: u32) -> Vec<f64> {
        let first = self.losses.partition_point(|one| one.loss <= from);
        let step = ((self.losses.len() - first) / count.max(1) as usize).max(1);
        let above = self.losses[first..].iter().step_by(step).map(|one| one.loss);
        std::iter::once(from).chain(above).take(count as usize).collect()
    }

    /// Returns the distribution of the same two data sets in the other order: Q's mass becomes P's. Mass that Q has where P
    /// has none becomes infinite.
    ///
    /// # Errors
    /// Those of [`Self::new`].
    pub fn reversed(&self) -> Result<Self> {
        let turned: Vec<Loss> =
            self.iter().map(|one| Loss { loss: -one.loss, ln_mass: one.ln_mass - one.loss }).collect();
        let q: f64 = turned.iter().rev().map(|one| one.ln_mass.exp()).sum();
        // What rounding alone leaves counts as infinite too, never as nothing.
        Self::of_logarithms(turned, (1.0 - q).max(0.0))
    }
}
