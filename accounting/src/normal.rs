//! The normal distribution's tail, to full relative precision at any distance.

use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// The argument at which the power series of erf hands over to the continued fraction of erfc.
const HANDOVER: f64 = 1.5;

/// Returns erf(z) for |z| ≤ 1.5 or so: (2/√π)·e^{−z²}·Σ 2^n z^{2n+1}/(2n+1)!!, all terms of one sign.
fn erf_series(z: f64) -> f64 {
    let mut term = z;
    let mut sum = z;
    let mut odd = 1.0;
    while term.abs() > 1e-18 * sum.abs() {
        odd += 2.0;
        term *= 2.0 * z * z / odd;
        sum += term;
    }
    2.0 / PI.sqrt() * (-z * z).exp() * sum
}

/// Returns √π·e^{z²}·erfc(z) for z ≥ 1, by the continued fraction 1/(z + ½/(z + 1/(z + (3/2)/(z + …)))).
fn scaled_tail(z: f64) -> f64 {
    1.0 / (z + fraction(z))
}

/// Returns ½/(z + 1/(z + (3/2)/(z + …))), evaluated from the back; 40 + 400/z² levels leave nothing in f64.
fn fraction(z: f64) -> f64 {
    let levels = (40.0 + 400.0 / (z * z)) as u32;
    (1..=levels).rev().fold(0.0, |tail, k| f64::from(k) / 2.0 / (z + tail))
}

/// Returns ln Φ(x), the logarithm of the standard normal distribution function; −∞ only at −∞.
#[must_use]
pub fn ln_cdf(x: f64) -> f64 {
    let z = -x * FRAC_1_SQRT_2;
    if z >= HANDOVER {
        // −x²/2 rather than −z²: squaring the rounded z would double its error.
        return -0.5 * x * x + (scaled_tail(z) / (2.0 * PI.sqrt())).ln();
    }
    if z <= -HANDOVER {
        return (-ln_cdf(-x).exp()).ln_1p();
    }
    (0.5 - 0.5 * erf_series(z)).ln()
}

/// Returns Mills' ratio (1−Φ(x))/φ(x) with φ the normal density; grows like √(2π)·e^{x²/2} for negative x.
#[must_use]
pub fn mills(x: f64) -> f64 {
    let z = x * FRAC_1_SQRT_2;
    if z >= HANDOVER {
        return scaled_tail(z) * FRAC_1_SQRT_2;
    }
    (ln_cdf(-x) + 0.5 * x * x).exp() * (2.0 * PI).sqrt()
}

/// Returns the rate at which Mills' ratio m falls: −m'(x) = 1 − x·m(x), above zero everywhere and about 1/x² far out.
#[must_use]
pub fn mills_fall(x: f64) -> f64 {
    let z = x * FRAC_1_SQRT_2;
    if z < 1.0 {
        return 1.0 - x * mills(x);
    }
    // 1 − z/(z + f), without cancelling.
    let fraction = fraction(z);
    fraction / (z + fraction)
}

/// Returns ln φ(x), the logarithm of the standard normal density.
#[must_use]
pub fn ln_density(x: f64) -> f64 {
    -0.5 * x * x - 0.5 * (2.0 * PI).ln()
}
