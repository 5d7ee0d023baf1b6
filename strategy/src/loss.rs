//! The error of the released rows that a loss counts.

use std::sync::Arc;

use crate::error::{Result, invalid};
use crate::participation::Errors;

/// The loss to minimise: an error of the rows times sens(C), not squared (McMahan, Xu, Zhang 2024, eqs 9 and 10).
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Objective {
    /// RmsError · sens(C): every row counts alike.
    #[default]
    Rms,
    /// MaxError · sens(C): the worst row.
    Max,
    /// The last row's error · sens(C): only the final model is used.
    Last,
    /// √(Σ w_t·e_t² / Σ w_t) · sens(C) for weights w_t ≥ 0, one for each row.
    Weighted(Arc<[f64]>),
}

impl Objective {
    /// Returns the loss's name, as the command line spells it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Rms => "rms",
            Self::Max => "max",
            Self::Last => "last",
            Self::Weighted(_) => "weighted",
        }
    }

    /// Checks the weights for a run of `n` rounds.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for a wrong number of weights, a negative one, or none above zero.
    pub fn check(&self, n: u64) -> Result<()> {
        let Self::Weighted(weights) = self else { return Ok(()) };
        if weights.len() as u64 != n {
            return Err(invalid("number of row weights", weights.len(), format!("{n}, one for each row")));
        }
        if let Some(t) = weights.iter().position(|w| !(*w >= 0.0 && w.is_finite())) {
            return Err(invalid(
                "row weight",
                format!("{} of row {t}", weights[t]),
                "finite and at least zero",
            ));
        }
        if weights.iter().all(|w| *w == 0.0) {
            return Err(invalid("sum of the row weights", 0, "above zero"));
        }
        Ok(())
    }

    /// The rows' weights, summing to one; `None` for the worst row, which fixed weights can't express.
    pub(crate) fn weights(&self, n: usize) -> Option<Vec<f64>> {
        match self {
            Self::Rms => Some(vec![1.0 / n as f64; n]),
            Self::Max => None,
            Self::Last => Some((0..n).map(|t| if t + 1 == n { 1.0 } else { 0.0 }).collect()),
            Self::Weighted(weights) => {
                // By the largest first, so that the sum can't overflow.
                let most = weights.iter().copied().fold(0.0, f64::max);
                let total: f64 = weights.iter().map(|w| w / most).sum();
                Some(weights.iter().map(|w| w / most / total).collect())
            }
        }
    }

    /// Returns the error this objective counts, from the rows' squared errors.
    #[must_use]
    pub fn error(&self, squared: &[f64]) -> f64 {
        match self {
            Self::Max => squared.iter().copied().fold(0.0, f64::max).sqrt(),
            _ => {
                let weights = self.weights(squared.len()).unwrap_or_default();
                weights.iter().zip(squared).map(|(w, e)| w * e).sum::<f64>().sqrt()
            }
        }
    }
}

impl Errors {
    /// Returns all three errors from the rows' squared errors.
    #[must_use]
    pub fn of_rows(squared: &[f64]) -> Self {
        let total: f64 = squared.iter().sum();
        Self {
            rms: (total / squared.len() as f64).sqrt(),
            max: squared.iter().copied().fold(0.0, f64::max).sqrt(),
            last: squared.last().copied().unwrap_or(f64::NAN).sqrt(),
        }
    }
}
