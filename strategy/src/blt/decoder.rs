//! The error of a BLT on a workload whose coefficients are sums of powers, by the partial fractions of the
//! decoder.
//!
//! With 1/C(x) = Π(1−θ_j x)/Π(1−θ̂_j x) and A(x) = 1/Π_w(1−ρ_w x), the decoder's column is b_i = Σ_r γ_r
//! π_r^i over the poles π = ρ, θ̂; for prefix sums ρ = 1 and γ of that pole is what b tends to. Complements p
//! = 1−π stand for the poles throughout: γ_r = π_r^{W−1}·Π_j(φ_j−p_r)/Π_{s≠r}(p_s−p_r) for W poles ρ.

use super::cascade;
use super::error_slopes::{ErrorSlopes, Rows};
use super::kernels::{Slope, geometric, joint, weighted_geometric};

/// A pole of the workload nearer to a θ̂ than this, relative to their complements, cancels too much.
const TOO_NEAR: f64 = 1e-2;

/// The squared error over n rounds in units of (σζ)², whatever n is. `ends` holds 1−ρ of the workload's
/// poles.
pub(crate) fn error_squared(phi: &[f64], phi_hat: &[f64], ends: &[f64], n: u64, rows: Rows) -> ErrorSlopes {
    if apart(phi, phi_hat, ends) {
        partial_fractions(phi, phi_hat, ends, n as f64, rows)
    } else {
        cascade::error_squared(phi, phi_hat, ends, n, rows)
    }
}

/// True where partial fractions keep their digits.
fn apart(phi: &[f64], phi_hat: &[f64], ends: &[f64]) -> bool {
    let near = |a: f64, b: f64| (a - b).abs() <= TOO_NEAR * a.max(b);
    let meets = |p: f64| phi_hat.iter().any(|q| near(p, *q));
    let each_other = ends.len() > 1 && near(ends[0], ends[1]);
    // Two θ̂ have a θ between them, which keeps their γ small: only equal ones do harm.
    let distinct = phi_hat.windows(2).all(|w| w[1] - w[0] > 1e-12 * w[1]);
    // A θ that cancels a workload's pole exactly leaves 0/0 in the derivatives.
    let cancelled = ends.iter().any(|p| phi.contains(p));
    // Powers of a negative θ̂ have no logarithm.
    let positive = phi_hat.iter().all(|p| *p <= 1.0);
    // Nor where two θ are so near that rounding decides how the θ̂ between them lies.
    let spread = phi.windows(2).all(|w| w[1] - w[0] > 1e-6 * w[1]) || ends.len() == 1;
    positive && distinct && spread && !each_other && !cancelled && !ends.iter().any(|p| meets(*p))
}

fn kernel(rows: Rows, y: f64, n: f64) -> Slope {
    match rows {
        Rows::Last => geometric(y, n),
        Rows::Mean => {
            let sum = weighted_geometric(y, n);
            Slope { value: sum.value / n, slope: sum.slope / n }
        }
    }
}

fn partial_fractions(phi: &[f64], phi_hat: &[f64], ends: &[f64], n: f64, rows: Rows) -> ErrorSlopes {
    let poles: Vec<f64> = phi_hat.iter().chain(ends).copied().collect();
    let extra = ends.len() as i32 - 1;
    let gamma: Vec<f64> = (0..poles.len()).map(|r| residue(phi, &poles, r, extra)).collect();
    let (squared, by_gamma, mut by_pole) = quadratic_form(&gamma, &poles, n, rows);
    let mut by_phi = vec![0.0; phi.len()];
    for (r, at) in poles.iter().enumerate() {
        // The derivative of e² by ln γ_r, distributed to the factors of γ_r.
        let share = gamma[r] * by_gamma[r];
        by_pole[r] -= share * f64::from(extra) / (1.0 - at);
        for (phi, by_phi) in phi.iter().zip(&mut by_phi) {
            let part = share / (phi - at);
            *by_phi += part;
            by_pole[r] -= part;
        }
        for (s, other) in poles.iter().enumerate().filter(|(s, _)| *s != r) {
            let part = share / (other - at);
            by_pole[r] += part;
            by_pole[s] -= part;
        }
    }
    by_pole.truncate(phi_hat.len());
    ErrorSlopes { squared, phi: by_phi, phi_hat: by_pole }
}

/// γ_r, with factors of numerator and denominator in turn so that no product leaves f64's range.
fn residue(phi: &[f64], poles: &[f64], r: usize, extra: i32) -> f64 {
    let others = poles.iter().enumerate().filter(|(s, _)| *s != r).map(|(_, other)| other - poles[r]);
    let mut above = phi.iter().map(|phi| phi - poles[r]);
    let ratio: f64 = others.map(|below| above.next().unwrap_or(1.0) / below).product();
    ratio * above.product::<f64>() * (1.0 - poles[r]).powi(extra)
}

/// Σ_rs γ_r γ_s K(1−π_r π_s) with its derivatives in γ and in the poles' complements.
fn quadratic_form(gamma: &[f64], poles: &[f64], n: f64, rows: Rows) -> (f64, Vec<f64>, Vec<f64>) {
    let size = poles.len();
    let mut sum = 0.0;
    let mut by_gamma = vec![0.0; size];
    let mut by_pole = vec![0.0; size];
    for a in 0..size {
        for b in 0..=a {
            let k = kernel(rows, joint(poles[a], poles[b]), n);
            let twice = if a == b { 1.0 } else { 2.0 };
            let pair = twice * gamma[a] * gamma[b];
            sum += pair * k.value;
            by_gamma[a] += twice * gamma[b] * k.value;
            by_gamma[b] += twice * gamma[a] * k.value;
            by_pole[a] += pair * k.slope * (1.0 - poles[b]);
            by_pole[b] += pair * k.slope * (1.0 - poles[a]);
        }
    }
    (sum, by_gamma, by_pole)
}
