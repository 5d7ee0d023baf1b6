//! Operations on each value of a block alone.

#![allow(clippy::needless_range_loop)] // vectors of several arrays go by one number

use crate::block::{BLOCK, Block};
use crate::simd::Simd;

/// sum ← sum + x
#[inline(always)]
pub(crate) fn add(sum: &mut [f32], x: &[f32]) {
    for (sum, x) in sum.iter_mut().zip(x) {
        *sum += x;
    }
}

/// carry ← own_weight·own + child_weight·(left + carry): a tree node from its children.
#[inline(always)]
pub(crate) fn merge<S: Simd>(carry: &mut Block, weights: (f32, f32), own: &Block, left: &Block) {
    for i in 0..BLOCK {
        carry[i] = S::fused(weights.0, own[i], weights.1 * (left[i] + carry[i]));
    }
}

/// out ← a − b
#[inline(always)]
pub(crate) fn difference(out: &mut Block, a: &Block, b: &Block) {
    for i in 0..BLOCK {
        out[i] = a[i] - b[i];
    }
}
