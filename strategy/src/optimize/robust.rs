//! Strategies for a min-sep that is not known when they are made.

/// Bands made for a large min-sep, made usable for a smaller one: c_i ← c_{p−1} for i ≥ `from`.
///
/// papers/001, App. H, as reconstructed (its formula is lost): keep the first `from` coefficients of a strategy made
/// for the larger separation and let all later ones have its last, smallest value. The result stays non-increasing
/// where `c` is, so Theorem 3.1 still gives its exact sensitivity. Optimising the mean loss over the separations
/// themselves ([`super::Target::over_participations`]) is better.
#[must_use]
pub fn flattened(c: &[f64], from: usize) -> Vec<f64> {
    let last = c.last().copied().unwrap_or_default();
    c.iter().enumerate().map(|(i, c)| if i < from { *c } else { last }).collect()
}
