//! Forward substitution within a group of rows: banded C, whose rows depend on each other.

#![allow(clippy::needless_range_loop)] // vectors of several arrays go by one number

use crate::block::Block;
use crate::partial_sums::{Sums, place_of};
use crate::simd::Simd;
use crate::tile::{CHUNKS, chunks_mut};

/// The triangular system of a group's rows, which depend on each other.
pub(crate) struct TriangularSystem<'a, const K: usize> {
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
    solve: &TriangularSystem<'_, K>,
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
    solve: &TriangularSystem<'_, K>,
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
