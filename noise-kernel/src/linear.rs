//! The element-wise steps of every mechanism over one block. Products are rounded, then added: never fused.

use crate::block::{BLOCK, Block};

/// out ← out·factor
#[inline(always)]
pub(crate) fn scale(out: &mut Block, factor: f32) {
    for v in out {
        *v *= factor;
    }
}

/// sum ← sum + x
#[inline(always)]
pub(crate) fn add(sum: &mut Block, x: &Block) {
    for i in 0..BLOCK {
        sum[i] += x[i];
    }
}

/// sum ← sum + factor·x
#[inline(always)]
pub(crate) fn add_product(sum: &mut Block, factor: f32, x: &Block) {
    for i in 0..BLOCK {
        sum[i] += factor * x[i];
    }
}

/// carry ← own_weight·own + child_weight·(left + carry): a tree node from its children.
#[inline(always)]
pub(crate) fn merge(carry: &mut Block, weights: (f32, f32), own: &Block, left: &Block) {
    for i in 0..BLOCK {
        carry[i] = weights.0 * own[i] + weights.1 * (left[i] + carry[i]);
    }
}

/// out ← (a − b)·factor
#[inline(always)]
pub(crate) fn difference(out: &mut Block, a: &Block, b: &Block, factor: f32) {
    for i in 0..BLOCK {
        out[i] = (a[i] - b[i]) * factor;
    }
}

/// out ← (a + b)·factor
#[inline(always)]
pub(crate) fn sum(out: &mut Block, a: &Block, b: &Block, factor: f32) {
    for i in 0..BLOCK {
        out[i] = (a[i] + b[i]) * factor;
    }
}

/// y ← (z − (total + partial))·inverse_diagonal, where `y` comes in as `partial`.
#[inline(always)]
pub(crate) fn solve(y: &mut Block, z: &Block, total: &Block, inverse_diagonal: f32) {
    for i in 0..BLOCK {
        y[i] = (z[i] - (total[i] + y[i])) * inverse_diagonal;
    }
}

/// out ← (x·first)·second
#[inline(always)]
pub(crate) fn scale_twice(out: &mut Block, x: &Block, first: f32, second: f32) {
    for i in 0..BLOCK {
        out[i] = (x[i] * first) * second;
    }
}

/// sums[j] ← sums[j] + Σ_u coefficients[u·K + j]·ring[slots[u]], one u after another, for K sums at once:
/// each source row is read once for K rows of the result.
#[inline(always)]
pub(crate) fn accumulate<const K: usize, const U: usize>(
    sums: &mut [Block; K],
    ring: &[Block],
    slots: &[usize; U],
    coefficients: &[f32],
) {
    let sources: [&Block; U] = slots.map(|slot| &ring[slot]);
    let mut factors = [[0.0; K]; U];
    for (row, from) in factors.iter_mut().zip(coefficients.chunks_exact(K)) {
        row.copy_from_slice(from);
    }
    for i in 0..BLOCK {
        for j in 0..K {
            let mut sum = sums[j][i];
            for u in 0..U {
                sum += factors[u][j] * sources[u][i];
            }
            sums[j][i] = sum;
        }
    }
}
