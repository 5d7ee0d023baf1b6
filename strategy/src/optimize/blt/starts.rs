//! Where searches for BLT parameters start.

use super::chain::{SLOWEST, free};

/// The distance at which a new buffer's φ̂ and φ start, as the power of their ratio.
const NARROW: f64 = 0.97;

/// One buffer for a run of n rounds: φ̂ at a few distances from one and φ well below it.
pub(super) fn one_buffer(n: u64) -> Vec<Vec<f64>> {
    let slow = (n as f64).recip().sqrt().clamp(1e-4, 0.3);
    [(0.05, 0.4), (0.1, slow), (0.01, slow), (0.3, 0.1)]
        .into_iter()
        .map(|(ratio, phi_hat): (f64, f64)| free(&[ratio * phi_hat, phi_hat]))
        .collect()
}

/// φ₁, φ̂₁, … with one nearly idle buffer more, in each gap that has room.
pub(super) fn grown(ordered: &[f64]) -> Vec<Vec<f64>> {
    let mut starts = Vec::new();
    for gap in (0..=ordered.len()).step_by(2) {
        let high = ordered.get(gap).copied().unwrap_or(1.0);
        let low = if gap == 0 { (high * 1e-3).max(100.0 * SLOWEST) } else { ordered[gap - 1] };
        if high / low < 1.0 + 1e-3 {
            continue;
        }
        for place in [0.25, 0.7] {
            // In logarithms, because the φ range over decades.
            let phi_hat = low * (high / low).powf(place);
            let phi = low * (phi_hat / low).powf(NARROW);
            let mut with = ordered.to_vec();
            with.splice(gap..gap, [phi, phi_hat]);
            starts.push(free(&with));
        }
    }
    starts
}

/// φ₁, φ̂₁, … with a buffer of no account (ω ≈ 1e-12) in the widest gap.
pub(super) fn with_idle(ordered: &[f64]) -> Vec<f64> {
    let ends = |gap: usize| {
        // Below φ₁ only little room: slower buffers are one and the same in f32.
        let low = if gap == 0 { (0.1 * ordered[0]).max(100.0 * SLOWEST) } else { ordered[gap - 1] };
        (low, ordered.get(gap).copied().unwrap_or(1.0))
    };
    let room = |gap: &usize| ends(*gap).1 / ends(*gap).0;
    let widest = (0..=ordered.len()).step_by(2).max_by(|a, b| room(a).total_cmp(&room(b))).unwrap_or(0);
    let (low, high) = ends(widest);
    let phi = (low * high).sqrt();
    let mut with = ordered.to_vec();
    with.splice(widest..widest, [phi, phi * (1.0 + 1e-12)]);
    free(&with)
}
