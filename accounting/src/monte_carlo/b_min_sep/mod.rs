//! b-min-sep batches with banded noise.
//!
//! In each round every record that took part in none of the min_sep − 1 rounds before joins with probability q, so two
//! rounds i < j of a record satisfy j − i ≥ min_sep. The sets of rounds are too many to sum over. But where C has at most
//! min_sep bands, the columns that a record can take together don't overlap, so the exponent of a set is the sum of the
//! exponents of its rounds, and the likelihood ratio is a recursion over the rounds (`recursion`):
//!
//! ```text
//! d_t = c_t·x/σ²                                    the products of the columns with the output x
//! w_t = q·exp(d_t − |c_t|²/(2σ²))                   the weight of taking round t
//! r_t = (1 − q)·r_{t+1} + w_t·r_{t+min_sep}         r_t = 1 for t ≥ n; t from the last round back
//! P(x)/Q(x) = r_0                                   or, after a warm start, a mean over the first free round
//! ```
//!
//! A sample costs O(n·bands). Proposals are mixtures of the pair's own kind, with another q and longer means, whose ratios
//! come from the same recursion (`proposal`). Choquette-Choo et al. (2024) treat balls-in-bins alone; the pair here is that
//! of the proof of their Lemma 3.2 for other sets.

mod columns;
mod draw;
mod join_rule;
mod proposal;
mod recursion;
mod workspace;

use strategy::Strategy;

use self::columns::Columns;
use self::draw::Sampler;
use self::join_rule::JoinRule;
use super::figures::Delta;
use super::pair::LossSampler;
use super::stream::Draw;
use crate::error::{Result, invalid, not_negative, positive};
use crate::neighbouring::Direction;

/// Most rounds, 2²⁰: a sample holds a few numbers for each.
pub const MAX_ROUNDS: u64 = 1 << 20;

/// A mechanism with banded noise under b-min-sep batches, for any σ.
///
/// ```
/// use accounting::monte_carlo::{BMinSep, Pair, SampleBudget};
/// use strategy::Strategy;
///
/// # fn main() -> accounting::Result<()> {
/// // Two bands; a record rests for 3 rounds after each that it takes.
/// let mechanism = BMinSep::new(&Strategy::BandSqrt { bands: 2 }, 16, 4, 0.1, true)?;
/// let budget = SampleBudget { samples: 1 << 12, seed: 1 };
/// let delta = mechanism.delta(1.0, 2.0, budget)?.worse();
/// assert!(delta.delta < accounting::gaussian::delta(2.0, mechanism.sensitivity())?);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct BMinSep {
    columns: Columns,
    rule: JoinRule,
}

impl BMinSep {
    /// Builds the mechanism of a strategy of at most `min_sep` bands over `n` rounds, in each of which a free record joins
    /// with `sampling_probability`. With `warm_start` records may still rest from rounds before the first, as if batches
    /// had always been formed.
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
