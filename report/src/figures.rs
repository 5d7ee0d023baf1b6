//! The figures of one account.

use serde::Serialize;

/// The rate at which true positives are told.
pub(crate) const FALSE_POSITIVE_RATE: f64 = 0.01;

/// One (ε, δ).
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct AtDelta {
    pub delta: f64,
    pub epsilon: f64,
    /// By Monte Carlo: other samples have δ at this ε below this, but for a chance of δ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delta_upper_bound: Option<f64>,
}

/// What one account says.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figures {
    pub guarantees: Vec<AtDelta>,
    /// Of zero-concentrated DP; none where batches are sampled.
    pub rho: Option<f64>,
    /// Of Gaussian DP; where batches are sampled, the μ that costs as much at the worst of the δ above.
    pub mu: f64,
    pub false_positive_rate: f64,
    /// An upper bound over all tests at that false positive rate; none by Monte Carlo.
    pub true_positive_rate: Option<f64>,
}
