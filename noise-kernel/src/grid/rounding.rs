//! ⌊Σ cᵢzᵢ − F + ½⌋ of exact normals, or the finding that the known bits don't decide it.

use super::exact::ExactNormal;
use super::fixed::Fixed;
use super::limbs::LIMBS;

/// Bits of the fraction that must decide: a number closer than 2⁻¹⁸⁰ to an edge is refused by every implementation.
const DECIDING: i32 = 180;

/// A number (−1)^negative·mantissa·2^exponent: a binary64 value, or a product of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dyadic {
    negative: bool,
    mantissa: u128,
    exponent: i32,
}

impl Dyadic {
    /// A finite binary64 value.
    pub fn new(value: f64) -> Self {
        let bits = value.to_bits();
        let field = (bits >> 52 & 0x7ff) as i32;
        let low = u128::from(bits & ((1 << 52) - 1));
        // Without the leading 1 below the least normal value.
        let mantissa = if field == 0 { low } else { low | 1 << 52 };
        Self { negative: value.is_sign_negative(), mantissa, exponent: field.max(1) - 1075 }
    }

    pub fn times(self, other: Self) -> Self {
        Self {
            negative: self.negative != other.negative,
            mantissa: self.mantissa * other.mantissa,
            exponent: self.exponent + other.exponent,
        }
    }

    fn magnitude(self) -> f64 {
        self.mantissa as f64 * 2f64.powi(self.exponent)
    }
}

/// Limbs of a sum, the lowest first: as many bits after the point as [`Fixed`] has, 128 before it, in two's complement.
const SUM_LIMBS: usize = LIMBS + 1;

/// A running sum and a bound on how far it is off. Terms are below 2¹²⁰ in all.
#[derive(Clone, Copy)]
pub(crate) struct ExactSum {
    limbs: [u64; SUM_LIMBS],
    error: f64,
}

impl ExactSum {
    pub fn new() -> Self {
        Self { limbs: [0; SUM_LIMBS], error: 0.0 }
    }

    /// Adds c·z.
    pub fn add(&mut self, c: Dyadic, z: &ExactNormal) {
        self.add_product(c.mantissa, c.exponent, z.magnitude, c.negative != z.negative);
        // An eighth more than the bound: the mantissa and the sum are rounded.
        self.error += 1.125 * c.magnitude() * 2f64.powi(z.error);
    }

    /// Subtracts F, a binary64 value.
    pub fn subtract(&mut self, f: f64) {
        let f = Dyadic::new(f);
        self.add_product(f.mantissa, f.exponent, Fixed::ONE, !f.negative);
    }

    /// Subtracts a whole number times a power of two.
    pub fn subtract_whole(&mut self, whole: i128, exponent: i32) {
        self.add_product(whole.unsigned_abs(), exponent, Fixed::ONE, whole >= 0);
    }

    fn add_product(&mut self, mantissa: u128, exponent: i32, value: Fixed, negative: bool) {
        let mut product = [0u64; LIMBS + 2];
        for (at, part) in [mantissa as u64, (mantissa >> 64) as u64].into_iter().enumerate() {
            let mut carry = 0u128;
            for (limb, &of_value) in product[at..].iter_mut().zip(value.0.iter().chain([&0, &0])) {
                let sum = u128::from(part) * u128::from(of_value) + u128::from(*limb) + carry;
                *limb = sum as u64;
                carry = sum >> 64;
            }
        }
        let moved = moved(&product, exponent);
        let mut carry = negative;
        for (limb, part) in self.limbs.iter_mut().zip(moved) {
            let part = if negative { !part } else { part };
            let (sum, first) = limb.overflowing_add(part);
            let (sum, second) = sum.overflowing_add(u64::from(carry));
            *limb = sum;
            carry = first | second;
        }
        // What was cut off.
        self.error += 2f64.powi(-384);
    }

    /// The sum in binary64, for comparisons in tests.
    #[cfg(test)]
    pub fn near(&self) -> f64 {
        let is_negative = self.limbs[SUM_LIMBS - 1] >> 63 == 1;
        let mut limbs = self.limbs;
        if is_negative {
            // One step of the last place off, which is nothing here.
            limbs.iter_mut().for_each(|limb| *limb = !*limb);
        }
        let terms = limbs.iter().zip(0..).map(|(&limb, i)| limb as f64 * 2f64.powi(64 * i - 384));
        let sum: f64 = terms.sum();
        if is_negative { -sum } else { sum }
    }

    /// ⌊sum + ½⌋, or `None` where an edge may lie between the sum and the real number, or is nearer than 2⁻¹⁸⁰.
    pub fn rounded(mut self) -> Option<i128> {
        let decided = (-self.error.log2()).floor().min(f64::from(DECIDING)) as i32 - 1;
        if decided < 2 {
            return None;
        }
        let mut added = 1 << 63;
        for limb in &mut self.limbs[LIMBS - 2..] {
            let (sum, over) = limb.overflowing_add(added);
            *limb = sum;
            added = u64::from(over);
        }
        let deciding = |at: i32| {
            let at = 384 - 1 - at as usize;
            self.limbs[at / 64] >> (at % 64) & 1
        };
        let first = deciding(0);
        let is_near_edge = (1..decided).all(|at| deciding(at) == first);
        let whole = u128::from(self.limbs[LIMBS - 1]) | u128::from(self.limbs[LIMBS]) << 64;
        (!is_near_edge).then_some(whole as i128)
    }
}

/// The number moved by `exponent` bits to the left, or to the right, where its last bits are lost.
fn moved(value: &[u64; LIMBS + 2], exponent: i32) -> [u64; SUM_LIMBS] {
    std::array::from_fn(|i| {
        // The bits of limb i begin at this bit of the value.
        let from = 64 * i as i32 - exponent;
        let limb = from.div_euclid(64);
        let shift = from.rem_euclid(64);
        let at =
            |limb: i32| usize::try_from(limb).ok().and_then(|limb| value.get(limb)).copied().unwrap_or(0);
        let low = at(limb) >> shift;
        if shift == 0 { low } else { low | at(limb + 1) << (64 - shift) }
    })
}
