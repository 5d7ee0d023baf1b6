//! Rényi divergences and their conversion to (ε, δ).
//!
//! They are looser than a privacy-loss distribution, but compose with mechanisms of which only ρ is known.

use crate::error::{AccountingError, Result, not_negative, probability};
use crate::pld::{Class, Composition, Losses, Pair};

/// Number of orders that a conversion tries.
const ORDERS: i32 = 400;

/// Most nodes of one quadrature; beyond it an order is given up, as others give a tighter bound by then.
pub(crate) const MAX_NODES: f64 = 4e6;

/// Returns D_α(P‖Q) of a composition at order α > 1; +∞ where the quadrature would need more than four million nodes.
///
/// # Errors
/// [`AccountingError::Invalid`] unless α > 1 is finite.
pub fn divergence(composition: &Composition, order: f64) -> Result<f64> {
    divergence_within(composition, order, MAX_NODES)
}

/// Returns the same; +∞ where the quadrature would need more than so many nodes.
pub(crate) fn divergence_within(composition: &Composition, order: f64, most_nodes: f64) -> Result<f64> {
    if !(order.is_finite() && order > 1.0) {
        let allowed = "finite and above 1";
        return Err(AccountingError::Invalid { what: "order", value: order, allowed });
    }
    let rounds =
        composition.parts().map(|(classes, count)| count as f64 * ln_moment(classes, order, most_nodes));
    Ok(rounds.sum::<f64>() / (order - 1.0))
}

/// Returns the curve of (α, D_α) at the given orders.
///
/// # Errors
/// Those of [`divergence`].
pub fn curve(composition: &Composition, orders: &[f64]) -> Result<Vec<(f64, f64)>> {
    orders.iter().map(|order| Ok((*order, divergence(composition, *order)?))).collect()
}

/// Returns ln ∫ p^α q^{1−α}, by the trapezoid rule with steps well below the width of its narrowest peak.
fn ln_moment(classes: &[(f64, Class)], order: f64, most_nodes: f64) -> f64 {
    let of_class = |class: &Class| match class {
        Class::Pair(pair) => ln_moment_of_pair(pair, order, most_nodes),
        Class::Losses(losses) => ln_moment_of_losses(losses, order),
    };
    let logs: Vec<f64> = classes.iter().map(|(weight, class)| weight.ln() + of_class(class)).collect();
    let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if top.is_infinite() {
        return top;
    }
    // A divergence is never negative; near order 1 rounding may say so.
    (top + logs.iter().map(|ln| (ln - top).exp()).sum::<f64>().ln()).max(0.0)
}

fn ln_moment_of_pair(pair: &Pair, order: f64, most_nodes: f64) -> f64 {
    let rise = pair.upper().map(|(_, s)| s).fold(0.0, f64::max);
    let fall = pair.lower().map(|(_, s)| -s).fold(0.0, f64::max);
    let from = -40.0;
    let to = order * rise + (order - 1.0) * fall + 40.0;
    // Where q is a mixture its logarithm bends by up to s²/4, and α−1 of it narrow the peak.
    let step = 0.125 / (1.0 + (order - 1.0) * fall * fall / 4.0).sqrt();
    let count = ((to - from) / step).ceil();
    if count > most_nodes {
        return f64::INFINITY;
    }
    let at = |i| {
        let point = pair.at(from + i as f64 * step);
        point.ln_density + (order - 1.0) * point.loss
    };
    ln_sum_of_exponentials((0..=count as u64).map(at).collect()) + step.ln()
}

fn ln_moment_of_losses(losses: &Losses, order: f64) -> f64 {
    if losses.infinite() > 0.0 {
        return f64::INFINITY;
    }
    ln_sum_of_exponentials(losses.iter().map(|one| one.ln_mass + (order - 1.0) * one.loss).collect())
}

fn ln_sum_of_exponentials(exponents: Vec<f64>) -> f64 {
    let top = exponents.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    top + exponents.iter().map(|exponent| (exponent - top).exp()).sum::<f64>().ln()
}

/// Returns orders from 1.005 to some thousands, denser near 1.
pub(crate) fn orders() -> impl Iterator<Item = f64> {
    (0..ORDERS).map(|i| 1.0 + 0.005 * 1.035f64.powi(i))
}

/// Returns an ε at `delta` of a composition together with a ρ-zCDP mechanism: the least over some hundred orders α of
/// D_α + ρα + ln(1−1/α) − (ln δ + ln α)/(α−1) (Canonne, Kamath and Steinke 2020).
///
/// # Errors
/// [`AccountingError::Invalid`] unless 0 < δ < 1 and ρ ≥ 0; [`AccountingError::OutOfReach`] where every order's
/// divergence is infinite.
pub fn epsilon(composition: &Composition, rho: f64, delta: f64) -> Result<f64> {
    not_negative("rho", rho)?;
    epsilon_of(|order| Ok(divergence(composition, order)? + rho * order), delta)
}

/// Returns an ε at `delta` of a mechanism whose divergence at each order is known, by the bound of [`epsilon`].
pub(crate) fn epsilon_of(divergence: impl Fn(f64) -> Result<f64>, delta: f64) -> Result<f64> {
    let ln_delta = probability("delta", delta)?.ln();
    least(divergence, "epsilon", |order, divergence| epsilon_at(order, divergence, ln_delta))
        .map(|epsilon| epsilon.max(0.0))
}

/// Returns the ε at δ that one order's divergence proves.
pub(crate) fn epsilon_at(order: f64, divergence: f64, ln_delta: f64) -> f64 {
    divergence + (-1.0 / order).ln_1p() - (ln_delta + order.ln()) / (order - 1.0)
}

/// Returns a δ at `epsilon` of a composition together with a ρ-zCDP mechanism, by the same bound as [`epsilon`].
///
/// # Errors
/// Those of [`epsilon`].
pub fn delta(composition: &Composition, rho: f64, epsilon: f64) -> Result<f64> {
    not_negative("rho", rho)?;
    delta_of(|order| Ok(divergence(composition, order)? + rho * order), epsilon)
}

/// Returns a δ at `epsilon` of a mechanism whose divergence at each order is known, by the bound of [`epsilon`].
pub(crate) fn delta_of(divergence: impl Fn(f64) -> Result<f64>, epsilon: f64) -> Result<f64> {
    not_negative("epsilon", epsilon)?;
    least(divergence, "delta", |order, divergence| ln_delta_at(order, divergence, epsilon))
        .map(|ln| ln.exp().min(1.0))
}

/// Returns ln of the δ at ε that one order's divergence proves.
pub(crate) fn ln_delta_at(order: f64, divergence: f64, epsilon: f64) -> f64 {
    (order - 1.0) * (divergence - epsilon + (-1.0 / order).ln_1p()) - order.ln()
}

fn least(
    divergence: impl Fn(f64) -> Result<f64>,
    what: &'static str,
    bound: impl Fn(f64, f64) -> f64,
) -> Result<f64> {
    let mut best = f64::INFINITY;
    let mut worse = 0;
    for order in orders() {
        let found = bound(order, divergence(order)?);
        worse = if found < best { 0 } else { worse + 1 };
        best = best.min(found);
        // The bound falls in the order, then rises: a long rise ends the search.
        if worse > 12 && best.is_finite() {
            break;
        }
    }
    if best.is_finite() {
        return Ok(best);
    }
    Err(AccountingError::OutOfReach {
        what,
        setting: "orders from 1.005 to 4500: all divergences infinite".into(),
    })
}
