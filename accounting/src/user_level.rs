//! A user with many records, which are sampled one by one or all at once.

use crate::error::{AccountingError, Result};
use crate::event::Event;
use crate::pld::{MAX_COMPONENTS, sampling};

/// Returns the event of one round of example-level sampling (ELS), as in Charles et al. (2024, arXiv:2407.07737).
///
/// Each of a user's at most G records joins a round with the sampling probability q, independently, so the sum of one
/// round moves by Bin(G, q) clip norms: N(0, σ²) against N(Bin(G, q), σ²).
///
/// User-level sampling (ULS), where a user joins as a whole and is clipped as a whole, is the case G = 1: plain Poisson
/// sampling.
///
/// # Errors
/// [`AccountingError::Invalid`] unless 0 < q ≤ 1 and 1 ≤ G < 4096.
pub fn round(noise_multiplier: f64, sampling_probability: f64, group_size: u64) -> Result<Event> {
    let q = sampling("sampling probability", sampling_probability)?;
    if group_size == 0 || group_size >= MAX_COMPONENTS as u64 {
        let allowed = "1 to 4095";
        return Err(AccountingError::Invalid { what: "group size", value: group_size as f64, allowed });
    }
    if group_size == 1 {
        return Ok(Event::PoissonSampledGaussian { noise_multiplier, sampling_probability });
    }
    let sensitivities = (0..=group_size).map(|k| k as f64).collect();
    Ok(Event::MixtureOfGaussians { noise_multiplier, sensitivities, probabilities: binomial(group_size, q) })
}

/// Returns the probabilities of 0 to G under Bin(G, q).
fn binomial(group_size: u64, q: f64) -> Vec<f64> {
    let ln_odds = q.ln() - (-q).ln_1p();
    let ln_none = (-q).ln_1p();
    if q == 1.0 {
        return (0..=group_size).map(|k| if k == group_size { 1.0 } else { 0.0 }).collect();
    }
    let mut ln = group_size as f64 * ln_none;
    let mut masses = vec![ln.exp()];
    for k in 0..group_size {
        ln += ((group_size - k) as f64 / (k + 1) as f64).ln() + ln_odds;
        masses.push(ln.exp());
    }
    masses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binomial_sums_to_one_with_its_mean() {
        for (size, q) in [(1, 0.5), (16, 0.01), (16, 1.0), (400, 0.3), (4000, 0.9)] {
            let masses = binomial(size, q);
            let sum: f64 = masses.iter().sum();
            let mean: f64 = masses.iter().enumerate().map(|(k, mass)| k as f64 * mass).sum();
            assert!(
                (sum - 1.0).abs() < 1e-11 && (mean / (size as f64 * q) - 1.0).abs() < 1e-11,
                "{size} {q}"
            );
        }
    }
}
