//! Whole numbers in limbs of 64 bits, the lowest first: products, differences, quotients.

#![allow(clippy::needless_range_loop)] // limbs of several numbers go by one index

use std::cmp::Ordering;

/// Limbs of a number.
pub(crate) const LIMBS: usize = 7;

/// A product of two numbers.
pub(crate) type Wide = [u64; 2 * LIMBS];

/// A number at least the root of `wide`, by less than one part in 2²⁹.
pub(crate) fn above_root(wide: &Wide) -> [u64; LIMBS] {
    let highest = (0..wide.len()).rev().find(|&i| wide[i] != 0).unwrap_or(0);
    let length = 64 * highest as u32 + 64 - wide[highest].leading_zeros();
    // An even number of bits below the highest 60 or 61.
    let below = length.saturating_sub(60) & !1;
    let limb = (below / 64) as usize;
    let pair = u128::from(wide[limb]) | u128::from(*wide.get(limb + 1).unwrap_or(&0)) << 64;
    let top = (pair >> (below % 64)) as u64;
    let near = (top as f64).sqrt() as u64 + 2;
    let shifted = u128::from(near) << (below / 2 % 64);
    let mut root = [0; LIMBS];
    let at = (below / 2 / 64) as usize;
    root[at] = shifted as u64;
    if at + 1 < LIMBS {
        root[at + 1] = (shifted >> 64) as u64;
    }
    root
}

pub(crate) fn compare(a: &[u64], b: &[u64]) -> Ordering {
    a.iter().rev().cmp(b.iter().rev())
}

pub(crate) fn multiply(a: &[u64; LIMBS], b: &[u64; LIMBS]) -> Wide {
    let mut product: Wide = [0; 2 * LIMBS];
    for i in 0..LIMBS {
        let mut carry = 0u128;
        for j in 0..LIMBS {
            let sum = u128::from(a[i]) * u128::from(b[j]) + u128::from(product[i + j]) + carry;
            product[i + j] = sum as u64;
            carry = sum >> 64;
        }
        product[i + LIMBS] = carry as u64;
    }
    product
}

/// a ← a − b, and whether b was greater. `b` is no longer than `a`.
pub(crate) fn subtract(a: &mut [u64], b: &[u64]) -> bool {
    let mut borrow = false;
    for i in 0..a.len() {
        let (low, first) = a[i].overflowing_sub(b.get(i).copied().unwrap_or(0));
        let (low, second) = low.overflowing_sub(u64::from(borrow));
        a[i] = low;
        borrow = first | second;
    }
    borrow
}

/// ⌊a/b⌋ of whole numbers, by the pencil's method in base 2⁶⁴ (Knuth, The Art of Computer Programming, 4.3.1, D). b is
/// not 0, and the quotient is below 2⁴⁴⁸.
pub(crate) fn quotient(a: Wide, b: &[u64; LIMBS]) -> [u64; LIMBS] {
    let Some(top) = (0..LIMBS).rev().find(|&i| b[i] != 0) else { return [u64::MAX; LIMBS] };
    let n = top + 1;
    let shift = b[top].leading_zeros();
    // Shifted so that the divisor's highest bit is set.
    let shifted = |value: &[u64], i: usize| {
        let high = value.get(i).map_or(0, |limb| limb << shift);
        let low = if shift > 0 && i > 0 { value[i - 1] >> (64 - shift) } else { 0 };
        high | low
    };
    let divisor: [u64; LIMBS] = std::array::from_fn(|i| if i < n { shifted(b, i) } else { 0 });
    let divisor = &divisor[..n];
    let mut rest: [u64; 2 * LIMBS + 1] = std::array::from_fn(|i| shifted(&a, i));
    let mut result = [0; LIMBS];
    for at in (0..=2 * LIMBS - n).rev() {
        let high = u128::from(rest[at + n]) << 64 | u128::from(rest[at + n - 1]);
        // At most two too many, and one is given back each time.
        let mut digit = (high / u128::from(divisor[n - 1])).min(u128::from(u64::MAX)) as u64;
        let mut product = [0; LIMBS + 1];
        let mut carry = 0u128;
        for i in 0..n {
            let sum = u128::from(digit) * u128::from(divisor[i]) + carry;
            product[i] = sum as u64;
            carry = sum >> 64;
        }
        product[n] = carry as u64;
        let mut too_many = subtract(&mut rest[at..=at + n], &product[..=n]);
        while too_many {
            digit -= 1;
            let mut carry = false;
            for i in 0..=n {
                let part = divisor.get(i).copied().unwrap_or(0);
                let (low, first) = rest[at + i].overflowing_add(part);
                let (low, second) = low.overflowing_add(u64::from(carry));
                rest[at + i] = low;
                carry = first | second;
            }
            too_many = !carry;
        }
        if at < LIMBS {
            result[at] = digit;
        }
    }
    result
}
