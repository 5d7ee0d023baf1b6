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
//! * Arithmetic, below 5.5·2⁻⁵²·r in all; K_r leaves 7.2·2⁻⁵²·r for it and for the rounding of s·z, 2⁻⁵³·r a step of s.
//!
//! # Arithmetic
//!
//! All by tables of sixteen entries, which two registers hold, and without a division.
//!
//! *Radius.* 2u = m·2ᵏ with m in [1, 2), exact, k ≤ 0; f = m·c − 1 with c of the sixteenth that m lies in, |f| ≤ 2⁻⁵. Then
//! −2 ln u = −k·2 ln 2 + 2 ln 2c − 2 ln(1 + f), and no two parts cancel: the first two are at least 0, and in the last
//! sixteenth, where 2 ln 2c is 0 and f exact, the third is at least 0 too. Elsewhere the sum is at least 2⁻⁴, a rounding
//! or a table's entry near it is off by 2⁻⁵⁷ or as much of the sum, 2⁻⁵³: entry, its sum with −2f, the term of f², the sum
//! with it, ln 2 and the last sum make 4.5·2⁻⁵³ of −2 ln u, with products rounded apart 5.5·2⁻⁵³. Half of that is r's,
//! and the root adds 2⁻⁵³: 3.8·2⁻⁵³.
//!
//! *Angle.* B's first four bits name a sixteenth of a turn, whose middle has cosine C and sine S in tables, 2⁻⁵⁴ each; the
//! other bits are x, the angle from there, |x| ≤ π/16. cos 2πv = C·cos x − S·sin x and sin 2πv = S·cos x + C·sin x.
//! x is off by 2⁻⁵⁴; cos x by 2⁻⁵⁴ and its polynomial's 2⁻⁶⁴; sin x by 2⁻⁵⁵: in all 2.4·2⁻⁵³ with those of C and S. Products
//! with r, with C and S, and the sum make 2.2·2⁻⁵³ of r, rounded apart 3.2·2⁻⁵³. Together with r's own: below 9.4·2⁻⁵³·r
//! and 10.4·2⁻⁵³·r, rounded up to 5.5·2⁻⁵².
//!
//! Nothing that is served depends on the last bits of z̃: where E does not decide, `exact` does. So the order of
//! operations and their fusing are free.

use super::tables::{COSINE, COSINES, INVERSE, LOG, SINE, SINES, TWICE_LOG};
use super::words::{FirstBits, PAIR_ROWS};
use crate::block::BLOCK;
use crate::simd::doubles::{Doubles, EIGHT};
use std::f64::consts::{LN_2, TAU};

/// What half a step of u moves the radius by, and 1 % for rounding in E.
const K_IN: f64 = 1.01 / HALF_STEP;
/// What half a step of v, and the arithmetic, move a normal by, for each unit of the radius.
const K_R: f64 = 7.2 / HALF_STEP;
const HALF_STEP: f64 = (1u64 << 49) as f64;

/// 32: the lowest bit of its representation is 2⁻⁴⁷.
const THIRTY_TWO: f64 = 32.0;
const TWO_52: f64 = (1u64 << 52) as f64;
/// 1.5·2⁵²: a number to which it is added is rounded to a whole one, whose low bits are those of the sum.
pub(crate) const ROUNDER: f64 = 1.5 * TWO_52;

/// Bits of v within a sixteenth of a turn.
const WITHIN: u32 = 44;
/// The angle of the last bit of v, and of the middle of a sixteenth's first step from the middle of the sixteenth.
const STEP: f64 = TAU / (1u64 << 48) as f64;
const FIRST: f64 = -((1u64 << (WITHIN - 1)) as f64 - 0.5) * STEP;

/// The approximate normals of a block, and the bound of each pair: coordinates 32p + l and 32p + 16 + l have
/// `error[16p + l]`.
#[repr(C, align(64))]
pub(crate) struct Normals {
    pub z: [f64; BLOCK],
    pub error: [f64; BLOCK / 2],
}

/// The same expression for each of `N` vectors. A macro, since a closure would not inherit the shell's instructions.
macro_rules! each {
    (|$i:ident| $value:expr) => {{
        let $i = 0;
        let mut all = [$value; N];
        for $i in 1..N {
            all[$i] = $value;
        }
        all
    }};
}

impl Normals {
    pub const ZERO: Self = Self { z: [0.0; BLOCK], error: [0.0; BLOCK / 2] };

    /// Puts in those of a block's first bits.
    #[inline(always)]
    pub fn fill<S: Doubles>(&mut self, s: S, bits: &FirstBits) {
        // As many vectors at once as there are registers for.
        match S::LANES {
            16 => self.fill_by::<S, 4>(s, bits),
            _ => self.fill_by::<S, 1>(s, bits),
        }
    }

    #[inline(always)]
    fn fill_by<S: Doubles, const N: usize>(&mut self, s: S, bits: &FirstBits) {
        let (z, _) = self.z.as_chunks_mut::<EIGHT>();
        let (errors, _) = self.error.as_chunks_mut::<EIGHT>();
        for first in (0..2 * PAIR_ROWS).step_by(N) {
            let a = each!(|i| {
                let [a, _, shared] = bits.row((first + i) / 2);
                s.with_upper(a, shared, (first + i) % 2)
            });
            let b = each!(|i| {
                let [_, c, shared] = bits.row((first + i) / 2);
                s.with_lower(c, shared, (first + i) % 2)
            });
            let radius = radii(s, a, &mut errors[first..first + N]);
            let [x, y] = points(s, radius, b);
            for i in 0..N {
                let at = (first + i) / 2 * 4 + (first + i) % 2;
                s.store_d(x[i], &mut z[at]);
                s.store_d(y[i], &mut z[at + 2]);
            }
        }
    }
}

/// Horner's rule from the highest power.
#[inline(always)]
fn polynomial<S: Doubles, const C: usize, const N: usize>(
    s: S,
    coefficients: &[f64; C],
    x: [S::D; N],
) -> [S::D; N] {
    let mut sum = [s.splat_d(coefficients[0]); N];
    for &coefficient in &coefficients[1..] {
        sum = each!(|i| s.near_d(sum[i], x[i], s.splat_d(coefficient)));
    }
    sum
}

/// r of the 48 bits of u; `errors` gets E.
#[inline(always)]
fn radii<S: Doubles, const N: usize>(s: S, a: [S::W; N], errors: &mut [[f64; EIGHT]]) -> [S::D; N] {
    let below = s.splat_d(THIRTY_TWO - 1.0 / (1u64 << 48) as f64);
    let twice_u = each!(|i| s.sub_d(s.masked(a[i], u64::MAX, THIRTY_TWO.to_bits()), below));
    let sixteenth = each!(|i| s.right_d::<48>(s.words(twice_u[i])));
    let f = each!(|i| s.product_less_one(s.mantissa(twice_u[i]), s.lookup(&INVERSE, sixteenth[i])));
    let of_square = polynomial(s, &LOG, f);
    let linear = each!(|i| s.near_less(s.splat_d(2.0), f[i], s.lookup(&TWICE_LOG, sixteenth[i])));
    let of_mantissa = each!(|i| s.near_d(s.mul_d(f[i], f[i]), of_square[i], linear[i]));
    let square = each!(|i| s.near_less(s.exponent(twice_u[i]), s.splat_d(2.0 * LN_2), of_mantissa[i]));
    let radius = each!(|i| s.sqrt_d(square[i]));
    for i in 0..N {
        // 2^(1 − e(2u)) is 2^(−e(u)).
        let inverse = s.mul_d(s.twice_inverse_power(twice_u[i]), s.twice_inverse_power(radius[i]));
        let error = s.near_d(s.splat_d(K_IN / 2.0), inverse, s.mul_d(s.splat_d(K_R), radius[i]));
        s.store_d(s.choose_d(s.ends(a[i]), s.splat_d(f64::INFINITY), error), &mut errors[i]);
    }
    radius
}

/// r·cos 2πv and r·sin 2πv of the 48 bits of v.
#[inline(always)]
fn points<S: Doubles, const N: usize>(s: S, radius: [S::D; N], b: [S::W; N]) -> [[S::D; N]; 2] {
    let within = each!(|i| s.sub_d(s.masked(b[i], (1 << WITHIN) - 1, TWO_52.to_bits()), s.splat_d(TWO_52)));
    let x = each!(|i| s.near_d(within[i], s.splat_d(STEP), s.splat_d(FIRST)));
    let square = each!(|i| s.mul_d(x[i], x[i]));
    let of_sine = polynomial(s, &SINE, square);
    let of_cosine = polynomial(s, &COSINE, square);
    let sine = each!(|i| s.near_d(s.mul_d(x[i], square[i]), of_sine[i], x[i]));
    let cosine = each!(|i| s.near_d(square[i], of_cosine[i], s.splat_d(1.0)));
    let near = each!(|i| s.mul_d(radius[i], cosine[i]));
    let aside = each!(|i| s.mul_d(radius[i], sine[i]));
    let sixteenth = each!(|i| s.right_d::<WITHIN>(b[i]));
    let c = each!(|i| s.lookup(&COSINES, sixteenth[i]));
    let d = each!(|i| s.lookup(&SINES, sixteenth[i]));
    [
        each!(|i| s.near_less(d[i], aside[i], s.mul_d(c[i], near[i]))),
        each!(|i| s.near_d(d[i], near[i], s.mul_d(c[i], aside[i]))),
    ]
}
