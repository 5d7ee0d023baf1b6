//! Losses that dominate a pair, given what the account reveals.

use super::reach::Reach;
use crate::allocation::{Bound, Epoch, LEAST_NOISE};
use crate::error::Result;
use crate::pld::{Class, Composition, Pair, Profile, Round};

/// A Gaussian mechanism and rounds whose composition dominates.
#[derive(Debug, Clone)]
pub(super) struct Cover {
    /// μ² of the Gaussian mechanism.
    pub common: f64,
    /// The batches that the account leaves a record hidden among.
    pub hidden_among: u64,
    /// What a batch among them moves, in units of σ.
    mu: f64,
    /// The probability that a batch is revealed, and what it moves then.
    revealed: (f64, f64),
    rounds: u64,
}

impl Cover {
    /// Covers batches on a circle, all epochs at once: no two of those left are nearer than `gap`.
    pub fn of_circle(reach: &Reach, sigma: f64, batches: u64, gap: u64) -> Self {
        let left = (batches / gap).max(1);
        let shared = if left == 1 { 0.0 } else { reach.at(batches / left) };
        Self {
            common: shared / (sigma * sigma),
            hidden_among: left,
            mu: (reach.at(0) - shared).max(0.0).sqrt() / sigma,
            revealed: (0.0, 0.0),
            rounds: 1,
        }
    }

    /// Covers batches that are drawn anew in each epoch: no two of those left in one are nearer than `gap`, and neither are those
    /// of two epochs, but for the last `gap` − 1 of one and the first of the next.
    pub fn of_line(reach: &Reach, sigma: f64, (batches, epochs): (u64, u64), gap: u64) -> Self {
        let last = if epochs > 1 { gap - 1 } else { 0 };
        let left = ((batches - last) / gap).max(1);
        let shared = if left == 1 { 0.0 } else { reach.at(gap) };
        let next = 2.0 * epochs.saturating_sub(1) as f64 * reach.at(gap);
        let apart = |k: u64| 2.0 * (epochs - k) as f64 * reach.at((k - 1).saturating_mul(batches) + 1);
        let others: f64 = (2..epochs).map(apart).sum();
        Self {
            common: (epochs as f64 * shared + next + others) / (sigma * sigma),
            hidden_among: left,
            mu: (reach.at(0) - shared).max(0.0).sqrt() / sigma,
            revealed: (last as f64 / batches as f64, (reach.at(0) + 2.0 * reach.at(1)).sqrt() / sigma),
            rounds: epochs,
        }
    }

    /// Returns the losses of both orders.
    pub fn profile(&self) -> Result<Profile> {
        let (remove, add) = one_of(self.hidden_among, self.mu)?;
        Ok(Profile { remove: self.composed(remove)?, add: self.composed(add)? })
    }

    fn composed(&self, hidden: Class) -> Result<Composition> {
        let mut classes = vec![(1.0 - self.revealed.0, hidden)];
        if self.revealed.0 > 0.0 {
            classes.push((self.revealed.0, gaussian(self.revealed.1)?));
        }
        let mut all = Composition::repeated(Round::of_classes(classes)?, self.rounds)?;
        if self.common > 0.0 {
            all.add(Pair::gaussian(self.common.sqrt())?.into(), 1)?;
        }
        Ok(all)
    }
}

/// Returns the losses of one of `count` batches that a record moves by μ: with it against without, and the reverse.
fn one_of(count: u64, mu: f64) -> Result<(Class, Class)> {
    if count == 1 || mu > 1.0 / LEAST_NOISE {
        let known = gaussian(mu)?;
        return Ok((known.clone(), known));
    }
    // A move of nothing counts as one by the least that has an account.
    let epoch = Epoch::new(1.0 / mu.max(f64::MIN_POSITIVE.sqrt()), count, Bound::Pessimistic)?;
    Ok((epoch.remove.into(), epoch.add.into()))
}

fn gaussian(mu: f64) -> Result<Class> {
    Ok(Pair::gaussian(mu)?.into())
}

/// Returns the least figure of some gaps between 1 and `batches`, with the cover it is of: powers of two, and those near the best. What
/// the Gaussian part of a cover costs alone, `floor`, may show that it isn't the least.
pub(super) fn search(
    batches: u64,
    cover: impl Fn(u64) -> Cover,
    floor: impl Fn(&Cover) -> Result<f64>,
    figure: impl Fn(&Cover) -> Result<f64>,
) -> Result<(f64, Cover)> {
    let known = cover(batches);
    let mut best = (figure(&known)?, known, batches);
    let attempt = |gap: u64, best: &mut (f64, Cover, u64)| -> Result<()> {
        let next = cover(gap);
        if floor(&next)? < best.0 {
            let found = figure(&next)?;
            if found < best.0 {
                *best = (found, next, gap);
            }
        }
        Ok(())
    };
    for gap in (0..u64::BITS).map(|bit| 1u64 << bit).take_while(|gap| *gap < batches) {
        attempt(gap, &mut best)?;
    }
    let coarse = best.2;
    for gap in [coarse * 3 / 4, coarse * 5 / 4, coarse * 3 / 2] {
        if gap > 0 && gap != coarse && gap < batches {
            attempt(gap, &mut best)?;
        }
    }
    Ok((best.0, best.1))
}
