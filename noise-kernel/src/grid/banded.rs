//! Several rows of a banded C at once, strip by strip: what they look back at, each other, and rounding.

#![allow(clippy::needless_range_loop)] // values of several arrays go by one number

use super::decide::WholeBlock;
use super::rows::{Decider, Pace, ROWS, RowBatch, STRIP, VECTORS};
use crate::block::BLOCK;
use crate::simd::doubles::{Doubles, EIGHT};
use std::ops::Range;

/// Earlier rows that rows made together look back at, with the coefficient of each row, 0 where it is out of reach.
pub(crate) type Source<'a> = ([f64; ROWS], &'a WholeBlock);

/// Rows of a banded C: every earlier row is read once for all of them. `within[j][i]` is C of rows j and i of those made
/// together.
#[inline(always)]
pub(crate) fn banded<S: Doubles>(
    s: S,
    sources: &[Source<'_>],
    within: &[[f64; ROWS]; ROWS],
    rows: &mut RowBatch<'_>,
    decider: &mut Decider<'_>,
) {
    match rows.normals.len() {
        1 => banded_of::<S, 1>(s, sources, within, rows, decider),
        2 => banded_of::<S, 2>(s, sources, within, rows, decider),
        4 => banded_of::<S, 4>(s, sources, within, rows, decider),
        8 => banded_of::<S, 8>(s, sources, within, rows, decider),
        rows => unreachable!("rows are made by 1, 2, 4 or 8, not {rows}"),
    }
}

#[inline(always)]
fn banded_of<S: Doubles, const K: usize>(
    s: S,
    sources: &[Source<'_>],
    within: &[[f64; ROWS]; ROWS],
    rows: &mut RowBatch<'_>,
    decider: &mut Decider<'_>,
) {
    for first in (0..BLOCK).step_by(STRIP) {
        let mut f = [[s.splat_d(0.0); VECTORS]; K];
        // As many sums at once as there are registers for.
        let at_once = if S::LANES == 16 { ROWS } else { ROWS / 2 };
        for start in (0..K).step_by(at_once) {
            accumulate(s, sources, first, start..start + at_once, &mut f);
        }
        if banded_strip(s, within, first, f, rows, &mut Pace::Fast) != 0 {
            banded_strip(s, within, first, f, rows, &mut Pace::Sure(decider));
        }
    }
}

/// Adds what rows look back at to F of some of them, strip by strip.
#[inline(always)]
fn accumulate<S: Doubles, const K: usize>(
    s: S,
    sources: &[Source<'_>],
    first: usize,
    some: Range<usize>,
    f: &mut [[S::D; VECTORS]; K],
) {
    for (coefficients, row) in sources {
        let row = row.as_chunks::<STRIP>().0[first / STRIP].as_chunks::<EIGHT>().0;
        for i in 0..VECTORS {
            let x = s.load_whole(&row[i]);
            for j in 0..K {
                if j >= some.start && j < some.end {
                    f[j][i] = s.near_d(s.splat_d(coefficients[j]), x, f[j][i]);
                }
            }
        }
    }
}

/// One strip of all rows, F of the rows before them in `f`. Returns whether any value is open.
#[inline(always)]
fn banded_strip<S: Doubles, const K: usize>(
    s: S,
    within: &[[f64; ROWS]; ROWS],
    first: usize,
    mut f: [[S::D; VECTORS]; K],
    rows: &mut RowBatch<'_>,
    pace: &mut Pace<'_, '_>,
) -> u8 {
    let mut open = 0;
    for j in 0..K {
        let n = rows.round(s, j, first, &f[j], pace, &mut open);
        for later in j + 1..K {
            for i in 0..VECTORS {
                f[later][i] = s.near_d(s.splat_d(within[later][j]), n[i], f[later][i]);
            }
        }
    }
    open
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backend;
    use crate::dispatch::Active;
    use crate::grid::decide::Values;
    use crate::grid::normals::Normals;
    use crate::grid::rows::OpenStrip;
    use dice::Dice;

    /// F of one row: nothing is certain, so that all of it is required.
    fn fed_back(backend: Backend, sources: &[Source<'_>]) -> Values {
        let normals = [Normals { error: [f64::INFINITY; BLOCK / 2], ..Normals::ZERO }];
        let mut f = [f64::NAN; BLOCK];
        let mut out = [[0; BLOCK]];
        let mut together = RowBatch { deviations: [1.0; ROWS], normals: &normals, out: &mut out };
        let mut open = |strip: &OpenStrip<'_>, _: &mut [i32]| {
            f[strip.first..strip.first + STRIP].copy_from_slice(strip.f);
        };
        let active = Active::new(backend).unwrap();
        active.grid_banded(sources, &[[0.0; ROWS]; ROWS], &mut together, &mut open);
        f
    }

    /// The largest rows there are, with coefficients that use every bit: sums of whole numbers, to the last one.
    #[test]
    fn sums_of_banded_feedback_are_exact_at_the_extremes() {
        let mut dice = Dice::new(31);
        for lags in [1, 2, 7, 33, 400] {
            // Σ|c| ≤ 2^k, c multiples of 2^(k − 22).
            let k = dice.below(4) as i32;
            let mut left = 1i64 << 22;
            let steps: Vec<i64> = (0..lags)
                .map(|i| {
                    let most = left.min(2 * left / (lags - i));
                    let step = most - dice.below(1 + most as u64 / 100) as i64;
                    left -= step;
                    if dice.below(2) == 0 { step } else { -step }
                })
                .collect();
            let rows: Vec<[i32; BLOCK]> = (0..lags)
                .map(|i| {
                    std::array::from_fn(|at| match at % 4 {
                        // All terms of one sign.
                        0 => i32::MAX * steps[i as usize].signum() as i32,
                        1 => i32::MAX,
                        2 => -i32::MAX,
                        _ => dice.roll() as i32,
                    })
                })
                .collect();
            let scale = 2f64.powi(k - 22);
            let sources: Vec<Source<'_>> =
                steps.iter().map(|&step| [step as f64 * scale; ROWS]).zip(&rows).collect();
            for backend in Backend::available() {
                let f = fed_back(backend, &sources);
                for (at, f) in f.iter().enumerate() {
                    let products =
                        steps.iter().zip(&rows).map(|(&c, row)| i128::from(c) * i128::from(row[at]));
                    let exact: i128 = products.sum();
                    assert_eq!((f / scale) as i128, exact, "{lags} lags on {backend}");
                    assert_eq!((f / scale).fract(), 0.0);
                }
            }
        }
    }
}
