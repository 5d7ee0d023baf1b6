//! Band counts under amplification.
//!
//! With p bands and cyclic Poisson sampling a run of n rounds costs what ⌈n/p⌉ rounds of DP-SGD at sampling
//! probability p·q cost (McKenna 2024, Prop. 2.1): more bands cancel more noise and amplify less. The error as a
//! function of p is flat around its minimum, so half octaves find it to within a fraction of a per cent.

/// Most bands that are tried: their gain beyond does not show, and every count costs an optimization.
const MOST_BANDS: f64 = 1024.0;

/// Returns the band counts with p·q ≤ 1 and p ≤ n, half an octave apart, from 1 on.
#[must_use]
pub fn bands_to_try(iterations: u64, sampling_probability: f64) -> Vec<u64> {
    // The quotient of a q such as 0.1 may fall a hair below the whole number it stands for.
    let most = ((1.0 + 1e-12) / sampling_probability).floor().min(iterations as f64).min(MOST_BANDS);
    let mut bands: Vec<u64> = (0..)
        .map(|half| (f64::from(half) / 2.0).exp2().round())
        .take_while(|bands| *bands < most)
        .map(|bands| bands as u64)
        .collect();
    bands.push(most as u64);
    bands.dedup();
    bands
}
