//! The rule of how often, and how far apart, one user may take part; and the figures computed under it.

use crate::error::{Result, invalid};

/// The participation rule a sensitivity is computed for.
///
/// `min_sep` counts j − i: two participations i < j of one user satisfy **j − i ≥ min_sep**. (Papers that
/// print "MinS" count the rounds in between, so their MinS is `min_sep` − 1.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Participation {
    /// Smallest allowed j − i between two participations i < j of one user, in rounds; at least 1.
    pub min_sep: u64,
    /// Most participations of one user over the whole run; at least 1.
    pub max_participations: u64,
}

impl Participation {
    /// Returns a rule from min_sep (j − i ≥ min_sep) and the most participations.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] when either is zero.
    pub fn new(min_sep: u64, max_participations: u64) -> Result<Self> {
        let rule = Self { min_sep, max_participations };
        rule.check()?;
        Ok(rule)
    }

    /// Returns the rule by which every user takes part at most once.
    #[must_use]
    pub const fn single() -> Self {
        Self { min_sep: 1, max_participations: 1 }
    }

    /// Returns the most participations that fit in `n` rounds: min(k, ⌈n/b⌉).
    #[must_use]
    pub fn in_rounds(&self, n: u64) -> u64 {
        self.max_participations.min(n.div_ceil(self.min_sep.max(1)))
    }

    /// Refuses a rule whose participations do not all fit in `n` rounds. Sensitivities do not
    /// require this: they count [`Self::in_rounds`].
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] naming k, b and n unless (k−1)·b < n, or for a zero in either field.
    pub fn fits(&self, n: u64) -> Result<()> {
        self.check()?;
        if n == 0 {
            return Err(invalid("iterations", 0, "1 or more"));
        }
        let k = self.max_participations;
        let b = self.min_sep;
        if (k - 1).checked_mul(b).is_some_and(|last| last < n) {
            return Ok(());
        }
        let value = format!("k = {k} with b = {b} in n = {n} rounds");
        Err(invalid("participation", value, format!("(k−1)·b < n is needed: k up to {}", n.div_ceil(b))))
    }

    /// Refuses a zero in either field (they are public, so a literal may hold one).
    pub(crate) fn check(&self) -> Result<()> {
        if self.min_sep == 0 {
            return Err(invalid("min_sep", 0, "1 or more (it counts j − i)"));
        }
        if self.max_participations == 0 {
            return Err(invalid("max_participations", 0, "1 or more"));
        }
        Ok(())
    }
}

/// An ℓ₂ sensitivity per unit of clipping norm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sensitivity {
    /// sens(C), not squared: the largest ‖C u‖₂ over allowed participations with contributions of norm ≤ 1.
    pub value: f64,
    /// True when `value` is the sensitivity; false when it is an upper bound of it (safe to calibrate with).
    pub exact: bool,
}

impl Sensitivity {
    pub(crate) fn exact_squared(squared: f64) -> Self {
        Self { value: squared.sqrt(), exact: true }
    }
}

/// Errors of a decoder B = A·C⁻¹ for prefix sums, in units of σζ, not squared (McMahan, Xu, Zhang 2024, eqs 9 and 10).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Errors {
    /// √(Σ_ij B_ij² / n): the root mean square over rounds.
    pub rms: f64,
    /// max_i √(Σ_j B_ij²): the worst round.
    pub max: f64,
    /// √(Σ_j B_{n−1,j}²): the final prefix sum.
    pub last: f64,
}
