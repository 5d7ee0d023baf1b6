//! One lane, in plain Rust: what every processor can do, and what the others are compared with.
//!
//! Loops over lanes around it hold no branches, so the compiler makes vectors of what the target always has.

use super::Simd;
use crate::memory::Line;

#[derive(Clone, Copy)]
pub(crate) struct Scalar;

impl Simd for Scalar {
    const LANES: usize = 1;
    type U = u32;
    type F = f32;

    #[inline(always)]
    fn splat(self, word: u32) -> u32 {
        word
    }
    #[inline(always)]
    fn splat_f(self, value: f32) -> f32 {
        value
    }
    #[inline(always)]
    fn lane_numbers(self) -> u32 {
        0
    }
    #[inline(always)]
    fn load_f(self, from: &[f32; 16], at: usize) -> f32 {
        from[at]
    }
    #[inline(always)]
    fn store_f(self, values: f32, to: &mut [f32; 16], at: usize) {
        to[at] = values;
    }
    #[inline(always)]
    fn stream_f(self, values: f32, to: &mut Line, at: usize) {
        self.store_f(values, &mut to.0, at);
    }
    #[inline(always)]
    fn fence(self) {}
    #[inline(always)]
    fn prefetch(self, _from: &[f32; 16]) {}

    #[inline(always)]
    fn add(self, a: u32, b: u32) -> u32 {
        a.wrapping_add(b)
    }
    #[inline(always)]
    fn xor(self, a: u32, b: u32) -> u32 {
        a ^ b
    }
    #[inline(always)]
    fn and(self, a: u32, b: u32) -> u32 {
        a & b
    }
    #[inline(always)]
    fn or(self, a: u32, b: u32) -> u32 {
        a | b
    }
    #[inline(always)]
    fn left<const BITS: i32>(self, a: u32) -> u32 {
        a << BITS
    }
    #[inline(always)]
    fn right<const BITS: i32>(self, a: u32) -> u32 {
        a >> BITS
    }
    #[inline(always)]
    fn right_signed<const BITS: i32>(self, a: u32) -> u32 {
        (a as i32 >> BITS) as u32
    }
    #[inline(always)]
    fn rotate_16(self, a: u32) -> u32 {
        a.rotate_left(16)
    }
    #[inline(always)]
    fn rotate_12(self, a: u32) -> u32 {
        a.rotate_left(12)
    }
    #[inline(always)]
    fn rotate_8(self, a: u32) -> u32 {
        a.rotate_left(8)
    }
    #[inline(always)]
    fn rotate_7(self, a: u32) -> u32 {
        a.rotate_left(7)
    }
    #[inline(always)]
    fn any_high(self, a: u32) -> bool {
        a >> 31 == 1
    }

    #[inline(always)]
    fn to_f(self, a: u32) -> f32 {
        a as i32 as f32
    }
    #[inline(always)]
    fn bits(self, a: f32) -> u32 {
        a.to_bits()
    }
    #[inline(always)]
    fn floats(self, a: u32) -> f32 {
        f32::from_bits(a)
    }
    #[inline(always)]
    fn add_f(self, a: f32, b: f32) -> f32 {
        a + b
    }
    #[inline(always)]
    fn sub_f(self, a: f32, b: f32) -> f32 {
        a - b
    }
    #[inline(always)]
    fn mul_f(self, a: f32, b: f32) -> f32 {
        a * b
    }
    #[inline(always)]
    fn fma(self, a: f32, b: f32, c: f32) -> f32 {
        Self::fused(a, b, c)
    }
    #[inline(always)]
    fn sqrt(self, a: f32) -> f32 {
        a.sqrt()
    }
    #[inline(always)]
    fn choose(self, chooser: u32, high: f32, low: f32) -> f32 {
        if chooser >> 31 == 1 { high } else { low }
    }

    #[inline(always)]
    fn fused(a: f32, b: f32, c: f32) -> f32 {
        // Without the instruction, mul_add would be a call for each value.
        if cfg!(any(target_feature = "fma", target_arch = "aarch64")) {
            a.mul_add(b, c)
        } else {
            emulated_fma(a, b, c)
        }
    }
    #[inline(always)]
    fn fused_f64(a: f64, b: f64, c: f64) -> f64 {
        a.mul_add(b, c)
    }
    #[inline(always)]
    fn near_fused(a: f64, b: f64, c: f64) -> f64 {
        if cfg!(any(target_feature = "fma", target_arch = "aarch64")) { a.mul_add(b, c) } else { a * b + c }
    }
}

/// a·b + c rounded once, in binary64 and without branches: the product is exact there, and a sum rounded to odd keeps
/// enough for the second rounding to come out as if it were the only one (Boldo and Melquiond, 2008).
#[inline(always)]
fn emulated_fma(a: f32, b: f32, c: f32) -> f32 {
    let product = f64::from(a) * f64::from(b);
    let c = f64::from(c);
    let sum = product + c;
    let of_c = sum - product;
    let lost = (product - (sum - of_c)) + (c - of_c);
    let bits = sum.to_bits();
    let towards = if (lost > 0.0) == (sum > 0.0) { 1 } else { u64::MAX };
    let step = if lost.abs() > 0.0 && bits & 1 == 0 { towards } else { 0 };
    f64::from_bits(bits.wrapping_add(step)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_emulated_fma_rounds_once() {
        let mut x = 1u64;
        let mut next = || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 32) as u32
        };
        for _ in 0..2_000_000 {
            // Exponents near each other, so that sums cancel and ties are near.
            let mut value = |spread: u32| {
                let bits = next();
                f32::from_bits((bits & 0x807f_ffff) | ((127 - spread / 2 + (bits >> 24) % spread) << 23))
            };
            let a = value(12);
            let b = value(12);
            let c = value(40);
            assert_eq!(emulated_fma(a, b, c).to_bits(), a.mul_add(b, c).to_bits(), "{a} {b} {c}");
        }
        // Exactly half way between two binary32 values but for the product's last bit.
        for (a, b, c) in
            [(1.0 + f32::EPSILON, 1.0 - f32::EPSILON / 2.0, 1.0 / 16_777_216.0), (3.0, 0.0, -0.0)]
        {
            assert_eq!(emulated_fma(a, b, c).to_bits(), a.mul_add(b, c).to_bits());
        }
    }
}
