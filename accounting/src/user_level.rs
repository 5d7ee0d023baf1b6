//! A user with many records, which are sampled one by one or all at once.

use crate::error::{AccountingError, Result};
use crate::event::Event;
use crate::pld::{MAX_COMPONENTS, sampling};

/// Largest number of records of one user.
pub const MAX_GROUP_SIZE: u64 = 1 << 20;

/// Most components that a binomial of more is gathered into: enough that a count moves by less than a tenth of its deviation.
const GATHERED: usize = 1024;

/// Probability, relative to the likeliest count, below which counts are gathered at once.
const NEGLIGIBLE: f64 = 1e-60;

/// Returns the event of one round of example-level sampling (ELS), as in Charles et al. (2024, arXiv:2407.07737).
///
/// Each of a user's at most G records joins a round with the sampling probability q, independently, so the sum of one
/// round moves by Bin(G, q) clip norms: N(0, σ²) against N(Bin(G, q), σ²).
///
/// User-level sampling (ULS), where a user joins as a whole and is clipped as a whole, is the case G = 1: plain Poisson
/// sampling.
///
/// From 4,096 records on, counts are gathered into fewer components, each at its largest count. A mixture whose sensitivities
/// are larger dominates (Choquette-Choo et al. 2024, arXiv:2312.06658), so no figure falls.
///
/// # Errors
/// [`AccountingError::Invalid`] unless 0 < q ≤ 1 and 1 ≤ G ≤ 2²⁰; accounts then refuse G/σ above 10⁶.
pub fn round(noise_multiplier: f64, sampling_probability: f64, group_size: u64) -> Result<Event> {
    let q = sampling("sampling probability", sampling_probability)?;
    if group_size == 0 || group_size > MAX_GROUP_SIZE {
        let allowed = "1 to 1048576 (2^20)";
        return Err(AccountingError::Invalid { what: "group size", value: group_size as f64, allowed });
    }
    if group_size == 1 {
        return Ok(Event::PoissonSampledGaussian { noise_multiplier, sampling_probability });
    }
    if group_size >= MAX_COMPONENTS as u64 {
        let (sensitivities, probabilities) = gathered(group_size, q).into_iter().unzip();
        return Ok(Event::MixtureOfGaussians { noise_multiplier, sensitivities, probabilities });
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

/// Returns (count, probability) of a distribution that is nowhere below Bin(G, q), of at most [`GATHERED`] counts and G.
fn gathered(group_size: u64, q: f64) -> Vec<(f64, f64)> {
    if q == 1.0 {
        return vec![(group_size as f64, 1.0)];
    }
    let odds = q / (1.0 - q);
    let mode = (((group_size + 1) as f64 * q) as u64).min(group_size);
    // What is left beyond a count falls at least geometrically.
    let beyond = |mass: f64, ratio: f64| mass * ratio / (1.0 - ratio);
    // In units of the likeliest count's probability, outwards; what is left below goes to the lowest count.
    let mut below = Vec::new();
    let mut mass = 1.0;
    let mut k = mode;
    let mut ratio = 0.0;
    while k > 0 && mass > NEGLIGIBLE {
        ratio = k as f64 / ((group_size - k + 1) as f64 * odds);
        mass *= ratio;
        k -= 1;
        below.push((k, mass));
    }
    if let Some(last) = below.last_mut().filter(|(lowest, _)| *lowest > 0) {
        last.1 += beyond(mass, ratio);
    }
    let mut counts: Vec<(u64, f64)> = below.into_iter().rev().collect();
    counts.push((mode, 1.0));
    (k, mass) = (mode, 1.0);
    while k < group_size && mass > NEGLIGIBLE {
        ratio = (group_size - k) as f64 / (k + 1) as f64 * odds;
        mass *= ratio;
        k += 1;
        counts.push((k, mass));
    }
    // What is left above counts as all records at once.
    let rest = if k < group_size { beyond(mass, ratio) } else { 0.0 };
    let total = counts.iter().map(|(_, mass)| mass).sum::<f64>() + rest;
    let width = counts.len().div_ceil(GATHERED);
    let gather = |part: &[(u64, f64)]| {
        let highest = part.last().map_or(0, |(k, _)| *k);
        (highest as f64, part.iter().map(|(_, mass)| mass).sum::<f64>() / total)
    };
    let mut all: Vec<_> = counts.chunks(width).map(gather).collect();
    all.push((group_size as f64, rest / total));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gathered_binomial_is_above_the_binomial_and_near_it() {
        for (size, q) in [(4095, 0.5), (4000, 1e-3), (4095, 0.999), (50, 0.3), (4095, 1.0)] {
            let exact = binomial(size, q);
            let all = gathered(size, q);
            let sum: f64 = all.iter().map(|(_, mass)| mass).sum();
            assert!((sum - 1.0).abs() < 1e-12 && all.len() <= GATHERED + 1, "{size} {q}: {sum}");
            let above = |k: f64| all.iter().filter(|(at, _)| *at >= k).map(|(_, mass)| mass).sum::<f64>();
            let mut tail = 0.0;
            for k in (0..=size).rev() {
                tail += exact[k as usize];
                let found = above(k as f64);
                assert!(found >= tail * (1.0 - 1e-10), "{size} {q} {k}: {found} below {tail}");
                // Two counts at most become one.
                let next = tail + if k > 0 { exact[k as usize - 1] } else { 0.0 };
                assert!(tail < 1e-50 || found <= next * (1.0 + 1e-9), "{size} {q} {k}: {found} above {next}");
            }
        }
    }

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
