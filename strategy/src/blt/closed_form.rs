//! Sensitivity and errors of a BLT in closed form, independent of n.
//!
//! Everything is written in φ = 1−θ: published BLTs have θ within 1e-11 of one, and geometric sums written in
//! θ lose ten digits there.

use crate::participation::Participation;

/// Σ_{u<count} (1−y)^u for 0 ≤ y ≤ 1.
fn geometric(y: f64, count: f64) -> f64 {
    if count == 0.0 || y == 0.0 {
        return count;
    }
    -(count * (-y).ln_1p()).exp_m1() / y
}

/// Σ_{i<n} (n−i)(1−y)^i for 0 ≤ y ≤ 1; a Taylor series where the closed form would cancel.
fn weighted_geometric(y: f64, n: f64) -> f64 {
    if n * y >= 0.5 {
        return (n - (1.0 - y) * geometric(y, n)) / y;
    }
    let mut term = (n + 1.0) * n / 2.0;
    let mut sum = term;
    let mut order = 2.0;
    while term.abs() > 1e-18 * sum && order <= n {
        term *= -y * (n + 1.0 - order) / (order + 1.0);
        sum += term;
        order += 1.0;
    }
    sum
}

/// 1 − (1−a)(1−b), from a and b.
fn joint(a: f64, b: f64) -> f64 {
    a + b - a * b
}

/// (1−φ)^power, with 0⁰ = 1.
fn decay(phi: f64, power: f64) -> f64 {
    if power == 0.0 { 1.0 } else { (power * (-phi).ln_1p()).exp() }
}

/// Σ_ab x_a x_b kernel(y_ab) over all pairs.
fn pair_sum(x: &[f64], phi: &[f64], kernel: impl Fn(f64) -> f64) -> f64 {
    let mut sum = 0.0;
    for a in 0..x.len() {
        sum += x[a] * x[a] * kernel(joint(phi[a], phi[a]));
        for b in 0..a {
            sum += 2.0 * x[a] * x[b] * kernel(joint(phi[a], phi[b]));
        }
    }
    sum
}

/// ‖C u‖² for participations at 0, b, 2b, …: the squared sensitivity of a monotone BLT.
///
/// H holds what earlier participations left in the buffers; each block between two participations is a sum of
/// geometric series.
pub(crate) fn sensitivity_squared(phi: &[f64], omega: &[f64], n: u64, rule: Participation) -> f64 {
    let count = rule.in_rounds(n);
    let gap = rule.min_sep as f64;
    let mut held = vec![0.0; phi.len()];
    let mut total = 0.0;
    for j in 0..count {
        let length = if j + 1 == count { (n - j * rule.min_sep) as f64 } else { gap };
        let first = 1.0 + omega.iter().zip(&held).map(|(w, h)| w * h).sum::<f64>();
        let scaled: Vec<f64> = (0..phi.len()).map(|a| omega[a] * (1.0 + (1.0 - phi[a]) * held[a])).collect();
        total += first * first + pair_sum(&scaled, phi, |y| geometric(y, length - 1.0));
        for (h, p) in held.iter_mut().zip(phi) {
            *h = decay(*p, gap) * *h + decay(*p, gap - 1.0);
        }
    }
    total
}

/// The weights ω of the BLT with decays 1−φ and inverse decays 1−φ̂:
/// ω_i = Π_j(φ̂_j−φ_i)/Π_{j≠i}(φ_j−φ_i) up to sign (papers/000, Alg. 5). Exchange the two for the inverse.
pub(crate) fn weights(phi: &[f64], phi_hat: &[f64]) -> Vec<f64> {
    (0..phi.len())
        .map(|i| {
            let mut value = phi_hat[i] - phi[i];
            for j in (0..phi.len()).filter(|j| *j != i) {
                value *= (phi_hat[j] - phi[i]) / (phi[j] - phi[i]);
            }
            value
        })
        .collect()
}

/// (MaxError², RmsError²) for prefix sums; none when the numbers leave f64's range or two φ̂ coincide.
///
/// The decoder's column is b_i = β + Σ_a γ_a θ̂_a^i with β = Πφ/Πφ̂ and γ_a = −ω̂_a/φ̂_a.
pub(crate) fn errors_squared(phi: &[f64], phi_hat: &[f64], n: u64) -> Option<(f64, f64)> {
    let n = n as f64;
    let beta: f64 = phi.iter().zip(phi_hat).map(|(p, q)| p / q).product();
    let gamma: Vec<f64> = weights(phi_hat, phi).iter().zip(phi_hat).map(|(w, q)| -w / q).collect();
    let single =
        |kernel: &dyn Fn(f64) -> f64| -> f64 { gamma.iter().zip(phi_hat).map(|(g, q)| g * kernel(*q)).sum() };
    let max = n * beta * beta
        + 2.0 * beta * single(&|y| geometric(y, n))
        + pair_sum(&gamma, phi_hat, |y| geometric(y, n));
    let rms = beta * beta * (n + 1.0) / 2.0
        + (2.0 * beta * single(&|y| weighted_geometric(y, n))
            + pair_sum(&gamma, phi_hat, |y| weighted_geometric(y, n)))
            / n;
    (max.is_finite() && rms.is_finite() && max > 0.0 && rms > 0.0).then_some((max, rms))
}
