//! Estimate, verify, release: what Monte Carlo may promise (Choquette-Choo et al. 2024, Alg. 1 and Thm 2.1).

use super::figures::Delta;

/// The verdict on whether a mechanism may run under a promise of (ε, δ).
///
/// If δ(ε) is truly above δ in either order, that order's bound is at most δ with probability δ at most, and so is
/// a release: the mechanism together with its verification keeps (ε, δ), with nothing added to δ and nothing split
/// between the orders (Thm 2.1 with τ = 1).
#[derive(Debug, Clone, Copy, PartialEq)]
#[must_use]
pub enum Verdict {
    /// The upper bound of δ at ε is at most δ.
    Release {
        /// The upper bound.
        upper: f64,
        /// The estimates that it rests on.
        delta: Delta,
    },
    /// The upper bound of δ at ε is above δ: more samples may bring it down, more noise will.
    Refuse {
        /// The upper bound.
        upper: f64,
        /// The estimates that it rests on.
        delta: Delta,
    },
}

impl Verdict {
    /// Returns whether the mechanism may run.
    #[must_use]
    pub fn releases(&self) -> bool {
        matches!(self, Self::Release { .. })
    }

    /// Returns the upper bound of δ at ε, of failure probability δ.
    #[must_use]
    pub fn upper(&self) -> f64 {
        match self {
            Self::Release { upper, .. } | Self::Refuse { upper, .. } => *upper,
        }
    }

    /// Returns the estimates that the verdict rests on.
    #[must_use]
    pub fn delta(&self) -> Delta {
        match self {
            Self::Release { delta, .. } | Self::Refuse { delta, .. } => *delta,
        }
    }
}

/// A noise multiplier and its verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// σ, in units of the clip norm.
    pub noise_multiplier: f64,
    /// The verdict on samples that the search for σ did not use.
    pub verdict: Verdict,
}
