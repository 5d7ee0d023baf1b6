//! Rounding of approximate values, with a test whether the real number rounds to the same.
//!
//! v = s·z̃ − F. Its rounding is off by at most 2⁻⁵³·|v|, below 2⁻²² where |v| is below 2³¹; s·z̃, where it is rounded apart,
//! by 2⁻⁵³·s·r, which E has room for; and s·z̃ is off by s·E. |v − n| is exact. So where it lies below ½ − 2⁻²¹ − s·E, every
//! real number that v may stand for rounds to n: 2⁻²¹ leaves 2⁻²² for the roundings of the test itself, which are below
//! 2⁻⁵², and of s·E, which K_in's 1 % and what arithmetic leaves of K_r take. A value out of range is never certain.

use super::check::LARGEST;
use super::normals::{Normals, ROUNDER};
use super::words::PAIR_ROWS;
use crate::block::BLOCK;
use crate::simd::doubles::{Doubles, EIGHT};

/// One binary64 value for each coordinate of a block.
pub(crate) type Values = [f64; BLOCK];

/// One row of a block as it is kept.
pub(crate) type WholeBlock = [i32; BLOCK];

/// Coordinates of a block that are not certain, eight to a byte, the first in its lowest bit.
pub(crate) type Uncertain = [u8; BLOCK / EIGHT];

/// ½ less what roundings take.
const LIMIT: f64 = 0.5 - 1.0 / (1u64 << 21) as f64;

/// Eight values and their rounding.
#[derive(Clone, Copy)]
pub(crate) struct Rounded<S: Doubles> {
    /// n + 1.5·2⁵², whose lowest 32 bits are those of n.
    pub raised: S::D,
    pub n: S::D,
    /// v − n.
    pub off: S::D,
}

/// Rounds s·z − f.
#[inline(always)]
pub(crate) fn rounded<S: Doubles>(s: S, deviation: S::D, z: S::D, f: S::D) -> Rounded<S> {
    let v = s.near_minus(deviation, z, f);
    let raised = s.add_d(v, s.splat_d(ROUNDER));
    let n = s.sub_d(raised, s.splat_d(ROUNDER));
    Rounded { raised, n, off: s.sub_d(v, n) }
}

/// How far a value may lie from a whole number and be certain.
#[inline(always)]
pub(crate) fn limit<S: Doubles>(s: S, deviation: S::D, error: &[f64; EIGHT]) -> S::D {
    s.near_less(deviation, s.load_d(error), s.splat_d(LIMIT))
}

/// Values that are not certain, whether by their distance or by their size.
#[inline(always)]
pub(crate) fn uncertain<S: Doubles>(s: S, rounded: Rounded<S>, limit: S::D) -> u8 {
    s.not_below(rounded.off, limit) | out_of_range(s, rounded.n)
}

#[inline(always)]
pub(crate) fn out_of_range<S: Doubles>(s: S, n: S::D) -> u8 {
    s.not_below(n, s.splat_d(LARGEST + 1.0))
}

/// Rounds s·z − f of a block. Without `FED_BACK`, f is 0 and s·z in range.
#[inline(always)]
pub(crate) fn decide<S: Doubles, const FED_BACK: bool>(
    s: S,
    deviation: f64,
    normals: &Normals,
    f: &Values,
    n: &mut WholeBlock,
    open: &mut Uncertain,
) {
    let deviation = s.splat_d(deviation);
    let (z, _) = normals.z.as_chunks::<EIGHT>();
    let (errors, _) = normals.error.as_chunks::<EIGHT>();
    let (fed_back, _) = f.as_chunks::<EIGHT>();
    let (n, _) = n.as_chunks_mut::<{ 2 * EIGHT }>();
    for row in 0..PAIR_ROWS {
        let limits = [limit(s, deviation, &errors[2 * row]), limit(s, deviation, &errors[2 * row + 1])];
        for side in 0..2 {
            let mut raised = [s.splat_d(0.0); 2];
            for half in 0..2 {
                let at = 4 * row + 2 * side + half;
                let f = if FED_BACK { s.load_d(&fed_back[at]) } else { s.splat_d(0.0) };
                let value = rounded(s, deviation, s.load_d(&z[at]), f);
                raised[half] = value.raised;
                open[at] = if FED_BACK {
                    uncertain(s, value, limits[half])
                } else {
                    s.not_below(value.off, limits[half])
                };
            }
            s.store_low(raised, &mut n[2 * row + side]);
        }
    }
}
