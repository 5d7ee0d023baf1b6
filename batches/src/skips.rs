//! Geometric skips from one sampled record to the next, by integers alone.
//!
//! A skip G has P(G = g) = q·aᵍ with a = 1 − q. As aᵍ is the product of a^(2ʲ) over the binary digits of g,
//! these digits are independent, digit j being 1 with probability a^(2ʲ)/(1 + a^(2ʲ)). Repeated squaring in
//! units of 2⁻¹²⁸ gives them; squaring rounds down, and all roundings together move a skip by less than
//! 2⁻¹²⁰/q in total variation.

use crate::draws::Draws;

/// The smallest sampling probability, 2⁻⁴⁰: below it the rounding would no longer be negligible.
pub(crate) const LEAST: f64 = 1.0 / (1_u64 << 40) as f64;

/// Skips over a population, for one sampling probability.
#[derive(Clone)]
pub(crate) struct Skips {
    /// The probability that a skip is 2^L or more, past every record, in units of 2⁻¹²⁸.
    beyond: u128,
    /// The probability that digit j of a skip is 1, in the same units.
    digits: Vec<u128>,
}

impl Skips {
    /// Prepares skips for a q from [`LEAST`] to 1.
    pub fn new(q: f64, population: u64) -> Self {
        let mut power = fraction(q).wrapping_neg();
        let mut digits = Vec::new();
        for _ in 0..u64::BITS - population.leading_zeros() {
            if power == 0 {
                break;
            }
            digits.push(from_odds(power));
            power = product(power, power);
        }
        Self { beyond: power, digits }
    }

    /// Draws the number of records to pass over; `None` where it is past every record.
    fn next(&self, draws: &mut Draws) -> Option<u64> {
        if draws.happens(self.beyond) {
            return None;
        }
        let mut skip = 0;
        for (place, &digit) in self.digits.iter().enumerate() {
            skip |= u64::from(draws.happens(digit)) << place;
        }
        Some(skip)
    }

    /// Iterates over indices below `count`, ascending, each sampled with probability q independently.
    pub fn chosen(&self, draws: Draws, count: u64) -> SampledIndices<'_> {
        SampledIndices { skips: self, draws, next: 0, count }
    }
}

/// An iterator over the sampled indices of 0..count.
pub(crate) struct SampledIndices<'a> {
    skips: &'a Skips,
    draws: Draws,
    next: u64,
    count: u64,
}

impl Iterator for SampledIndices<'_> {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let left = self.count - self.next;
        if left == 0 {
            return None;
        }
        match self.skips.next(&mut self.draws) {
            Some(skip) if skip < left => {
                let index = self.next + skip;
                self.next = index + 1;
                Some(index)
            }
            _ => {
                self.next = self.count;
                None
            }
        }
    }
}

/// Returns q·2¹²⁸ exactly; 0 for q = 1.
pub(crate) fn fraction(q: f64) -> u128 {
    let bits = q.to_bits();
    let mantissa = u128::from(bits & ((1 << 52) - 1) | 1 << 52);
    // q = mantissa·2^(exponent − 1075); of numbers from 2⁻⁴⁰ to 1, bits go from 2⁻⁹² up.
    let exponent = (bits >> 52) as u32;
    mantissa.checked_shl(exponent + 128 - 1075).unwrap_or(0)
}

/// Returns ⌊a·b·2⁻¹²⁸⌋.
fn product(a: u128, b: u128) -> u128 {
    let high = |x: u128| x >> 64;
    let low = |x: u128| x & u128::from(u64::MAX);
    let outer = high(a) * low(b);
    let inner = low(a) * high(b);
    let carried = high(low(a) * low(b)) + low(outer) + low(inner);
    high(a) * high(b) + high(outer) + high(inner) + high(carried)
}

/// Returns a/(1 + a) for a in units of 2⁻¹²⁸, by long division in halves, so that nothing overflows.
fn from_odds(a: u128) -> u128 {
    let mut rest = a >> 1;
    let divisor = (1 << 127) + (a >> 1);
    let mut quotient = 0;
    for _ in 0..128 {
        quotient <<= 1;
        if rest >= divisor - rest {
            rest -= divisor - rest;
            quotient |= 1;
        } else {
            rest += rest;
        }
    }
    quotient
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: f64 = 340_282_366_920_938_463_463_374_607_431_768_211_456.0;

    #[test]
    fn fractions_are_exact() {
        assert_eq!(fraction(0.5), 1 << 127);
        assert_eq!(fraction(LEAST), 1 << 88);
        assert_eq!(fraction(1.0), 0);
        assert_eq!(fraction(1.0 - f64::EPSILON / 2.0), (1_u128 << 75).wrapping_neg());
        for q in [0.1, 0.01, 1e-6, 0.75, LEAST * 1.1] {
            assert_eq!(fraction(q) as f64 / ONE, q);
        }
    }

    #[test]
    fn digits_are_those_of_the_geometric_law() {
        assert_eq!(product(1 << 127, 1 << 127), 1 << 126);
        assert_eq!(product(u128::MAX, u128::MAX), u128::MAX - 1);
        for q in [0.5, 0.1, 1e-3, 1e-9] {
            let skips = Skips::new(q, 1 << 40);
            for (j, &digit) in skips.digits.iter().enumerate() {
                let power = ((-q).ln_1p() * 2_f64.powi(j as i32)).exp();
                assert!((digit as f64 / ONE - power / (1.0 + power)).abs() < 1e-13, "{q} {j}");
            }
        }
        // (1 − 2⁻⁴⁰)^(2⁴¹) = e⁻²: some of the time even the first skip is past all records.
        let skips = Skips::new(LEAST, (1 << 41) - 1);
        assert!((skips.beyond as f64 / ONE - (-2_f64).exp()).abs() < 1e-11);
    }

    #[test]
    fn a_certain_sample_is_everybody() {
        let key = crate::seed::Keys::new([1; 32].into(), [0; 32]).derive("test");
        let chosen = |q, count| Skips::new(q, count).chosen(key.draws(0), count).collect::<Vec<_>>();
        assert_eq!(chosen(1.0, 100), (0..100).collect::<Vec<_>>());
        assert!(chosen(1.0, 0).is_empty());
        assert!(chosen(LEAST, 1000).is_empty());
    }

    #[test]
    fn every_set_is_as_likely_as_it_should_be() {
        // All 32 subsets of five records at q = 0.3: χ² of 31 degrees, 5σ is 31 + 5·√62 = 70.
        let key = crate::seed::Keys::new([2; 32].into(), [0; 32]).derive("test");
        let q = 0.3_f64;
        let total = 40_000;
        let skips = Skips::new(q, 5);
        let mut counts = [0_u32; 32];
        for round in 0..total {
            let set: u32 = skips.chosen(key.draws(round), 5).map(|index| 1 << index).sum();
            counts[set as usize] += 1;
        }
        let chi: f64 = (0..32_u32)
            .map(|set| {
                let ones = set.count_ones() as i32;
                let expected = total as f64 * q.powi(ones) * (1.0 - q).powi(5 - ones);
                (f64::from(counts[set as usize]) - expected).powi(2) / expected
            })
            .sum();
        assert!(chi < 70.0, "{chi}");
    }
}
