//! b-min-sep sampler with banded noise.
//!
//! In each round every record that took part in none of the min_sep − 1 rounds before joins with probability q: two
//! rounds i < j of a record satisfy j − i ≥ min_sep. Sets of rounds are too many to sum over; but where C has at most
//! min_sep bands, columns that a record can take together don't overlap, so that the exponent of a set is the sum of
//! its rounds' own, and the likelihood ratio is a recursion over the rounds ([`recursion`]). A sample costs O(n·bands).
//!
//! Proposals are mixtures of the pair's own kind, with another q and longer means, whose ratios come from the same
//! recursion: see [`proposal`]. papers/003 treats balls-in-bins alone; the pair here is that of Lemma 3.2's proof for
//! other sets.

mod columns;
mod draw;
mod join_rule;
mod proposal;
mod recursion;

use strategy::Strategy;

use self::columns::Columns;
use self::draw::Sampler;
use self::join_rule::JoinRule;
use super::figures::Delta;
use super::pair::LossSampler;
use super::stream::Draw;
use crate::error::{Result, invalid, not_negative, positive};
use crate::neighbouring::Direction;

/// Most rounds: a sample holds a few numbers for each.
pub const MAX_ROUNDS: u64 = 1 << 20;

/// One mechanism under b-min-sep sampler, for any σ.
#[derive(Debug, Clone)]
pub struct BMinSep {
    columns: Columns,
    rule: JoinRule,
}

impl BMinSep {
    /// A strategy of at most `min_sep` bands over `n` rounds, in each of which a free record joins with
    /// `sampling_probability`. `warm_start`: records may rest still from rounds before the first, as if sampler had
    /// been formed for ever.
    ///
    /// # Errors
    /// [`crate::AccountingError::Invalid`] unless 1 ≤ n ≤ [`MAX_ROUNDS`], min_sep ≥ 1, 0 < q ≤ 1, C has no negative entry and
    /// at most min_sep bands; [`crate::AccountingError::Strategy`] for a strategy that can't be evaluated.
    pub fn new(
        strategy: &Strategy,
        n: u64,
        min_sep: u64,
        sampling_probability: f64,
        warm_start: bool,
    ) -> Result<Self> {
        if !(1..=MAX_ROUNDS).contains(&n) {
            return Err(invalid("iterations", n as f64, "1 to 1048576"));
        }
        if min_sep == 0 {
            return Err(invalid("min_sep", 0.0, "1 and more"));
        }
        if !(sampling_probability > 0.0 && sampling_probability <= 1.0) {
            return Err(invalid("sampling probability", sampling_probability, "above 0, at most 1"));
        }
        let columns = Columns::new(strategy, n, min_sep)?;
        let rule = JoinRule { min_sep: min_sep as usize, q: sampling_probability, warm: warm_start };
        Ok(Self { columns, rule })
    }

    fn sampler(&self, sigma: f64) -> Result<Sampler<'_>> {
        positive("noise multiplier", sigma)?;
        let most = self.longest() / sigma;
        positive("sensitivity / noise multiplier", most * most)?;
        Ok(Sampler::new(&self.columns, self.rule, sigma))
    }
}

impl LossSampler for BMinSep {
    fn longest(&self) -> f64 {
        recursion::longest(&self.columns.norms(), self.rule.min_sep).sqrt()
    }

    fn delta_with(&self, sigma: f64, epsilon: f64, draw: Draw) -> Result<Delta> {
        not_negative("epsilon", epsilon)?;
        let sampler = self.sampler(sigma)?;
        let [remove, add] = Direction::BOTH.map(|order| sampler.proposal(order, epsilon, draw));
        Ok(Delta { remove: sampler.delta(&remove, epsilon, draw), add: sampler.delta(&add, epsilon, draw) })
    }

    fn losses(&self, sigma: f64, order: Direction, about: f64, draw: Draw) -> Result<Vec<(f64, f64)>> {
        let sampler = self.sampler(sigma)?;
        Ok(sampler.losses(&sampler.proposal(order, about, draw), draw))
    }
}
