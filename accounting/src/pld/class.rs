//! One class of a round: a pair of Gaussian mixtures, or losses that are known one by one.

use super::dots::ln_mass;
use super::losses::Losses;
use super::pair::Pair;
use crate::gaussian::bisect;

/// Distance from the largest shift beyond which no mass of a pair matters, in standard deviations.
const LINE_REACH: f64 = 40.0;
/// The distance of the highest level beyond the largest shift, in standard deviations.
const LEVEL_REACH: f64 = 6.0;

/// The output of one round under two neighbouring data sets.
#[derive(Debug, Clone, PartialEq)]
pub enum Class {
    /// Two mixtures of unit Gaussians.
    Pair(Pair),
    /// The distribution of the loss.
    Losses(Losses),
}

impl From<Pair> for Class {
    fn from(pair: Pair) -> Self {
        Self::Pair(pair)
    }
}

impl From<Losses> for Class {
    fn from(losses: Losses) -> Self {
        Self::Losses(losses)
    }
}

impl Class {
    /// Returns the largest loss that matters.
    pub(super) fn top(&self) -> f64 {
        match self {
            Self::Pair(pair) => pair.at(end(pair)).loss,
            Self::Losses(losses) => losses.top(),
        }
    }

    /// Returns the smallest loss that matters.
    pub(super) fn bottom(&self) -> f64 {
        match self {
            Self::Pair(pair) => pair.at(-end(pair)).loss,
            Self::Losses(losses) => losses.iter().next().map_or(0.0, |one| one.loss),
        }
    }

    /// Returns the masses, under P and under Q, of the losses above a level.
    pub(super) fn above(&self, level: f64) -> (f64, f64) {
        match self {
            Self::Pair(pair) => {
                let far = end(pair);
                let (_, x) = bisect(-far, far, |x| pair.at(x).loss > level);
                let tail = |side: &mut dyn Iterator<Item = (f64, f64)>| ln_mass(side, x, f64::INFINITY).exp();
                (tail(&mut pair.upper()), tail(&mut pair.lower()))
            }
            Self::Losses(losses) => losses.above(level),
        }
    }

    /// Returns `count` levels of loss at most, from ε upwards, at which a test may decide.
    pub(super) fn levels(&self, epsilon: f64, count: u32) -> Vec<f64> {
        match self {
            Self::Pair(pair) => {
                let (_, first) = bisect(-end(pair), end(pair), |x| pair.at(x).loss > epsilon);
                let step = (pair.steepest() + LEVEL_REACH - first).max(0.0) / f64::from(count);
                let level = |i| if i == 0 { epsilon } else { pair.at(first + step * f64::from(i)).loss };
                (0..count).map(level).collect()
            }
            Self::Losses(losses) => losses.levels(epsilon, count),
        }
    }
}

fn end(pair: &Pair) -> f64 {
    pair.steepest() + LINE_REACH
}
