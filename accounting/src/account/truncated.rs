//! Poisson sampling with a cap on the batch.
//!
//! Let K ~ Bin(m, q) count the other records sampled, of m others that may be in the batch. K has the same distribution under
//! both data sets, so an account may treat it as public. Where K < B nothing is cut, and the round is a Poisson-sampled one.
//! Where K ≥ B the batch is a set T of B other records, unless the record is in the batch. That happens with probability
//! q·E\[B/(K+1) | K ≥ B\]; the record then replaces one member of T, and the sum is at most 2 from that of T. A record
//! that is zeroed out still takes its place, which leaves the sum at most 1 from that of T. Another record in its place
//! leaves it at most 2 from that of T, and at most 2 from the sum with the original record.
//!
//! m may be known within l..=u only: groups of one size differ by a record, and under adding or removing a data set of N
//! records has neighbours of N − 1 and of N + 1. Let K_l ≤ K_m ≤ K_u be coupled. Then P(K_u < B) bounds the rounds where
//! nothing is cut from below, and the mass of q·B/(K_m+1) over K_m ≥ B is at most that over K_l ≥ B plus
//! q·P(K_l < B ≤ K_u), as δ is convex in the probability of a displacement and never falls in it. So the round costs at most
//! one with those three classes, whatever m is.

use crate::error::{AccountingError, Result};
use crate::event::BatchCap;
use crate::neighbouring::{Direction, Neighbouring};
use crate::pld::{Pair, Round, sampling};

/// Largest public number of records.
const MAX_RECORDS: u64 = 1 << 53;

/// P(K ≥ B) and E[B/(K+1) | K ≥ B] for K ~ Bin(n, q).
#[derive(Debug, Clone, Copy, PartialEq)]
struct Overflow {
    probability: f64,
    kept: f64,
}

/// A cap, and how many others compete with a record for a place in its batches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cut {
    batch_cap: u64,
    least_others: u64,
    most_others: u64,
    relation: Neighbouring,
}

impl Cut {
    /// Describes the batches of one of `groups` groups of one size, or one more.
    pub fn new(cap: BatchCap, groups: u64, relation: Neighbouring) -> Result<Self> {
        let BatchCap { batch_cap, dataset_size } = cap;
        for (what, count) in [("data set size", dataset_size), ("batch cap", batch_cap)] {
            if count == 0 || count > MAX_RECORDS {
                return Err(AccountingError::Invalid { what, value: count as f64, allowed: "1 to 2^53" });
            }
        }
        let largest = dataset_size.div_ceil(groups);
        let more = u64::from(relation == Neighbouring::AddRemove);
        let least_others = (dataset_size / groups).saturating_sub(1);
        Ok(Self { batch_cap, least_others, most_others: largest - 1 + more, relation })
    }
}

pub(super) fn round(
    noise_multiplier: f64,
    sampling_probability: f64,
    cut: Cut,
    direction: Direction,
) -> Result<Round> {
    let q = sampling("sampling probability", sampling_probability)?;
    let whole = Pair::poisson(noise_multiplier, q, cut.relation, direction)?;
    // The largest distance of the sum from that of T, under P and under Q.
    let (up, down) = match (cut.relation, direction) {
        (Neighbouring::AddRemove, Direction::Remove) => (2.0, 0.0),
        (Neighbouring::AddRemove, Direction::Add) => (0.0, 2.0),
        (Neighbouring::ZeroOut, Direction::Remove) => (2.0, 1.0),
        (Neighbouring::ZeroOut, Direction::Add) => (1.0, 2.0),
        (Neighbouring::Replace, _) => (2.0, 2.0),
    };
    let displaced = |taken: f64| Pair::sampled(noise_multiplier, taken.min(1.0), up, down);
    let few = overflow(cut.least_others, q, cut.batch_cap);
    if cut.least_others == cut.most_others {
        let probability = few.charged(cut.least_others);
        let kept = displaced(q * few.kept)?;
        return Round::of_classes(vec![(1.0 - probability, whole), (probability, kept)]);
    }
    let many = overflow(cut.most_others, q, cut.batch_cap).charged(cut.most_others);
    let surely = few.probability.min(many);
    Round::of_classes(vec![
        (1.0 - many, whole),
        (surely, displaced(q * few.kept)?),
        (many - surely, displaced(q)?),
    ])
}

impl Overflow {
    /// Returns the probability with the rounding of ln n! charged for: a batch counts as cut a little more often.
    fn charged(self, n: u64) -> f64 {
        let rounding = 1.0 + 1e-15 * (n as f64 + 2.0) * (n as f64 + 2.0).ln();
        (self.probability * rounding).min(1.0)
    }
}

/// Sums the binomial tail from its largest term outwards.
fn overflow(n: u64, q: f64, cap: u64) -> Overflow {
    if cap > n {
        return Overflow { probability: 0.0, kept: 1.0 };
    }
    if q == 1.0 {
        return Overflow { probability: 1.0, kept: cap as f64 / (n as f64 + 1.0) };
    }
    let odds = q / (1.0 - q);
    let mode = (((n as f64 + 1.0) * q) as u64).clamp(cap, n);
    let first = binomial(n, q, mode);
    let mut probability = 0.0;
    let mut weighted = 0.0;
    let mut take = |k: u64, mass: f64| {
        probability += mass;
        weighted += mass * cap as f64 / (k as f64 + 1.0);
        mass > 1e-18 * probability
    };
    let mut k = mode;
    let mut mass = first;
    while take(k, mass) && k < n {
        mass *= odds * (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    (k, mass) = (mode, first);
    while k > cap {
        mass *= k as f64 / ((n - k + 1) as f64 * odds);
        k -= 1;
        if !take(k, mass) {
            break;
        }
    }
    if probability <= 0.0 {
        return Overflow { probability: 0.0, kept: 1.0 };
    }
    Overflow { probability: probability.min(1.0), kept: (weighted / probability).min(1.0) }
}

/// C(n, k) q^k (1−q)^{n−k}.
fn binomial(n: u64, q: f64, k: u64) -> f64 {
    let ln_factorial = |m: u64| libm::lgamma(m as f64 + 1.0);
    let ln = ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
    (ln + k as f64 * q.ln() + (n - k) as f64 * (-q).ln_1p()).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_is_the_binomial_tail() {
        for (n, q, cap) in
            [(10, 0.3, 4), (10, 0.3, 1), (50, 0.9, 30), (50, 0.01, 5), (3, 0.5, 3), (7, 0.2, 7)]
        {
            let mut want = (0.0, 0.0);
            for k in cap..=n {
                let choose = (0..k).fold(1.0, |c, i| c * (n - i) as f64 / (i + 1) as f64);
                let mass = choose * f64::powi(q, k as i32) * f64::powi(1.0 - q, (n - k) as i32);
                want = (want.0 + mass, want.1 + mass * cap as f64 / (k as f64 + 1.0));
            }
            let got = overflow(n, q, cap);
            assert!((got.probability / want.0 - 1.0).abs() < 1e-12, "{n} {q} {cap}: {got:?}");
            assert!((got.kept / (want.1 / want.0) - 1.0).abs() < 1e-12, "{n} {q} {cap}: {got:?}");
        }
        assert_eq!(overflow(5, 0.5, 6), Overflow { probability: 0.0, kept: 1.0 });
        assert_eq!(overflow(9, 1.0, 5), Overflow { probability: 1.0, kept: 0.5 });
    }
}
