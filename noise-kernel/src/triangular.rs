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
    /// 1/C[j, j] of each row.
    pub inverse_diagonal: [f32; K],
    /// Partial sums are closed after this row of the group.
    pub closed_after: Option<usize>,
}

/// Solves one tile of K rows: rows[j] ← ((rows[j] − total[j]) − partial[j])·inverse_diagonal[j], each of them at once a
/// source of the rows after it.
///
/// `sums` holds what the rows before the group contribute. Within the group the work goes by columns of C, because a
/// row that is known can be added to all later rows at once: these additions don't wait for each other, as those of one
/// row's own sum would. For each strip of a vector or two of coordinates, with all sums in registers:
///
/// ```text
/// total[j], partial[j] ← sums, for every row j of the group
/// for j in 0..K:
///     y ← ((rows[j] − total[j]) − partial[j])·inverse_diagonal[j];  rows[j] ← y
///     for i in j+1..K:  partial[i] ← fma(C[i, j], y, partial[i])
///     if partial sums are closed after row j:              (row number % 32 = 31, at most once in a group)
///         for i in j+1..K:  total[i] ← total[i] + partial[i];  partial[i] ← 0
/// ```
///
/// A row's own additions run over its sources in ascending order, as in `partial_sums`, so the bits are those of one
/// row after another.
///
/// The loop over j is written out by a macro. As `for j in 0..K` LLVM keeps it a loop for K of 4 and more. `partial[i]`
/// then has an index known at run time only, and lives on the stack:
///
/// ```text
/// vmovaps     0x40(%rsp,%rdi,1), %zmm4        load partial[i]
/// vfmadd231ps %zmm1, %zmm3, %zmm4             one fma
/// vmovaps     %zmm4, 0x40(%rsp,%rdi,1)        store it
/// ```
///
/// Written out, the function for 4 rows (AVX-512) touches the stack nowhere. Nanoseconds for each value of a whole row,
/// 4 bands, one thread of an AMD EPYC:
///
/// | rows in a group | AVX2, loop | written out | AVX-512, loop | written out |
/// |---|---|---|---|---|
/// | 4 | 1.89 | 1.70 | 1.33 | 1.15 |
/// | 8 | 1.93 | 1.73 | 1.40 | 1.20 |
/// | 16 | 2.43 | 2.07 | 1.68 | 1.29 |
#[inline(always)]
pub(crate) fn solve<S: Simd, const K: usize>(
    s: S,
    sums: &Sums,
    solve: &TriangularSystem<'_, K>,
    tile: usize,
    rows: &mut [Block],
) {
    // Sums are seldom closed between two rows of a group, and closing them after the last one changes nothing.
    match solve.closed_after {
        Some(row) if row + 1 < K => solve_columns::<S, K, true>(s, sums, solve, row, tile, rows),
        _ => solve_columns::<S, K, false>(s, sums, solve, K, tile, rows),
    }
}

/// Solves column by column; see [`solve`]. `CLOSES` is true where partial sums are closed after row `closed_after`.
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
        // Written out, so that sums have constant indexes and stay in registers; see [`solve`].
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
