//! The squared sensitivity of a monotone BLT in closed form, with its derivatives; O(d² log k), whatever n
//! is.
//!
//! With participations at 0, b, 2b, … the user's sum C·u is made of blocks of b rounds. After j
//! participations before it, block j holds e_j = Σ_{i≤j} q^i in each buffer (q = θ^b), its first round adds
//! θ^{b−1}·e_{j−1} of them to the new 1, and the rest is a sum of powers. So all blocks together need Σ_j e_j
//! and Σ_j e_j e_jᵀ, which are found by doubling: every term is positive, nothing cancels.
//!
//! Derivatives are taken in u = ln θ, where those of powers are powers, and handed out in φ = 1−θ.

use super::kernels::{decay, geometric, joint};
use crate::participation::Participation;

/// A squared sensitivity with its derivatives in φ and ω.
#[derive(Debug, Clone)]
pub(crate) struct SensitivitySlopes {
    pub squared: f64,
    pub phi: Vec<f64>,
    pub omega: Vec<f64>,
}

/// Sums over the first m values of j for each buffer or pair; the derivative of a pair is by its first
/// buffer.
#[derive(Clone)]
struct Sums {
    m: f64,
    /// Σ_{i<m} q^i = e_{m−1}.
    last: Vec<[f64; 2]>,
    /// Σ_{j<m} e_j.
    sum: Vec<[f64; 2]>,
    /// Σ_{j<m} e_j e_jᵀ, row by row.
    pairs: Vec<[f64; 2]>,
}

impl Sums {
    fn constant(d: usize, m: f64) -> Self {
        Self { m, last: vec![[m, 0.0]; d], sum: vec![[m, 0.0]; d], pairs: vec![[m, 0.0]; d * d] }
    }

    /// The sums over this many and then `next.m` more: e_{m+j} = e_{m−1} + q^m·e_j. `gap` is b.
    fn join(&self, next: &Self, phi: &[f64], gap: f64) -> Self {
        let d = phi.len();
        let power = self.m * gap;
        // q^m from φ itself: a product of rounded powers would drift.
        let t: Vec<[f64; 2]> = phi.iter().map(|phi| with_slope(decay(*phi, power), power)).collect();
        let mut out = Self::constant(d, self.m + next.m);
        for a in 0..d {
            let [e, de] = self.last[a];
            let [t_a, dt] = t[a];
            let [e_next, de_next] = next.last[a];
            let [s, ds] = next.sum[a];
            out.last[a] = [e + t_a * e_next, de + dt * e_next + t_a * de_next];
            out.sum[a] =
                [self.sum[a][0] + next.m * e + t_a * s, self.sum[a][1] + next.m * de + dt * s + t_a * ds];
            let others = self.last.iter().zip(&t).zip(&next.sum).enumerate();
            for (b, (([e_b, _], [t_b, _]), [s_b, _])) in others {
                let [own, down] = self.pairs[a * d + b];
                let [pair, dpair] = next.pairs[a * d + b];
                let carried = t_b * (e * s_b + t_a * pair);
                let by_first = t_b * (de * s_b + dt * pair + t_a * dpair);
                out.pairs[a * d + b] = [
                    own + e_b * (next.m * e + t_a * s) + carried,
                    down + e_b * (next.m * de + dt * s + t_a * ds) + by_first,
                ];
            }
        }
        out
    }

    /// The sums over `count` values of j.
    fn over(count: u64, phi: &[f64], gap: f64) -> Self {
        let one = Self::constant(phi.len(), 1.0);
        if count == 0 {
            return Self::constant(phi.len(), 0.0);
        }
        let mut sums = one.clone();
        for bit in (0..count.ilog2()).rev() {
            sums = sums.join(&sums, phi, gap);
            if count >> bit & 1 == 1 {
                sums = sums.join(&one, phi, gap);
            }
        }
        sums
    }
}

/// [θ^power, its derivative in ln θ].
fn with_slope(value: f64, power: f64) -> [f64; 2] {
    [value, if value == 0.0 { 0.0 } else { power * value }]
}

/// ‖C u‖² for participations at 0, b, 2b, … with its derivatives.
pub(crate) fn sensitivity_slopes(
    phi: &[f64],
    omega: &[f64],
    n: u64,
    rule: Participation,
) -> SensitivitySlopes {
    let d = phi.len();
    let count = rule.in_rounds(n);
    let gap = rule.min_sep as f64;
    let rest = (n - (count - 1) * rule.min_sep) as f64;
    let one = Sums::constant(d, 1.0);
    let sums = Sums::over(count - 1, phi, gap);
    let end = one.join(&sums, phi, gap).last;
    let enter: Vec<[f64; 2]> = phi.iter().map(|p| with_slope(decay(*p, gap - 1.0), gap - 1.0)).collect();
    let mut squared = count as f64;
    let mut by_log = vec![0.0; d];
    let mut by_omega = vec![0.0; d];
    for a in 0..d {
        let [held, dheld] =
            [enter[a][0] * sums.sum[a][0], enter[a][1] * sums.sum[a][0] + enter[a][0] * sums.sum[a][1]];
        squared += 2.0 * omega[a] * held;
        by_omega[a] += 2.0 * held;
        by_log[a] += 2.0 * omega[a] * dheld;
        for b in 0..d {
            let y = joint(phi[a], phi[b]);
            let [pair, dpair] = sums.pairs[a * d + b];
            let block = geometric(y, gap - 1.0);
            let tail = geometric(y, rest - 1.0);
            let blocks = block.value + enter[a][0] * enter[b][0];
            let value = blocks * pair + tail.value * end[a][0] * end[b][0];
            // y = 1 − e^{u_a+u_b}.
            let slope = (enter[a][1] * enter[b][0] - (1.0 - y) * block.slope) * pair
                + blocks * dpair
                + (end[a][1] * tail.value - (1.0 - y) * tail.slope * end[a][0]) * end[b][0];
            squared += omega[a] * omega[b] * value;
            by_omega[a] += 2.0 * omega[b] * value;
            by_log[a] += 2.0 * omega[a] * omega[b] * slope;
        }
    }
    let by_phi =
        by_log.iter().zip(phi).map(|(g, phi)| if *g == 0.0 { 0.0 } else { -g / (1.0 - phi) }).collect();
    SensitivitySlopes { squared, phi: by_phi, omega: by_omega }
}

/// ‖C u‖² alone.
pub(crate) fn sensitivity_squared(phi: &[f64], omega: &[f64], n: u64, rule: Participation) -> f64 {
    sensitivity_slopes(phi, omega, n, rule).squared
}
