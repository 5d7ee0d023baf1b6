//! A mechanism in both directions: a record removed, a record added.

use super::composition::Composition;
use super::figure::{ACCURACY, Figure};
use crate::error::Result;

/// Both directions of a mechanism; every figure is the worse of the two.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    pub remove: Composition,
    pub add: Composition,
}

impl Profile {
    /// As [`Composition::epsilon`], of both directions.
    ///
    /// # Errors
    /// As [`Composition::epsilon`].
    pub fn epsilon_figure(&self, delta: f64, accuracy: f64) -> Result<Figure> {
        let remove = self.remove.epsilon(delta, accuracy)?;
        if self.add == self.remove {
            return Ok(remove);
        }
        // Mostly removal is the worse. Chernoff's bound of the other may be enough to know, or a coarse look, as
        // neither is optimistic.
        if self.add.chernoff_epsilon(delta) <= remove.value {
            return Ok(remove);
        }
        let coarse = self.add.epsilon(delta, (50.0 * accuracy).max(1e-3))?;
        if coarse.value <= remove.value {
            return Ok(remove);
        }
        let add = self.add.epsilon(delta, accuracy)?;
        Ok(if add.value > remove.value { add } else { remove })
    }

    /// An ε ≥ 0 with δ(ε) ≤ `delta`, at most about [`ACCURACY`] (relative) above the smallest.
    ///
    /// # Errors
    /// As [`Composition::epsilon`].
    pub fn epsilon(&self, delta: f64) -> Result<f64> {
        Ok(self.epsilon_figure(delta, ACCURACY)?.value)
    }

    /// An upper bound of δ(ε); ε may be negative.
    ///
    /// # Errors
    /// As [`Composition::delta`].
    pub fn delta(&self, epsilon: f64) -> Result<f64> {
        let remove = self.remove.delta(epsilon, ACCURACY)?.value;
        if self.add == self.remove {
            return Ok(remove);
        }
        // Where Chernoff's bound of the other is far below, it can't be the worse.
        if self.add.chernoff_ln_delta(epsilon) < remove.ln() - 3.0 {
            return Ok(remove);
        }
        Ok(remove.max(self.add.delta(epsilon, ACCURACY)?.value))
    }

    /// δ at each ε: the whole curve, each point in a window of its own.
    ///
    /// # Errors
    /// As [`Composition::delta`].
    pub fn curve(&self, epsilons: &[f64]) -> Result<Vec<(f64, f64)>> {
        epsilons.iter().map(|epsilon| Ok((*epsilon, self.delta(*epsilon)?))).collect()
    }

    /// The estimate that searches start with; not a bound.
    pub(crate) fn rough_epsilon(&self, delta: f64) -> f64 {
        self.remove.rough_epsilon(delta).max(self.add.rough_epsilon(delta))
    }
}
