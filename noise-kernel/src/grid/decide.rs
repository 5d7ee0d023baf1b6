//! Rounding of approximate values, with a test whether the real number rounds to the same.
//!
//! v = s·z̃ − F is off by at most s·E and the roundings of its two operations, at most 2⁻⁵³·(2|v| + |F|). The test below
//! leaves 2⁻⁵¹·(|v| + |F|) for these and for its own. So where |v − n| stays as far below ½, every real number that v may
//! stand for rounds to n.

use super::check::LARGEST;
use super::normals::{Normals, ROUNDER};
use crate::block::BLOCK;
use crate::chacha::LANES;
use crate::simd::Simd;

/// One binary64 value for each coordinate of a block.
pub(crate) type Values = [f64; BLOCK];

const ROUNDING: f64 = 1.0 / (1u64 << 51) as f64;

/// n, and a number below 0 where it is certain. What is out of range is never certain, nor is what is beyond 2⁵⁰.
#[inline(always)]
pub(crate) fn whole_and_excess<S: Simd>(s: f64, z: f64, error: f64, f: f64) -> (f64, f64) {
    let v = S::near_fused(s, z, -f);
    let whole = (v + ROUNDER) - ROUNDER;
    let off = S::near_fused(s, error, ROUNDING * (v.abs() + f.abs()));
    let excess = (v - whole).abs() - (0.5 - off);
    (whole, if whole.abs() > LARGEST { f64::INFINITY } else { excess })
}

/// Rounds s·z − f of a block, and returns whether all of it is certain. Without `FED_BACK`, f is 0.
#[inline(always)]
pub(crate) fn decide<S: Simd, const FED_BACK: bool>(
    s: f64,
    normals: &Normals,
    f: &Values,
    n: &mut Values,
) -> bool {
    let mut worst = [f64::NEG_INFINITY; LANES];
    let (z, _) = normals.z.as_chunks::<LANES>();
    let (errors, _) = normals.error.as_chunks::<LANES>();
    let (fed_back, _) = f.as_chunks::<LANES>();
    let (whole, _) = n.as_chunks_mut::<LANES>();
    for chunk in 0..BLOCK / LANES {
        let error = &errors[chunk / 2];
        for lane in 0..LANES {
            let f = if FED_BACK { fed_back[chunk][lane] } else { 0.0 };
            let (value, excess) = whole_and_excess::<S>(s, z[chunk][lane], error[lane], f);
            whole[chunk][lane] = value;
            worst[lane] = if excess > worst[lane] { excess } else { worst[lane] };
        }
    }
    worst.iter().all(|&excess| excess < 0.0)
}

/// The value as 32 bits; it is a whole number in their range.
#[inline(always)]
pub(crate) fn narrow(whole: f64) -> i32 {
    (whole + ROUNDER).to_bits() as i32
}

/// out ← the whole numbers `n`.
#[inline(always)]
pub(crate) fn narrow_into(out: &mut [i32], n: &[f64]) {
    for (out, &n) in out.iter_mut().zip(n) {
        *out = narrow(n);
    }
}
