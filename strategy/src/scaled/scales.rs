//! Scales of columns that stay the same over stretches of rounds.

use crate::error::{MAX_SERIES, Result, all_finite, invalid};

/// One scale for each stretch of `rounds` rounds, the last for all rounds after it; they never rise.
#[derive(Debug, Clone, PartialEq)]
pub struct ColumnScales {
    rounds: u64,
    values: Vec<f64>,
}

impl ColumnScales {
    /// Returns scales from the rounds of each and their values.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for no rounds, no values, and values that rise or are not above zero.
    pub fn new(rounds: u64, values: Vec<f64>) -> Result<Self> {
        if rounds == 0 {
            return Err(invalid("rounds_per_scale", rounds, "1 or more"));
        }
        if values.is_empty() {
            return Err(invalid("number of column_scales", 0, "1 or more"));
        }
        all_finite("column_scales", &values)?;
        if let Some(scale) = values.iter().find(|scale| **scale <= 0.0) {
            return Err(invalid("column_scales", scale, "above zero"));
        }
        if let Some(two) = values.windows(2).find(|two| two[1] > two[0]) {
            return Err(invalid(
                "column_scales",
                format!("{} after {}", two[1], two[0]),
                "numbers that never rise",
            ));
        }
        Ok(Self { rounds, values })
    }

    /// Returns the rounds of each scale; the last one's have no end.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.rounds
    }

    /// Returns the scales.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.values
    }

    /// Returns the scale of column `t`.
    #[must_use]
    pub fn at(&self, t: u64) -> f64 {
        let last = self.values.len() - 1;
        self.values[usize::try_from(t / self.rounds).map_or(last, |at| at.min(last))]
    }

    /// The first rounds of all scales that begin before round `n`; the first of them is 0.
    pub(crate) fn starts(&self, n: usize) -> Vec<usize> {
        let rounds = usize::try_from(self.rounds).unwrap_or(usize::MAX);
        (0..self.values.len()).map_while(|e| e.checked_mul(rounds)).take_while(|start| *start < n).collect()
    }

    /// Checks that the correlations of a run of `n` rounds fit in memory: n − S numbers for each scale but the first, which
    /// begins in round S.
    pub(crate) fn check_correlations(&self, n: u64) -> Result<()> {
        let later = (self.values.len() as u64 - 1).min(n.saturating_sub(1) / self.rounds);
        // Σ_f (n − f·rounds) over 1 ≤ f ≤ later, without what exceeds 64 bits.
        let triangle = u128::from(later) * (u128::from(later) + 1) / 2;
        let numbers = u128::from(later) * u128::from(n) - triangle * u128::from(self.rounds);
        if numbers > u128::from(MAX_SERIES) {
            let allowed = format!("up to {MAX_SERIES}, by fewer column_scales or iterations");
            return Err(invalid(
                "iterations after each of the column_scales begins, in all,",
                numbers,
                allowed,
            ));
        }
        Ok(())
    }
}
