//! The privacy profile of a mechanism: both directions, a record removed and a record added.

use super::composition::Composition;
use super::figure::{ACCURACY, Figure};
use crate::error::Result;

/// The privacy profile of a mechanism: the losses of both directions. Every figure is the worse of the two.
#[derive(Debug, Clone, PartialEq)]
pub struct Profile {
    /// The data set with the record against the one without.
    pub remove: Composition,
    /// The data set without the record against the one with it.
    pub add: Composition,
}

impl Profile {
    /// Returns the larger ε of both directions at `delta`, by [`Composition::epsilon`].
    ///
    /// # Errors
    /// Those of [`Composition::epsilon`].
    pub fn epsilon_figure(&self, delta: f64, accuracy: f64) -> Result<Figure> {
        let remove = self.remove.epsilon(delta, accuracy)?;
        if self.add == self.remove {
            return Ok(remove);
        }
        // Removal is usually the worse. Chernoff's bound of the other may be enough to show it, or a coarse grid, as
        // neither falls below the exact ε.
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

    /// Returns an ε ≥ 0 with δ(ε) ≤ `delta`, at most about [`ACCURACY`] (relative) above the smallest.
    ///
    /// # Errors
    /// Those of [`Composition::epsilon`].
    pub fn epsilon(&self, delta: f64) -> Result<f64> {
        Ok(self.epsilon_figure(delta, ACCURACY)?.value)
    }

    /// Returns an upper bound of δ(ε); ε may be negative.
    ///
    /// # Errors
    /// Those of [`Composition::delta`].
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

    /// Returns (ε, δ) at each of the given ε, each in a window of its own.
    ///
    /// # Errors
    /// Those of [`Composition::delta`].
    pub fn curve(&self, epsilons: &[f64]) -> Result<Vec<(f64, f64)>> {
        epsilons.iter().map(|epsilon| Ok((*epsilon, self.delta(*epsilon)?))).collect()
    }

    /// Returns an estimate of ε to start a search with; it is no bound.
    pub(crate) fn rough_epsilon(&self, delta: f64) -> f64 {
        self.remove.rough_epsilon(delta).max(self.add.rough_epsilon(delta))
    }
}
