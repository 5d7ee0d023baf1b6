//! The weights of a BLT from its decays and those of its inverse.

/// ω of the BLT with decays 1−φ and inverse decays 1−φ̂: ω_i = Π_j(φ̂_j−φ_i)/Π_{j≠i}(φ_j−φ_i) (McMahan, Xu, Zhang 2024,
/// Alg. 5). Exchange the two for the inverse.
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

/// Adds the derivatives by φ and φ̂ that `by_omega` brings through [`weights`].
pub(crate) fn weights_adjoint(
    phi: &[f64],
    phi_hat: &[f64],
    omega: &[f64],
    by_omega: &[f64],
    by_phi: &mut [f64],
    by_phi_hat: &mut [f64],
) {
    for i in 0..phi.len() {
        let share = omega[i] * by_omega[i];
        for j in 0..phi.len() {
            let above = share / (phi_hat[j] - phi[i]);
            by_phi_hat[j] += above;
            by_phi[i] -= above;
            if j != i {
                let below = share / (phi[j] - phi[i]);
                by_phi[j] -= below;
                by_phi[i] += below;
            }
        }
    }
}
