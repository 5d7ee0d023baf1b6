//! Eight lanes in plain Rust, which the compiler turns into what the target has.

#![allow(clippy::needless_range_loop)] // lanes of several arrays go by one number

use super::{Doubles, EIGHT};
use crate::simd::Simd;
#[cfg(target_arch = "aarch64")]
use crate::simd::neon::Neon;
use crate::simd::scalar::Scalar;

const LAST: u64 = (1 << 48) - 1;
const EXPONENT: u64 = 0x7ff0_0000_0000_0000;
const ONE: u64 = 0x3ff0_0000_0000_0000;
/// The upper 26 bits of a number and its exponent.
const UPPER: u64 = !((1 << 27) - 1);

/// The same expression for each lane.
macro_rules! each {
    (|$i:ident| $value:expr) => {{
        let mut all = [Default::default(); EIGHT];
        for $i in 0..EIGHT {
            all[$i] = $value;
        }
        all
    }};
}

macro_rules! lanes {
    ($set:ty) => {
        impl Doubles for $set {
            type D = [f64; EIGHT];
            type W = [u64; EIGHT];

            #[inline(always)]
            fn splat_d(self, value: f64) -> [f64; EIGHT] {
                [value; EIGHT]
            }
            #[inline(always)]
            fn load_d(self, from: &[f64; EIGHT]) -> [f64; EIGHT] {
                *from
            }
            #[inline(always)]
            fn store_d(self, values: [f64; EIGHT], to: &mut [f64; EIGHT]) {
                *to = values;
            }
            #[inline(always)]
            fn load_whole(self, from: &[i32; EIGHT]) -> [f64; EIGHT] {
                each!(|i| f64::from(from[i]))
            }
            #[inline(always)]
            fn store_low(self, values: [[f64; EIGHT]; 2], to: &mut [i32; 2 * EIGHT]) {
                for (to, value) in to.iter_mut().zip(values.as_flattened()) {
                    *to = value.to_bits() as i32;
                }
            }

            #[inline(always)]
            fn with_upper(self, high: &[f32; 16], shared: &[f32; 16], half: usize) -> [u64; EIGHT] {
                let at = EIGHT * half;
                each!(|i| u64::from(high[at + i].to_bits()) << 16 | u64::from(shared[at + i].to_bits() >> 16))
            }
            #[inline(always)]
            fn with_lower(self, high: &[f32; 16], shared: &[f32; 16], half: usize) -> [u64; EIGHT] {
                let at = EIGHT * half;
                each!(|i| u64::from(high[at + i].to_bits()) << 16
                    | u64::from(shared[at + i].to_bits() & 0xffff))
            }
            #[inline(always)]
            fn masked(self, words: [u64; EIGHT], and: u64, or: u64) -> [f64; EIGHT] {
                each!(|i| f64::from_bits(words[i] & and | or))
            }
            #[inline(always)]
            fn words(self, values: [f64; EIGHT]) -> [u64; EIGHT] {
                each!(|i| values[i].to_bits())
            }
            #[inline(always)]
            fn right_d<const BITS: u32>(self, words: [u64; EIGHT]) -> [u64; EIGHT] {
                each!(|i| words[i] >> BITS)
            }
            #[inline(always)]
            fn lookup(self, table: &[f64; 16], words: [u64; EIGHT]) -> [f64; EIGHT] {
                each!(|i| table[(words[i] & 15) as usize])
            }
            #[inline(always)]
            fn ends(self, words: [u64; EIGHT]) -> u8 {
                let mut mask = 0;
                for i in 0..EIGHT {
                    mask |= u8::from(words[i] == 0 || words[i] == LAST) << i;
                }
                mask
            }

            #[inline(always)]
            fn exponent(self, a: [f64; EIGHT]) -> [f64; EIGHT] {
                each!(|i| ((a[i].to_bits() >> 52) as i32 - 1023) as f64)
            }
            #[inline(always)]
            fn mantissa(self, a: [f64; EIGHT]) -> [f64; EIGHT] {
                each!(|i| f64::from_bits(a[i].to_bits() & !EXPONENT | ONE))
            }
            #[inline(always)]
            fn twice_inverse_power(self, a: [f64; EIGHT]) -> [f64; EIGHT] {
                each!(|i| f64::from_bits(!a[i].to_bits() & EXPONENT))
            }

            #[inline(always)]
            fn add_d(self, a: [f64; EIGHT], b: [f64; EIGHT]) -> [f64; EIGHT] {
                each!(|i| a[i] + b[i])
            }
            #[inline(always)]
            fn sub_d(self, a: [f64; EIGHT], b: [f64; EIGHT]) -> [f64; EIGHT] {
                each!(|i| a[i] - b[i])
            }
            #[inline(always)]
            fn mul_d(self, a: [f64; EIGHT], b: [f64; EIGHT]) -> [f64; EIGHT] {
                each!(|i| a[i] * b[i])
            }
            #[inline(always)]
            fn sqrt_d(self, a: [f64; EIGHT]) -> [f64; EIGHT] {
                each!(|i| a[i].sqrt())
            }
            #[inline(always)]
            fn fused_d(self, a: [f64; EIGHT], b: [f64; EIGHT], c: [f64; EIGHT]) -> [f64; EIGHT] {
                each!(|i| <$set>::fused_f64(a[i], b[i], c[i]))
            }
            #[inline(always)]
            fn near_d(self, a: [f64; EIGHT], b: [f64; EIGHT], c: [f64; EIGHT]) -> [f64; EIGHT] {
                each!(|i| <$set>::near_fused(a[i], b[i], c[i]))
            }
            #[inline(always)]
            fn near_less(self, a: [f64; EIGHT], b: [f64; EIGHT], c: [f64; EIGHT]) -> [f64; EIGHT] {
                each!(|i| <$set>::near_fused(-a[i], b[i], c[i]))
            }
            #[inline(always)]
            fn near_minus(self, a: [f64; EIGHT], b: [f64; EIGHT], c: [f64; EIGHT]) -> [f64; EIGHT] {
                each!(|i| <$set>::near_fused(a[i], b[i], -c[i]))
            }
            #[inline(always)]
            fn product_less_one(self, a: [f64; EIGHT], b: [f64; EIGHT]) -> [f64; EIGHT] {
                // The product of the upper bits is exact, and so is its difference to 1.
                each!(|i| {
                    let upper = f64::from_bits(a[i].to_bits() & UPPER);
                    (upper * b[i] - 1.0) + (a[i] - upper) * b[i]
                })
            }

            #[inline(always)]
            fn abs_max(self, a: [f64; EIGHT], b: [f64; EIGHT]) -> [f64; EIGHT] {
                each!(|i| if a[i].abs() > b[i].abs() { a[i].abs() } else { b[i].abs() })
            }
            #[inline(always)]
            fn not_below(self, a: [f64; EIGHT], b: [f64; EIGHT]) -> u8 {
                let mut mask = 0;
                for i in 0..EIGHT {
                    mask |=
                        u8::from(!matches!(a[i].abs().partial_cmp(&b[i]), Some(std::cmp::Ordering::Less)))
                            << i;
                }
                mask
            }
            #[inline(always)]
            fn choose_d(self, mask: u8, then: [f64; EIGHT], otherwise: [f64; EIGHT]) -> [f64; EIGHT] {
                each!(|i| if mask >> i & 1 == 1 { then[i] } else { otherwise[i] })
            }
        }
    };
}

lanes!(Scalar);
#[cfg(target_arch = "aarch64")]
lanes!(Neon);
