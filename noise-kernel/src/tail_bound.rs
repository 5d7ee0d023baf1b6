//! The δ that the cut tail of the Gaussian transform costs.
//!
//! Every pair of normals lies in the disc of radius r = √(2·65·ln 2), where a true pair lies outside with
//! probability 2⁻⁶⁵. The noise of a job is thus a Gaussian conditioned on T·d/2 discs. A user moves Z by C·G/(σζ),
//! of norm s over all pairs together. Conditioning leaves the likelihood ratio inside both supports as it was, so
//! δ grows by a factor 1/(1 − T·d/2·2⁻⁶⁵) and by the probability that the moved noise leaves the discs.
//!
//! A pair moved by v leaves with probability at most
//! * |v|·(r/π)·2⁻⁶⁵·e^{r|v|}: the flux through the disc's edge, where the density is at most e^{−(r−|v|)²/2}/2π and
//!   the edge seen from the direction of v is 2r wide; and
//! * e^{−(r−|v|)²/2}: the Rayleigh tail.
//!
//! The first bounds pairs moved by at most 0.01, where Σ|v| ≤ s·√(T·d/2). The second bounds the others, where
//! e^{−(r−v)²/2}/v², times Σ|v|² ≤ s², is largest at one end of 0.01 ≤ v ≤ s.

use std::f64::consts::{LN_2, PI};

/// The largest absolute value of a normal: √(2·65·ln 2) and rounding.
pub const LARGEST_NORMAL: f64 = 9.492_6;

/// 2⁻⁶⁵, the probability that a true pair lies outside the disc.
const OUTSIDE: f64 = 1.0 / (2.0 * 18_446_744_073_709_551_616.0);

/// Moves of a pair up to this are bounded by the flux.
const SMALL: f64 = 0.01;

/// Returns a bound on the δ that the cut tail adds to a job of `rows` rows and `coordinates` coordinates, in which a
/// user moves Z by a vector of norm `shift` (sensitivity over noise deviation) from 0 to 8. Beside it δ grows by a
/// factor of at most 1 + rows·coordinates·2⁻⁶⁵.
pub fn tail_delta(rows: u64, coordinates: u64, shift: f64) -> f64 {
    let r = (130.0 * LN_2).sqrt();
    let pairs = rows as f64 * (coordinates as f64 / 2.0 + 512.0);
    let small = shift * pairs.sqrt() * (r / PI) * OUTSIDE * (r * SMALL).exp();
    let rayleigh = |v: f64| (-(r - v) * (r - v) / 2.0).exp();
    let large =
        if shift <= SMALL { 0.0 } else { (rayleigh(SMALL) * (shift / SMALL).powi(2)).max(rayleigh(shift)) };
    small + large
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_billion_coordinates_and_ten_thousand_rows_cost_less_than_1e_11() {
        let delta = tail_delta(10_000, 1_000_000_000, 1.0);
        assert!((1e-13..3e-13).contains(&delta), "{delta:e}");
        assert!(tail_delta(10_000, 1_000_000_000, 2.0) < 1e-11);
        // The cruder figure that spends a whole sensitivity in every row.
        let density = (-65.0 * LN_2).exp() / (2.0 * PI).sqrt();
        assert!(1e4 * 1e9f64.sqrt() * density < 1e-11);
    }
}
