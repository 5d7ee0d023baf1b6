//! The eigenvalues θ̂ of diag(θ) − 1ωᵀ.
//!
//! With φ = 1−θ and φ̂ = 1−θ̂ they are the roots of the secular equation Σ_j ω_j/(φ̂ − φ_j) = 1. For ω > 0
//! the left side falls from +∞ to −∞ between two neighbouring φ and from +∞ to 0 after the last, so there is
//! one root in each gap and one in (φ_d, φ_d + Σω]: bisection cannot miss it.

/// φ and φ̂ ascending, φ₁ < φ̂₁ < φ₂ < …, with equal θ merged (they act as one buffer of the summed weight).
pub(super) struct Poles {
    pub phi: Vec<f64>,
    pub phi_hat: Vec<f64>,
}

impl Poles {
    pub fn of(theta: &[f64], omega: &[f64]) -> Self {
        let mut pairs: Vec<(f64, f64)> = theta.iter().map(|t| 1.0 - t).zip(omega.iter().copied()).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        pairs.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1 += next.1;
            }
            same
        });
        let phi_hat = (0..pairs.len()).map(|i| root_after(&pairs, i)).collect();
        Self { phi: pairs.iter().map(|p| p.0).collect(), phi_hat }
    }
}

/// The root between pole `i` and the next one, found as its distance from pole `i` so that a root very close
/// to φ = 0 keeps its relative accuracy.
fn root_after(pairs: &[(f64, f64)], i: usize) -> f64 {
    let base = pairs[i].0;
    let secular = |x: f64| pairs.iter().map(|(phi, w)| w / (x + (base - phi))).sum::<f64>() - 1.0;
    let total: f64 = pairs.iter().map(|p| p.1).sum();
    let mut low = 0.0;
    let mut high = pairs.get(i + 1).map_or(total, |next| next.0 - base);
    loop {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            return base + high;
        }
        if secular(middle) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
}
