//! The arithmetic of every mechanism over blocks and tiles of blocks.

#![allow(clippy::needless_range_loop)] // vectors of several arrays go by one number

use crate::block::{BLOCK, Block};
use crate::simd::Simd;
use crate::sums::{CHUNKS, CUT_ROWS, Sums, Tile, chunks_mut};

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

/// Rows, and vectors of each, whose sums are held in registers at once: half of what there is, with the other half for
/// the sources and a coefficient.
const fn held(lanes: usize, k: usize) -> (usize, usize) {
    let registers = if lanes == 16 { 16 } else { 8 };
    let rows = if k < 4 { k } else { 4 };
    let vectors = registers / rows;
    let all = CHUNKS * 16 / lanes;
    (rows, if vectors < all { vectors } else { all })
}

/// The chunk of a vector of a tile, and its place there.
#[inline(always)]
fn place_of<S: Simd>(vector: usize) -> (usize, usize) {
    (vector * S::LANES / 16, vector * S::LANES % 16)
}

/// partial[j] ← partial[j] + Σ_u coefficients[u·K + j]·sources[u], one u after another, for the first K sums. `next`
/// is what will be read after: it is fetched in the order in which it lies in memory, evenly over all the work.
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
    let (rows, vectors) = const { held(S::LANES, K) };
    let strips = CHUNKS * 16 / S::LANES / vectors;
    let parts = K / rows;
    let passes = strips * parts;
    for pass in 0..passes {
        let first_vector = pass / parts * vectors;
        let first = pass % parts * rows;
        let mut acc = [[s.splat_f(0.0); 8]; 4];
        if *has_partial {
            for j in 0..rows {
                for v in 0..vectors {
                    let (chunk, at) = place_of::<S>(first_vector + v);
                    acc[j][v] = s.load_f(&partial[first + j][chunk], at);
                }
            }
        }
        for (u, (source, factors)) in sources.iter().zip(coefficients).enumerate() {
            fetch(s, next, pass * CUT_ROWS + u, passes);
            let mut x = [s.splat_f(0.0); 8];
            for v in 0..vectors {
                let (chunk, at) = place_of::<S>(first_vector + v);
                x[v] = s.load_f(&source[chunk], at);
            }
            for j in 0..rows {
                let factor = s.splat_f(factors[first + j]);
                for v in 0..vectors {
                    acc[j][v] = s.fma(factor, x[v], acc[j][v]);
                }
            }
        }
        let to = if closes { &mut *total } else { &mut *partial };
        for j in 0..rows {
            for v in 0..vectors {
                let (chunk, at) = place_of::<S>(first_vector + v);
                let place = &mut to[first + j][chunk];
                if closes && *has_total {
                    acc[j][v] = s.add_f(s.load_f(place, at), acc[j][v]);
                }
                s.store_f(acc[j][v], place, at);
            }
        }
    }
    *has_total |= closes;
    *has_partial = !closes;
}

/// What falls to step `step` of `passes`·32, of fetching every line of 32 tiles once.
#[inline(always)]
fn fetch<S: Simd>(s: S, tiles: &[&Tile], step: usize, passes: usize) {
    let lines = if passes < CHUNKS { CHUNKS / passes } else { 1 };
    if passes > CHUNKS && !step.is_multiple_of(passes / CHUNKS) {
        return;
    }
    let line = step * CHUNKS / passes;
    if let Some(tile) = tiles.get(line / CHUNKS) {
        for i in 0..lines {
            s.prefetch(&tile[line % CHUNKS + i]);
        }
    }
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
    // Seldom are sums closed between two rows of a group: after the last one it changes nothing.
    match solve.closed_after {
        Some(row) if row + 1 < K => solve_columns::<S, K, true>(s, sums, solve, row, tile, rows),
        _ => solve_columns::<S, K, false>(s, sums, solve, K, tile, rows),
    }
}

/// Column by column: what is done with a row as soon as it is known does not wait for each other.
#[inline(always)]
fn solve_columns<S: Simd, const K: usize, const CLOSES: bool>(
    s: S,
    sums: &Sums,
    solve: &Solve<'_, K>,
    closed_after: usize,
    tile: usize,
    rows: &mut [Block],
) {
    let (coefficients, _) = solve.coefficients.as_chunks::<K>();
    let zero = s.splat_f(0.0);
    let vectors = if K > 8 { 1 } else { 2 };
    for strip in 0..CHUNKS * 16 / S::LANES / vectors {
        let place = |v: usize| place_of::<S>(strip * vectors + v);
        let mut total = [[zero; 2]; K];
        let mut partial = [[zero; 2]; K];
        for row in 0..K {
            for v in 0..vectors {
                let (chunk, at) = place(v);
                if CLOSES && sums.has_total {
                    total[row][v] = s.load_f(&sums.total[row][chunk], at);
                }
                if sums.has_partial {
                    partial[row][v] = s.load_f(&sums.partial[row][chunk], at);
                }
            }
        }
        // Written out, so that sums are known by number and stay in registers.
        macro_rules! in_turn {
            ($($row:literal)*) => {$(
                if $row < K {
                    let mut y = [zero; 2];
                    for v in 0..vectors {
                        let (chunk, at) = place(v);
                        if !CLOSES && sums.has_total {
                            total[$row][v] = s.load_f(&sums.total[$row][chunk], at);
                        }
                        let place = &mut chunks_mut(&mut rows[$row])[tile * CHUNKS + chunk];
                        let rest = s.sub_f(s.sub_f(s.load_f(place, at), total[$row][v]), partial[$row][v]);
                        y[v] = s.mul_f(rest, s.splat_f(solve.inverse_diagonal[$row]));
                        s.store_f(y[v], place, at);
                    }
                    for later in $row + 1..K {
                        let factor = s.splat_f(coefficients[$row][later]);
                        for v in 0..vectors {
                            partial[later][v] = s.fma(factor, y[v], partial[later][v]);
                        }
                    }
                    if CLOSES && $row == closed_after {
                        for later in $row + 1..K {
                            for v in 0..vectors {
                                total[later][v] = s.add_f(total[later][v], partial[later][v]);
                                partial[later][v] = zero;
                            }
                        }
                    }
                }
            )*};
        }
        in_turn!(0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15);
    }
}
