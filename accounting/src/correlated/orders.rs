//! ε and δ from bounds of E\[W^α\] at integer orders α.

use super::{Bound, Question};
use crate::error::{AccountingError, Result};
use crate::renyi;

/// Rounding that is charged for, relative to a sum of positive terms.
const ROUNDING: f64 = 1e-11;

/// Returns the least bound of all orders from 2 on.
pub(super) fn least(ln_moments: &[Vec<f64>], question: Question) -> Result<Bound> {
    let mut best: Option<(f64, u32)> = None;
    for (order, ln_moment) in ln_moments.iter().flat_map(|list| list.iter().enumerate().skip(2)) {
        if !ln_moment.is_finite() {
            continue;
        }
        let alpha = order as f64;
        let divergence = (ln_moment + ROUNDING).max(0.0) / (alpha - 1.0);
        let value = match question {
            Question::AtDelta(delta) => renyi::epsilon_at(alpha, divergence, delta.ln()).max(0.0),
            Question::AtEpsilon(epsilon) => renyi::ln_delta_at(alpha, divergence, epsilon).exp().min(1.0),
        };
        if best.is_none_or(|(least, _)| value < least) {
            best = Some((value, order as u32));
        }
    }
    match best {
        Some((value, order)) => Ok(Bound { value, order: Some(order), hidden_among: None }),
        None => Err(AccountingError::OutOfReach {
            what: "a Rényi divergence",
            setting: "order 2: products of moves above 600 σ²; account by the method conditional".to_owned(),
        }),
    }
}
