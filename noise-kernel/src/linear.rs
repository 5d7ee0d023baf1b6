//! The arithmetic of every mechanism over blocks and tiles of blocks.

#![allow(clippy::needless_range_loop)] // vectors of several arrays go by one number

use crate::block::{BLOCK, Block};
use crate::simd::Simd;
use crate::sums::{CHUNKS, Sums, Tile, chunks_mut};

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

/// Sums held in registers at once: four rows by two vectors leave room for the sources and a coefficient.
const ROWS: usize = 4;

/// partial[j] ← partial[j] + Σ_u coefficients[u·K + j]·sources[u], one u after another, for the first K sums: each
/// source is read once for all of them. `next` is what will be read after.
#[inline(always)]
pub(crate) fn accumulate<S: Simd, const K: usize>(
    s: S,
    sums: &mut Sums,
    closes: bool,
    sources: &[&Tile],
    next: &[&Tile],
    coefficients: &[f32],
) {
    let (coefficients, _) = coefficients.as_chunks::<K>();
    let Sums { total, partial, has_total, has_partial } = sums;
    // Two vectors at once, but for the widest, of which one fills a chunk.
    let step = if S::LANES == 16 { 1 } else { 2 };
    for chunk in 0..CHUNKS {
        for next in next {
            s.prefetch(&next[chunk]);
        }
        for at in (0..16).step_by(step * S::LANES) {
            for first in (0..K).step_by(ROWS) {
                let rows = ROWS.min(K - first);
                let mut acc = [[s.splat_f(0.0); 2]; ROWS];
                if *has_partial {
                    for j in 0..rows {
                        for v in 0..step {
                            acc[j][v] = s.load_f(&partial[first + j][chunk], at + v * S::LANES);
                        }
                    }
                }
                for (source, factors) in sources.iter().zip(coefficients) {
                    let mut x = [s.splat_f(0.0); 2];
                    for v in 0..step {
                        x[v] = s.load_f(&source[chunk], at + v * S::LANES);
                    }
                    for j in 0..rows {
                        let factor = s.splat_f(factors[first + j]);
                        for v in 0..step {
                            acc[j][v] = s.fma(factor, x[v], acc[j][v]);
                        }
                    }
                }
                let to = if closes { &mut *total } else { &mut *partial };
                for j in 0..rows {
                    for v in 0..step {
                        let (place, at) = (&mut to[first + j][chunk], at + v * S::LANES);
                        if closes && *has_total {
                            acc[j][v] = s.add_f(s.load_f(place, at), acc[j][v]);
                        }
                        s.store_f(acc[j][v], place, at);
                    }
                }
            }
        }
    }
    *has_total |= closes;
    *has_partial = !closes;
}

/// The rows of a group that depend on each other.
pub(crate) struct Solve<'a, const K: usize> {
    /// `[source·K + row]`, both within the group.
    pub coefficients: &'a [f32],
    pub inverse_diagonal: [f32; K],
    /// Partial sums are closed after this row of the group.
    pub closed_after: Option<usize>,
}

/// For one tile of K rows: rows[j] ← ((rows[j] − total[j]) − partial[j])·inverse_diagonal[j], and each at once a
/// source of the rows after it.
#[inline(always)]
pub(crate) fn solve<S: Simd, const K: usize>(
    s: S,
    sums: &Sums,
    solve: &Solve<'_, K>,
    tile: usize,
    rows: &mut [Block],
) {
    let (coefficients, _) = solve.coefficients.as_chunks::<K>();
    let step = if S::LANES == 16 { 1 } else { 2 };
    let close = solve.closed_after.map_or(K, |row| row + 1);
    for chunk in 0..CHUNKS {
        for first in (0..16).step_by(step * S::LANES) {
            let mut solved = [[s.splat_f(0.0); 2]; K];
            for row in 0..K {
                let (mut total, mut partial) = ([s.splat_f(0.0); 2], [s.splat_f(0.0); 2]);
                for v in 0..step {
                    let at = first + v * S::LANES;
                    if sums.has_total {
                        total[v] = s.load_f(&sums.total[row][chunk], at);
                    }
                    if sums.has_partial {
                        partial[v] = s.load_f(&sums.partial[row][chunk], at);
                    }
                }
                for source in 0..row {
                    if source == close {
                        (total, partial) = closed(s, total, partial);
                    }
                    let factor = s.splat_f(coefficients[source][row]);
                    for v in 0..step {
                        partial[v] = s.fma(factor, solved[source][v], partial[v]);
                    }
                }
                if row == close {
                    (total, partial) = closed(s, total, partial);
                }
                let place = &mut chunks_mut(&mut rows[row])[tile * CHUNKS + chunk];
                for v in 0..step {
                    let at = first + v * S::LANES;
                    let y = s.sub_f(s.sub_f(s.load_f(place, at), total[v]), partial[v]);
                    solved[row][v] = s.mul_f(y, s.splat_f(solve.inverse_diagonal[row]));
                    s.store_f(solved[row][v], place, at);
                }
            }
        }
    }
}

#[inline(always)]
fn closed<S: Simd>(s: S, total: [S::F; 2], partial: [S::F; 2]) -> ([S::F; 2], [S::F; 2]) {
    let zero = s.splat_f(0.0);
    ([s.add_f(total[0], partial[0]), s.add_f(total[1], partial[1])], [zero; 2])
}
