//! The figures of one account.

use serde::Serialize;

/// The false positive rate at which a statement gives the true positive rate.
pub(crate) const FALSE_POSITIVE_RATE: f64 = 0.01;

/// One guarantee (ε, δ).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AtDelta {
    /// δ.
    pub delta: f64,
    /// ε at that δ, in nats.
    pub epsilon: f64,
    /// An upper bound of δ at this ε, from other samples, which fails with probability at most δ; only by Monte Carlo.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta_upper_bound: Option<f64>,
}

/// The figures of one account.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    /// One guarantee for each δ of the question.
    pub guarantees: Vec<AtDelta>,
    /// ρ of zero-concentrated DP; `None` where batches are sampled.
    pub rho: Option<f64>,
    /// μ of Gaussian DP; where batches are sampled, the μ that costs as much at the worst of the δ above.
    pub mu: f64,
    /// The false positive rate of the test below.
    pub false_positive_rate: f64,
    /// An upper bound of the true positive rate of all tests at that false positive rate; `None` by Monte Carlo.
    pub true_positive_rate: Option<f64>,
}
