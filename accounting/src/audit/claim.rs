//! What is asked of an audit, and what it answers.

use crate::error::{AccountingError, Result, invalid, not_negative, probability};

/// Numbers of canaries that a search tries before it narrows, each about a tenth above the one before: up to a million.
const TRIED: i32 = 146;

/// An (ε, δ) that a training is said to have, and how sure an audit must be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    /// ε that the p-value is for; 0 where nothing is claimed.
    pub epsilon: f64,
    /// δ of the claim and of the lower bound.
    pub delta: f64,
    /// Probability with which the lower bound is no higher than the true ε.
    pub confidence: f64,
}

impl Claim {
    pub(super) fn alpha(self) -> f64 {
        1.0 - self.confidence
    }

    pub(super) fn too_few(self, given: u64, needed: Option<u64>) -> AccountingError {
        AccountingError::TooFewCanaries { given, needed, epsilon: self.epsilon, confidence: self.confidence }
    }

    pub(super) fn check(self, method: Method) -> Result<()> {
        not_negative("epsilon", self.epsilon)?;
        probability("confidence", self.confidence)?;
        if method == Method::Gaussian {
            probability("delta", self.delta)?;
        }
        if !(0.0..1.0).contains(&self.delta) {
            return Err(invalid("delta", self.delta, "from 0 to below 1"));
        }
        Ok(())
    }
}

/// How success is turned into ε.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Many canaries in one run, each included by a fair coin (Steinke, Nasr, Jagielski 2023).
    OneRun,
    /// Limits of both error rates, for independent scores.
    ClopperPearson,
    /// Limits of both error rates, for independent scores of a mechanism that is Gaussian.
    Gaussian,
}

impl Method {
    /// Every method.
    pub const ALL: [Self; 3] = [Self::OneRun, Self::ClopperPearson, Self::Gaussian];

    /// Returns the method's name, as commands and Python write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OneRun => "one-run",
            Self::ClopperPearson => "clopper-pearson",
            Self::Gaussian => "gaussian",
        }
    }

    /// Returns the method of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }
}

/// What an audit proves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bound {
    /// How success was turned into ε.
    pub method: Method,
    /// ε that the training has at least, at δ, with the confidence asked for; 0 where nothing was shown.
    pub epsilon_lower: f64,
    /// Bound of the probability of such success if the claim holds.
    pub p_value: f64,
    /// Canaries that had scores.
    pub canaries: u64,
    /// Guesses that the bound rests on; the attack abstained from the rest.
    pub guesses: u64,
    /// Guesses that were right.
    pub correct: u64,
}

impl Bound {
    /// Returns whether the claim is refuted at its confidence.
    #[must_use]
    pub fn refutes(&self, claim: Claim) -> bool {
        self.epsilon_lower > claim.epsilon
    }
}

/// Returns the smallest count that is enough; none where no count tried is.
pub(super) fn smallest(is_enough: impl Fn(u64) -> bool) -> Option<u64> {
    let tried: Vec<u64> = (0..TRIED).map(|step| 1.1f64.powi(step) as u64).collect();
    let first = tried.iter().position(|&count| is_enough(count))?;
    let mut low = if first == 0 { 0 } else { tried[first - 1] };
    let mut high = tried[first];
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if is_enough(middle) { high = middle } else { low = middle }
    }
    Some(high)
}
