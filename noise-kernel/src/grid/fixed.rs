//! Unsigned fixed point of 448 bits, 384 of them after the point: what the slow way to a normal needs, and no more.
//!
//! Sums and shifts to the left are exact where they fit; products, quotients and roots are rounded down, so that each
//! is short by less than 2⁻³⁸⁴.

#![allow(clippy::needless_range_loop)] // limbs of several numbers go by one index

use super::limbs::{LIMBS, Wide, above_root, compare, multiply, quotient, subtract};
use std::cmp::Ordering;

/// Bits after the point.
pub(crate) const FRACTION: u32 = 384;
const FRACTION_LIMBS: usize = 6;

/// A number from 0 to 2⁶⁴.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fixed(pub [u64; LIMBS]);

impl Fixed {
    pub const ZERO: Self = Self([0; LIMBS]);
    pub const ONE: Self = Self([0, 0, 0, 0, 0, 0, 1]);
    /// ln 2, rounded down.
    pub const LN_2: Self = Self([
        0x5595_52fb_4afa_1b10,
        0xe7b8_7620_6deb_ac98,
        0x8a0d_175b_8baa_fa2b,
        0x40f3_4326_7298_b62d,
        0xc9e3_b398_03f2_f6af,
        0xb172_17f7_d1cf_79ab,
        0,
    ]);
    /// π/2, rounded down.
    pub const HALF_PI: Self = Self([
        0xdf2a_3367_9a74_8636,
        0xa294_10f3_1c68_09bb,
        0x0417_7d4c_7627_3644,
        0x5204_9c11_14cf_98e8,
        0x898c_c517_01b8_39a2,
        0x921f_b544_42d1_8469,
        1,
    ]);

    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// Zeros before the highest bit set, which is worth 2^(63 − zeros). 448 for 0.
    pub fn leading_zeros(self) -> u32 {
        let highest = (0..LIMBS).rev().find(|&i| self.0[i] != 0);
        highest.map_or(64 * LIMBS as u32, |i| 64 * (LIMBS - 1 - i) as u32 + self.0[i].leading_zeros())
    }

    /// The sum; it is below 2⁶⁴.
    pub fn plus(self, other: Self) -> Self {
        let mut sum = self;
        let mut carry = false;
        for i in 0..LIMBS {
            let (low, first) = sum.0[i].overflowing_add(other.0[i]);
            let (low, second) = low.overflowing_add(u64::from(carry));
            sum.0[i] = low;
            carry = first | second;
        }
        sum
    }

    /// The difference; `other` is no greater.
    pub fn minus(self, other: Self) -> Self {
        let mut difference = self;
        subtract(&mut difference.0, &other.0);
        difference
    }

    pub fn shifted_left(self, bits: u32) -> Self {
        let limbs = (bits / 64) as usize;
        let rest = bits % 64;
        let mut shifted = Self::ZERO;
        for i in limbs..LIMBS {
            let low = if rest > 0 && i > limbs { self.0[i - limbs - 1] >> (64 - rest) } else { 0 };
            shifted.0[i] = self.0[i - limbs] << rest | low;
        }
        shifted
    }

    pub fn times(self, other: Self) -> Self {
        let product = multiply(&self.0, &other.0);
        Self(std::array::from_fn(|i| product[FRACTION_LIMBS + i]))
    }

    /// The product with a whole number; it is below 2⁶⁴.
    pub fn times_whole(self, factor: u64) -> Self {
        let mut product = self;
        let mut carry = 0u128;
        for limb in &mut product.0 {
            let sum = u128::from(*limb) * u128::from(factor) + carry;
            *limb = sum as u64;
            carry = sum >> 64;
        }
        product
    }

    /// The quotient by a whole number above 0.
    pub fn over_whole(self, divisor: u32) -> Self {
        let divisor = u64::from(divisor);
        let mut quotient = self;
        let mut rest = 0u64;
        for limb in quotient.0.iter_mut().rev() {
            let high = rest << 32 | *limb >> 32;
            let low = (high % divisor) << 32 | (*limb & 0xffff_ffff);
            *limb = (high / divisor) << 32 | (low / divisor);
            rest = low % divisor;
        }
        quotient
    }

    /// The quotient; `divisor` is at least 2⁻⁶⁴ of `self`, and at least 1.
    pub fn over(self, divisor: Self) -> Self {
        let mut wide: Wide = [0; 2 * LIMBS];
        wide[FRACTION_LIMBS..FRACTION_LIMBS + LIMBS].copy_from_slice(&self.0);
        Self(quotient(wide, &divisor.0))
    }

    /// The square root, rounded down: Newton's method in whole numbers, from above, which falls until it is there.
    pub fn root(self) -> Self {
        if self.is_zero() {
            return self;
        }
        let mut wide: Wide = [0; 2 * LIMBS];
        wide[FRACTION_LIMBS..FRACTION_LIMBS + LIMBS].copy_from_slice(&self.0);
        let mut root = above_root(&wide);
        loop {
            let next = halved(sum_of(root, quotient(wide, &root)));
            if compare(&next, &root) != Ordering::Less {
                return Self(root);
            }
            root = next;
        }
    }
}

fn sum_of(a: [u64; LIMBS], b: [u64; LIMBS]) -> [u64; LIMBS] {
    Fixed(a).plus(Fixed(b)).0
}

fn halved(a: [u64; LIMBS]) -> [u64; LIMBS] {
    std::array::from_fn(|i| a[i] >> 1 | if i + 1 < LIMBS { a[i + 1] << 63 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(dice: &mut dice::Dice) -> Fixed {
        let limbs = (dice.roll() % 7) as usize;
        Fixed(std::array::from_fn(|i| match dice.roll() % 8 {
            _ if i > limbs => 0,
            0 => u64::MAX,
            1 => 0,
            _ => dice.roll(),
        }))
    }

    /// q·b ≤ a·2³⁸⁴ < (q + 1)·b, and the same for roots: what makes the rounded results, whatever the way to them.
    #[test]
    fn quotients_and_roots_are_rounded_down() {
        let mut dice = dice::Dice::new(11);
        for _ in 0..20_000 {
            let mut a = value(&mut dice);
            let mut b = value(&mut dice);
            (a.0[6], b.0[6]) = (a.0[6] >> 1, b.0[6] | 1);
            let mut wide = [0; 14];
            wide[6..13].copy_from_slice(&a.0);
            let q = a.over(b);
            let below = multiply(&q.0, &b.0);
            assert!(compare(&below, &wide) != Ordering::Greater, "{a:?} {b:?}");
            let mut rest = wide;
            subtract(&mut rest, &below);
            assert!(compare(&rest, &[&b.0[..], &[0; 7]].concat()) == Ordering::Less, "{a:?} {b:?}");
            let root = a.root();
            let next = root.plus(Fixed([1, 0, 0, 0, 0, 0, 0]));
            assert!(compare(&multiply(&root.0, &root.0), &wide) != Ordering::Greater, "{a:?}");
            assert!(compare(&multiply(&next.0, &next.0), &wide) == Ordering::Greater, "{a:?}");
            let tenth = a.over_whole(10);
            assert!(a.minus(tenth.times_whole(10)).0[0] < 10);
        }
    }

    /// ln 2 = 2·atanh(1/3) and π/4 = 4·atan(1/5) − atan(1/239), each by its series.
    #[test]
    fn the_constants_are_their_series() {
        let series = |x: u32, signed: bool| {
            let mut power = Fixed::ONE.over_whole(x);
            let mut sums = [power, Fixed::ZERO];
            for k in 1..400u32 {
                power = power.over_whole(x * x);
                let side = if signed { (k % 2) as usize } else { 0 };
                sums[side] = sums[side].plus(power.over_whole(2 * k + 1));
            }
            sums[0].minus(sums[1])
        };
        let near = |a: Fixed, b: Fixed| {
            let apart = if compare(&a.0, &b.0) == Ordering::Less { b.minus(a) } else { a.minus(b) };
            assert!(apart.leading_zeros() > 435, "{a:?} {b:?}");
        };
        near(Fixed::LN_2, series(3, false).times_whole(2));
        let quarter = series(5, true).times_whole(4).minus(series(239, true));
        near(Fixed::HALF_PI, quarter.times_whole(2));
    }
}
