//! Rounds, and how often each is composed.

use super::class::Class;
use super::losses::Losses;
use super::pair::Pair;
use crate::error::{AccountingError, Result};

/// Most rounds of one composition, 2⁴⁰: beyond it the rounding that is charged for each round would dominate.
pub const MAX_ROUNDS: u64 = 1 << 40;

/// One round: one of some classes, each with a public probability. Most rounds are a single pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    classes: Vec<(f64, Class)>,
}

impl From<Pair> for Round {
    fn from(pair: Pair) -> Self {
        Self { classes: vec![(1.0, pair.into())] }
    }
}

impl From<Losses> for Round {
    fn from(losses: Losses) -> Self {
        Self { classes: vec![(1.0, losses.into())] }
    }
}

impl Round {
    /// Builds a round whose pair depends on something public and independent of the record, such as whether a batch was
    /// full. Classes of probability zero are left out.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] unless probabilities are in [0, 1] and sum to 1.
    pub fn of_classes<C: Into<Class>>(classes: Vec<(f64, C)>) -> Result<Self> {
        let total: f64 = classes.iter().map(|(weight, _)| weight).sum();
        let fits = |weight: &f64| (0.0..=1.0).contains(weight);
        if !classes.iter().all(|(weight, _)| fits(weight)) || (total - 1.0).abs() > 1e-9 {
            let what = "sum of a round's class probabilities";
            return Err(AccountingError::Invalid { what, value: total, allowed: "1, of parts in 0 to 1" });
        }
        let kept = classes.into_iter().filter(|(weight, _)| *weight > 0.0);
        Ok(Self { classes: kept.map(|(weight, class)| (weight, class.into())).collect() })
    }
}

/// Composed rounds, in one direction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Composition {
    pub(super) parts: Vec<(Round, u64)>,
}

impl Composition {
    /// Adds a round `count` times; adding it zero times changes nothing.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] where the rounds are more than 2⁴⁰.
    pub fn add(&mut self, round: Round, count: u64) -> Result<()> {
        let total = self.parts.iter().map(|(_, count)| *count).fold(count, u64::saturating_add);
        if total > MAX_ROUNDS {
            let what = "number of rounds";
            return Err(AccountingError::Invalid { what, value: total as f64, allowed: "at most 2^40" });
        }
        if count == 0 {
            return Ok(());
        }
        match self.parts.iter_mut().find(|(other, _)| *other == round) {
            Some((_, times)) => *times += count,
            None => self.parts.push((round, count)),
        }
        Ok(())
    }

    /// Builds the composition of one round with itself, `count` times.
    ///
    /// # Errors
    /// Those of [`Self::add`].
    pub fn repeated(round: impl Into<Round>, count: u64) -> Result<Self> {
        let mut composition = Self::default();
        composition.add(round.into(), count)?;
        Ok(composition)
    }

    /// Iterates over the rounds and how often each is composed.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&[(f64, Class)], u64)> {
        self.parts.iter().map(|(round, count)| (round.classes.as_slice(), *count))
    }

    /// Returns an upper bound of P's mass at losses of +∞, over all rounds.
    pub(super) fn infinite(&self) -> f64 {
        let of_class = |(weight, class): &(f64, Class)| match class {
            Class::Pair(_) => 0.0,
            Class::Losses(losses) => weight * losses.infinite(),
        };
        let of_round = |round: &Round| round.classes.iter().map(of_class).sum::<f64>();
        self.parts.iter().map(|(round, count)| *count as f64 * of_round(round)).sum()
    }

    pub(super) fn rounds(&self) -> f64 {
        self.parts.iter().map(|(_, count)| *count as f64).sum()
    }
}
