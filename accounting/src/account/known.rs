//! Mechanisms whose losses are known in closed form, other than Gaussians.

use super::totals::Totals;
use crate::error::{AccountingError, Result, not_negative, positive};
use crate::event::Event;
use crate::pld::{Loss, Losses, Round, Stretch, of_stretches};

/// Fewest stretches of a continuous loss, and the stretches per unit of loss where that is more.
const STRETCHES: f64 = 2000.0;
const STRETCHES_PER_UNIT: f64 = 400.0;
/// Largest loss that is cut into stretches.
const MAX_EPSILON: f64 = 500.0;

/// Largest standard deviation of discrete Gaussian noise, and largest integer sensitivity.
const MAX_DEVIATION: f64 = 1e4;
const MAX_SENSITIVITY: u64 = 100_000;
/// Distance beyond which no probability is above f64's smallest, in standard deviations.
const REACH: f64 = 39.0;

/// Adds a mechanism `count` times. Replacing a record removes it and adds another: losses, and sensitivities, are twice as large.
pub(super) fn add(totals: &mut Totals, event: &Event, count: u64) -> Result<()> {
    let factor = totals.neighbouring.factor();
    let losses = match *event {
        Event::ApproximateDp { epsilon, delta } => approximate(epsilon, delta, factor)?,
        Event::PureDp { epsilon } => approximate(epsilon, 0.0, factor)?,
        Event::Laplace { noise_multiplier } => {
            laplace(factor / positive("noise multiplier", noise_multiplier)?)?
        }
        Event::DiscreteLaplace { noise_parameter, sensitivity } => {
            discrete_laplace(noise_parameter, integers(sensitivity, factor)?)?
        }
        Event::DiscreteGaussian { standard_deviation, sensitivity } => {
            discrete_gaussian(standard_deviation, integers(sensitivity, factor)?)?
        }
        Event::ExponentialMechanism { epsilon } => exponential(factor * cut("epsilon", epsilon)?)?,
        _ => None,
    };
    // Both orders of the data sets have the same losses.
    losses.map_or(Ok(()), |losses| totals.add_rounds(count, |_| Ok(Round::from(losses.clone()))))
}

/// With probability δ the data are shown; else randomized response (Kairouz, Oh and Viswanath 2015).
fn approximate(epsilon: f64, delta: f64, factor: f64) -> Result<Option<Losses>> {
    not_negative("epsilon", epsilon)?;
    if !(0.0..1.0).contains(&delta) {
        return Err(AccountingError::Invalid { what: "delta", value: delta, allowed: "0 to below 1" });
    }
    // Two steps of (ε, δ) are (2ε, (1 + e^ε)δ).
    let delta = if factor > 1.0 { (delta * (1.0 + epsilon.exp())).min(1.0) } else { delta };
    let epsilon = factor * epsilon;
    let likely = (-delta).ln_1p() - (-epsilon).exp().ln_1p();
    let losses = match epsilon {
        0.0 => vec![Loss { loss: 0.0, ln_mass: (-delta).ln_1p() }],
        _ => {
            vec![Loss { loss: epsilon, ln_mass: likely }, Loss { loss: -epsilon, ln_mass: likely - epsilon }]
        }
    };
    if epsilon == 0.0 && delta == 0.0 {
        return Ok(None);
    }
    Losses::of_logarithms(losses, delta).map(Some)
}

/// The losses of densities e^{−|x|/b}/2b at a distance of b·`top`: `top` below 0, −`top` above the distance.
fn laplace(top: f64) -> Result<Option<Losses>> {
    cut("sensitivity / noise multiplier", top)?;
    let half = 0.5f64.ln();
    let ends = [(top, half), (-top, half - top)].map(|(loss, ln_p)| certain(loss, ln_p));
    let count = stretches(top);
    let share = -(-top / count).exp_m1();
    let middle = (0..count as u64).map(|i| {
        let x = i as f64 / count;
        let next = (i + 1) as f64 / count;
        let ln_p = half - top * x + share.ln();
        let ln_q = half - top * (1.0 - next) + share.ln();
        Stretch { ln_p, ln_q, low: top * (1.0 - 2.0 * next), high: top * (1.0 - 2.0 * x) }
    });
    of_stretches(ends.into_iter().chain(middle), 0.0).map(Some)
}

fn discrete_laplace(a: f64, sensitivity: u64) -> Result<Option<Losses>> {
    cut("noise parameter times sensitivity", positive("noise parameter", a)? * sensitivity as f64)?;
    if sensitivity == 0 {
        return Ok(None);
    }
    let top = a * sensitivity as f64;
    // P(X = 0) = tanh(a/2), and both tails hold 1/(1 + e^a) from their first integer on.
    let at = |x: u64| (a / 2.0).tanh().ln() - a * x as f64;
    let tail = -a.exp().ln_1p();
    let inner = (1..sensitivity).map(|x| certain(top - 2.0 * a * x as f64, at(x)));
    // 0 and all below, and the sensitivity and all above.
    let low = certain(top, (at(0).exp() + tail.exp()).ln());
    let high = certain(-top, (at(0).exp() + tail.exp()).ln() - top);
    of_stretches([low, high].into_iter().chain(inner), 0.0).map(Some)
}

fn discrete_gaussian(sigma: f64, sensitivity: u64) -> Result<Option<Losses>> {
    if positive("standard deviation", sigma)? > MAX_DEVIATION {
        let allowed = "at most 1e4";
        return Err(AccountingError::Invalid { what: "standard deviation", value: sigma, allowed });
    }
    if sensitivity == 0 {
        return Ok(None);
    }
    let step = sensitivity as f64;
    let reach = (REACH * sigma).ceil() as i64 + 1;
    let points = -reach..=reach;
    let exponent = |x: i64| -(x as f64 / sigma).powi(2) / 2.0;
    let ln_total = points.clone().map(|x| exponent(x).exp()).sum::<f64>().ln();
    let loss = |x: i64| step * (step - 2.0 * x as f64) / (2.0 * sigma * sigma);
    of_stretches(points.map(|x| certain(loss(x), exponent(x) - ln_total)), 0.0).map(Some)
}

/// The worst of all mechanisms whose losses lie within a range of width η, each of which is randomized response with losses t
/// and t−η: at ε the worst t is (η+ε)/2, and the curve that these δ make is that of densities ∝ e^{ℓ/2} on −η..η.
fn exponential(width: f64) -> Result<Option<Losses>> {
    if width == 0.0 {
        return Ok(None);
    }
    let count = stretches(width);
    // ln of e^{η/2}/(e^η − 1), and of the integrals of e^{±ℓ/2}.
    let unit = -width / 2.0 - (-(-width).exp_m1()).ln();
    let wide = (width / count).exp_m1().ln();
    let parts = (0..count as u64).map(|i| {
        let low = width * (2.0 * i as f64 / count - 1.0);
        let high = width * (2.0 * (i + 1) as f64 / count - 1.0);
        Stretch { ln_p: unit + low / 2.0 + wide, ln_q: unit - high / 2.0 + wide, low, high }
    });
    of_stretches(parts, 0.0).map(Some)
}

/// A stretch of one loss.
fn certain(loss: f64, ln_p: f64) -> Stretch {
    Stretch { ln_p, ln_q: ln_p - loss, low: loss, high: loss }
}

fn stretches(largest: f64) -> f64 {
    (STRETCHES_PER_UNIT * largest).max(STRETCHES).ceil()
}

fn cut(what: &'static str, value: f64) -> Result<f64> {
    if not_negative(what, value)? > MAX_EPSILON {
        return Err(AccountingError::Invalid { what, value, allowed: "at most 500" });
    }
    Ok(value)
}

fn integers(sensitivity: u64, factor: f64) -> Result<u64> {
    if sensitivity > MAX_SENSITIVITY {
        let allowed = "at most 100,000";
        return Err(AccountingError::Invalid { what: "sensitivity", value: sensitivity as f64, allowed });
    }
    Ok((sensitivity as f64 * factor) as u64)
}
