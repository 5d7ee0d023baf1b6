//! The weighted error of a BLT on any Toeplitz workload by its series, O(n·d), with derivatives.

/// A squared error with its derivatives in φ and ω.
#[derive(Debug, Clone)]
pub(crate) struct SeriesSlopes {
    pub squared: f64,
    pub phi: Vec<f64>,
    pub omega: Vec<f64>,
}

/// Σ_i weights_i·b_i² for C·b = `column`, both of n numbers. O(n) memory.
pub(crate) fn weighted_error(phi: &[f64], omega: &[f64], column: &[f64], weights: &[f64]) -> SeriesSlopes {
    let theta: Vec<f64> = phi.iter().map(|phi| 1.0 - phi).collect();
    let b = solve(&theta, omega, column.iter().copied());
    let squared = b.iter().zip(weights).map(|(b, w)| w * b * b).sum();
    // With Cᵀλ = ∂error/∂b: ∂error/∂c_j = −Σ_i λ_i b_{i−j}, and c_j = Σ ω θ^{j−1}.
    let mut lambda = solve(&theta, omega, b.iter().zip(weights).rev().map(|(b, w)| 2.0 * w * b));
    lambda.reverse();
    let mut by_phi = vec![0.0; phi.len()];
    let mut by_omega = vec![0.0; phi.len()];
    for a in 0..phi.len() {
        // s_i = Σ_j θ^{j−1} b_{i−j} and its derivative in θ.
        let mut state = 0.0;
        let mut slope = 0.0;
        for (lambda, b) in lambda.iter().zip(&b) {
            by_omega[a] -= lambda * state;
            by_phi[a] += omega[a] * lambda * slope;
            slope = theta[a] * slope + state;
            state = theta[a] * state + b;
        }
    }
    SeriesSlopes { squared, phi: by_phi, omega: by_omega }
}

/// x with C x = y.
fn solve(theta: &[f64], omega: &[f64], y: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut state = vec![0.0; theta.len()];
    y.map(|y| {
        let x = y - omega.iter().zip(&state).map(|(w, s)| w * s).sum::<f64>();
        state.iter_mut().zip(theta).for_each(|(s, t)| *s = *s * t + x);
        x
    })
    .collect()
}
