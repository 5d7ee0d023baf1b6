//! Estimate, verify, release: what Monte Carlo may promise (papers/003, Alg. 1 and Thm 2.1).

use super::figures::Delta;

/// Whether a mechanism may run under a promise of (ε, δ).
///
/// If δ(ε) is truly above δ in either order, that order's bound is at most δ with probability δ at most, and so is
/// a release: the mechanism together with its verification keeps (ε, δ), with nothing added to δ and nothing split
/// between the orders (Thm 2.1 with τ = 1).
#[derive(Debug, Clone, Copy, PartialEq)]
#[must_use]
pub enum Verdict {
    /// The upper bound of δ at ε, which is at most δ.
    Release { upper: f64, delta: Delta },
    /// The upper bound of δ at ε, which is above δ: more samples may bring it down, more noise will.
    Refuse { upper: f64, delta: Delta },
}

impl Verdict {
    #[must_use]
    pub fn releases(&self) -> bool {
        matches!(self, Self::Release { .. })
    }

    /// The upper bound of δ at ε, of failure probability δ.
    #[must_use]
    pub fn upper(&self) -> f64 {
        match self {
            Self::Release { upper, .. } | Self::Refuse { upper, .. } => *upper,
        }
    }

    /// The estimates that it rests on.
    #[must_use]
    pub fn delta(&self) -> Delta {
        match self {
            Self::Release { delta, .. } | Self::Refuse { delta, .. } => *delta,
        }
    }
}

/// A noise multiplier and what its verification said.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Calibration {
    /// σ, in units of the clip norm.
    pub noise_multiplier: f64,
    /// Of samples that the search for σ has not seen.
    pub verdict: Verdict,
}
