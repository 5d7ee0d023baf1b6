//! Amounts of privacy, and how they are written: no cost looks smaller than it is, and no rest larger.

use serde::Serialize;

/// An amount of privacy.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Amount {
    /// ε, in nats.
    pub epsilon: f64,
    /// δ that ε is stated at.
    pub delta: f64,
}

/// Writes ε with five decimals, rounded up.
pub fn up(epsilon: f64) -> String {
    format!("{:.5}", (epsilon * 1e5).ceil() / 1e5)
}

/// Writes ε with five decimals, rounded down.
pub fn down(epsilon: f64) -> String {
    format!("{:.5}", (epsilon * 1e5).floor() / 1e5)
}
