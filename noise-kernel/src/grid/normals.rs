//! Approximate normals with a bound on their error: the fast way, in binary64.
//!
//! u = (A + ½)·2⁻⁴⁸ and v = (B + ½)·2⁻⁴⁸ are the middles of what 48 bits of each uniform leave open; z̃ is their pair of
//! normals, computed in binary64. For all u and v that begin with these bits, |z − z̃| ≤ E with
//!
//! E = K_in·2^(−e(u))·2^(−e(r)) + K_r·r, where e(x) is the exponent of x in binary.
//!
//! * Half a step of u, 2⁻⁴⁹, moves r by 2⁻⁴⁹/(ur) to first order. 2^(−e) is greater than 1/x by as much as the second order
//!   takes, where A is neither 0 nor 2⁴⁸ − 1: there E is infinite.
//! * Half a step of v turns by 2π·2⁻⁴⁹, which moves z by at most 6.29·2⁻⁴⁹·r.
//! * Arithmetic: the logarithm within 1 ulp and the root make 2·2⁻⁵³ of r, sine and cosine with their rounded argument
//!   3·2⁻⁵³ with fused operations or without, the product 2⁻⁵³. In all below 3·2⁻⁵²·r; K_r leaves 7.2·2⁻⁵²·r for it.
//!
//! Nothing that is served depends on the last bits of z̃: where E does not decide, `exact` does. So the order of
//! operations and their fusing are free.

use super::words::{FirstBits, PAIR_ROWS};
use crate::block::BLOCK;
use crate::chacha::LANES;
use crate::simd::Simd;

/// What half a step of u moves the radius by, and 1 % for rounding in E.
const K_IN: f64 = 1.01 / HALF_STEP;
/// What half a step of v, and the arithmetic, move a normal by, for each unit of the radius.
const K_R: f64 = 7.2 / HALF_STEP;
const HALF_STEP: f64 = (1u64 << 49) as f64;

const TWO_52: f64 = (1u64 << 52) as f64;
const TWO_52_BITS: u64 = 0x4330_0000_0000_0000;
/// 1.5·2⁵²: a number to which it is added is rounded to a whole one, whose low bits are those of the sum.
pub(crate) const ROUNDER: f64 = 1.5 * TWO_52;
/// u is below it for A = 0 alone, and 1 − u for A = 2⁴⁸ − 1.
const EDGE: f64 = 1.0 / (1u64 << 48) as f64;

/// Mantissas are taken in [√½, √2): the upper half of √½'s bits, and what moves exponents to begin there.
const ROOT_HALF_BITS: u64 = 0x3fe6_a09e_0000_0000;
const ONE_BITS: u64 = 0x3ff0_0000_0000_0000;

// The polynomials of FreeBSD's msun (e_log.c, k_sin.c, k_cos.c), whose bounds are stated there: ln(1 + f) within 2⁻⁵⁸,
// sine within 2⁻⁵⁸ and cosine within 2⁻⁵⁸ on [−π/4, π/4].
const LN_2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN_2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);
const LOG: [u64; 7] = [
    0x3fc2_f112_df3e_5244,
    0x3fc3_9a09_d078_c69f,
    0x3fc7_4664_96cb_03de,
    0x3fcc_71c5_1d8e_78af,
    0x3fd2_4924_9422_9359,
    0x3fd9_9999_9997_fa04,
    0x3fe5_5555_5555_5593,
];
const SIN: [u64; 6] = [
    0x3de5_d93a_5acf_d57c,
    0xbe5a_e5e6_8a2b_9ceb,
    0x3ec7_1de3_57b1_fe7d,
    0xbf2a_01a0_19c1_61d5,
    0x3f81_1111_1110_f8a6,
    0xbfc5_5555_5555_5549,
];
const COS: [u64; 6] = [
    0xbda8_fae9_be88_38d4,
    0x3e21_ee9e_bdb4_b1c4,
    0xbe92_7e4f_809c_52ad,
    0x3efa_01a0_19cb_1590,
    0xbf56_c16c_16c1_5177,
    0x3fa5_5555_5555_554c,
];

/// The approximate normals of a block, and the bound of each pair: coordinates 32p + l and 32p + 16 + l have
/// `error[16p + l]`.
#[repr(C, align(64))]
pub(crate) struct Normals {
    pub z: [f64; BLOCK],
    pub error: [f64; BLOCK / 2],
}

impl Normals {
    pub const ZERO: Self = Self { z: [0.0; BLOCK], error: [0.0; BLOCK / 2] };

    /// Puts in those of a block's first bits.
    #[inline(always)]
    pub fn fill<S: Simd>(&mut self, bits: &FirstBits) {
        let (pairs, _) = self.z.as_chunks_mut::<{ 2 * LANES }>();
        let (errors, _) = self.error.as_chunks_mut::<LANES>();
        for row in 0..PAIR_ROWS {
            let (cosines, sines) = pairs[row].split_at_mut(LANES);
            let words = bits.radius[row].iter().zip(&bits.turn[row]);
            let lanes = words.zip(cosines.iter_mut().zip(sines)).zip(&mut errors[row]);
            for (((&a, &b), (cosine, sine)), error) in lanes {
                let (r, bound) = radius_and_error::<S>(a);
                let (x, y) = cos_sin::<S>(b);
                *cosine = r * x;
                *sine = r * y;
                *error = bound;
            }
        }
    }
}

/// Horner's rule from the highest power.
#[inline(always)]
fn polynomial<S: Simd, const N: usize>(coefficients: &[u64; N], x: f64) -> f64 {
    let mut sum = f64::from_bits(coefficients[0]);
    for &bits in &coefficients[1..] {
        sum = S::near_fused(sum, x, f64::from_bits(bits));
    }
    sum
}

/// r of the 48 bits of u, and E.
#[inline(always)]
fn radius_and_error<S: Simd>(a: u64) -> (f64, f64) {
    let u = (f64::from_bits(a | TWO_52_BITS) - (TWO_52 - 0.5)) * (1.0 / (1u64 << 48) as f64);
    let moved = u.to_bits().wrapping_add(ONE_BITS - ROOT_HALF_BITS);
    let k = f64::from_bits(moved >> 52 | TWO_52_BITS) - (TWO_52 + 1023.0);
    let m = f64::from_bits((moved & 0x000f_ffff_ffff_ffff) + ROOT_HALF_BITS);
    let f = m - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let tail = polynomial::<S, 7>(&LOG, z) * z;
    let half_square = 0.5 * f * f;
    let low = S::near_fused(s, half_square + tail, k * LN_2_LOW);
    let log = S::near_fused(k, LN_2_HIGH, f - (half_square - low));
    let r = (-2.0 * log).sqrt();
    let open = K_IN * inverse_power(u) * inverse_power(r);
    let bound = S::near_fused(K_R, r, open);
    (r, if u > EDGE && u < 1.0 - EDGE { bound } else { f64::INFINITY })
}

/// 2^(−e(x)) of a positive number.
#[inline(always)]
fn inverse_power(x: f64) -> f64 {
    f64::from_bits((2046 << 52) - (x.to_bits() & 0x7ff0_0000_0000_0000))
}

/// cos 2πv and sin 2πv of the 48 bits of v.
#[inline(always)]
fn cos_sin<S: Simd>(b: u64) -> (f64, f64) {
    let quarters = (f64::from_bits(b | TWO_52_BITS) - (TWO_52 - 0.5)) * (1.0 / (1u64 << 46) as f64);
    let rounded = quarters + ROUNDER;
    let quadrant = rounded.to_bits();
    let x = (quarters - (rounded - ROUNDER)) * std::f64::consts::FRAC_PI_2;
    let z = x * x;
    let sine = S::near_fused(z * x, polynomial::<S, 6>(&SIN, z), x);
    let half = 0.5 * z;
    let w = 1.0 - half;
    let rest = S::near_fused(z * z, polynomial::<S, 6>(&COS, z), (1.0 - w) - half);
    let cosine = w + rest;
    let swapped = quadrant & 1 == 1;
    let (x, y) = if swapped { (sine, cosine) } else { (cosine, sine) };
    let signed = |value: f64, negative: u64| f64::from_bits(value.to_bits() ^ negative << 63);
    (signed(x, (quadrant + 1) >> 1 & 1), signed(y, quadrant >> 1 & 1))
}
