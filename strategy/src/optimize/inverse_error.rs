//! The error of an inverse band C⁻¹ = LtToep(s): by its series, or under learning rates as a quadratic form of s.
//!
//! With N the shift by one round, B = A·C⁻¹ = Σ_i s_i·A·Nⁱ, and
//!
//! ```text
//! Σ_t w_t·e_t² = sᵀ·Q·s      Q_ij = Σ_{l < n−j} M[l+i, l+j], i ≤ j      M = Aᵀ·diag(w)·A
//! ```
//!
//! Q does not depend on s. Each column of M is one impulse through the optimizer's steps and back, O(n), and an evaluation is
//! O(p²) after that.

use super::Target;
use super::monotone::decoder;
use crate::decoder::{Decoder, SquareWithGradient};
use crate::error::{Result, StrategyError, invalid};
use crate::numeric::dot;
use crate::workload::{Momentum, Workload};

const MECHANISM: &str = "band-inverse";
/// Most rounds under learning rates, and most numbers of Q.
const MOST_ROUNDS: u64 = 1 << 15;
const MOST_NUMBERS: usize = 1 << 24;

/// The error of one run, objective and workload, for any s.
pub(super) enum InverseError {
    Series(Decoder),
    /// Q, p×p, row by row.
    Quadratic {
        bands: usize,
        form: Vec<f64>,
    },
}

impl InverseError {
    /// # Errors
    /// [`StrategyError::NotOptimizable`] for a workload that is neither Toeplitz nor has learning rates, and for the worst row
    /// under learning rates.
    pub fn new(bands: usize, target: &Target) -> Result<Self> {
        match &target.workload {
            Workload::Momentum(momentum) if !momentum.is_toeplitz() => quadratic(bands, momentum, target),
            _ => Ok(Self::Series(decoder(MECHANISM, target)?)),
        }
    }

    /// Σ_t w_t·e_t² with its gradient in `s`.
    pub fn gradient(&self, s: &[f64]) -> SquareWithGradient {
        match self {
            Self::Series(decoder) => decoder.inverse_error_gradient(s),
            Self::Quadratic { bands, form } => {
                let half: Vec<f64> = form.chunks_exact(*bands).map(|row| dot(row, s)).collect();
                SquareWithGradient { value: dot(&half, s), gradient: half.iter().map(|g| 2.0 * g).collect() }
            }
        }
    }
}

fn quadratic(bands: usize, momentum: &Momentum, target: &Target) -> Result<InverseError> {
    let n = target.iterations;
    if n > MOST_ROUNDS {
        return Err(invalid(
            "iterations",
            n,
            format!("up to {MOST_ROUNDS} for {MECHANISM} under learning rates"),
        ));
    }
    if bands.saturating_mul(bands) > MOST_NUMBERS {
        return Err(invalid("bands", bands, "up to 4096 for band-inverse under learning rates"));
    }
    let n = n as usize;
    let Some(weights) = target.objective.weights(n) else {
        let why = "the worst row under learning rates; take rms, last or weights of rows".into();
        return Err(StrategyError::NotOptimizable { mechanism: MECHANISM, why });
    };
    // The diagonals of M: their sums, less what lies before each place.
    let mut form = vec![0.0; bands * bands];
    let mut totals = vec![0.0; bands];
    let mut steps = Steps { of: momentum, weights: &weights, column: vec![0.0; n] };
    for a in 0..n {
        let column = steps.gram(a);
        for (d, m) in column.iter().take(bands).enumerate() {
            if a + d < bands {
                form[a * bands + a + d] = totals[d];
            }
            totals[d] += m;
        }
    }
    for i in 0..bands {
        for j in i..bands {
            let q = totals[j - i] - form[i * bands + j];
            form[i * bands + j] = q;
            form[j * bands + i] = q;
        }
    }
    Ok(InverseError::Quadratic { bands, form })
}

/// The optimizer's steps, forward and back.
struct Steps<'a> {
    of: &'a Momentum,
    weights: &'a [f64],
    column: Vec<f64>,
}

impl Steps<'_> {
    /// M[a.., a].
    fn gram(&mut self, a: usize) -> &[f64] {
        let Self { of, weights, column } = self;
        let mut velocity = 0.0;
        let mut model = 0.0;
        for t in a..weights.len() {
            velocity = of.momentum * velocity + if t == a { 1.0 } else { 0.0 };
            model = of.kept() * model + of.learning_rates.at(t) * velocity;
            column[t] = weights[t] * model;
        }
        let mut by_velocity = 0.0;
        let mut by_model = 0.0;
        for t in (a..weights.len()).rev() {
            by_model = of.kept() * by_model + column[t];
            by_velocity = of.momentum * by_velocity + of.learning_rates.at(t) * by_model;
            column[t] = by_velocity;
        }
        &column[a..]
    }
}
