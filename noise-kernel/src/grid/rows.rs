//! Several rows of a block at once, their state in registers: feedback, rounding and state, strip by strip.

#![allow(clippy::needless_range_loop)] // values of several arrays go by one number

use super::decide::{Values, whole_and_excess};
use super::feedback::WholeBlock;
use super::normals::Normals;
use crate::block::BLOCK;
use crate::simd::Simd;

/// Most rows at once.
pub(crate) const ROWS: usize = 4;

/// What decides a strip of a row that is not certain: the row of the call, the first coordinate of the block, F and n.
pub(crate) type Decider<'a> = dyn FnMut(usize, usize, &[f64], &mut [f64]) + 'a;

/// Rows of a block that are made together.
pub(crate) struct RowBatch<'a> {
    /// s of each row.
    pub deviations: [f64; ROWS],
    pub normals: &'a [Normals],
    pub out: &'a mut [Values],
}

impl RowBatch<'_> {
    /// n of a strip of one row. Strips are at most as long as a row of pairs.
    #[inline(always)]
    fn round<S: Simd, const N: usize>(
        &mut self,
        row: usize,
        first: usize,
        f: &[f64; N],
        open: &mut Decider<'_>,
    ) -> [f64; N] {
        let z = &self.normals[row].z.as_chunks::<N>().0[first / N];
        let pairs = first / 32 * 16 + first % 16;
        let error = &self.normals[row].error.as_chunks::<N>().0[pairs / N];
        let mut n = [0.0; N];
        let mut excess = [0.0; N];
        for i in 0..N {
            (n[i], excess[i]) = whole_and_excess::<S>(self.deviations[row], z[i], error[i], f[i]);
        }
        let mut worst = f64::NEG_INFINITY;
        for i in 0..N {
            worst = if excess[i] > worst { excess[i] } else { worst };
        }
        if worst >= 0.0 {
            open(row, first, f, &mut n);
        }
        self.out[row].as_chunks_mut::<N>().0[first / N] = n;
        n
    }
}

/// The numbers of a BLT.
#[derive(Clone, Copy)]
pub(crate) struct Blt<'a> {
    pub theta: &'a [f64],
    pub omega: &'a [f64],
}

/// Most buffers that stay in registers.
pub(crate) const MOST_BUFFERS: usize = 8;

/// Rows of a BLT of at most [`MOST_BUFFERS`] buffers, in strips as long as a vector of words has lanes.
#[inline(always)]
pub(crate) fn blt<S: Simd>(
    blt: Blt<'_>,
    state: &mut [Values],
    rows: &mut RowBatch<'_>,
    open: &mut Decider<'_>,
) {
    macro_rules! buffers {
        ($($d:literal)*) => {
            match (state.len(), S::LANES) {
                $(($d, 16) => blt_of::<S, $d, 16>(blt, state, rows, open),
                ($d, _) => blt_of::<S, $d, 8>(blt, state, rows, open),)*
                _ => {}
            }
        };
    }
    buffers!(1 2 3 4 5 6 7 8);
}

/// S_j, in the order of the specification, read and written once for all of them.
#[inline(always)]
fn blt_of<S: Simd, const D: usize, const N: usize>(
    blt: Blt<'_>,
    state: &mut [Values],
    rows: &mut RowBatch<'_>,
    open: &mut Decider<'_>,
) {
    let (Some(state), Some(theta), Some(omega)) =
        (state.first_chunk_mut::<D>(), blt.theta.first_chunk::<D>(), blt.omega.first_chunk::<D>())
    else {
        return;
    };
    for first in (0..BLOCK).step_by(N) {
        let mut buffers = [[0.0; N]; D];
        for j in 0..D {
            buffers[j] = state[j].as_chunks::<N>().0[first / N];
        }
        for row in 0..rows.normals.len() {
            let mut even = [0.0; N];
            let mut odd = [0.0; N];
            for j in 0..D {
                for i in 0..N {
                    match j {
                        0 => even[i] = omega[0] * buffers[0][i],
                        1 => odd[i] = omega[1] * buffers[1][i],
                        _ if j % 2 == 0 => even[i] = S::fused_f64(omega[j], buffers[j][i], even[i]),
                        _ => odd[i] = S::fused_f64(omega[j], buffers[j][i], odd[i]),
                    }
                }
            }
            if D > 1 {
                for i in 0..N {
                    even[i] += odd[i];
                }
            }
            let n = rows.round::<S, N>(row, first, &even, open);
            for j in 0..D {
                for i in 0..N {
                    buffers[j][i] = S::fused_f64(theta[j], buffers[j][i], n[i]);
                }
            }
        }
        for j in 0..D {
            state[j].as_chunks_mut::<N>().0[first / N] = buffers[j];
        }
    }
}

/// Earlier rows that rows made together look back at, with the coefficient of each row, 0 where it is out of reach.
pub(crate) type Source<'a> = ([f64; ROWS], &'a WholeBlock);

/// Rows of a banded C: every earlier row is read once for all of them. `within[j][i]` is C of rows j and i of those made
/// together.
#[inline(always)]
pub(crate) fn banded<S: Simd>(
    sources: &[Source<'_>],
    within: &[[f64; ROWS]; ROWS],
    rows: &mut RowBatch<'_>,
    open: &mut Decider<'_>,
) {
    match (rows.normals.len(), S::LANES) {
        (1, 16) => banded_of::<S, 1, 16>(sources, within, rows, open),
        (1, _) => banded_of::<S, 1, 8>(sources, within, rows, open),
        (2, 16) => banded_of::<S, 2, 16>(sources, within, rows, open),
        (2, _) => banded_of::<S, 2, 8>(sources, within, rows, open),
        (3, 16) => banded_of::<S, 3, 16>(sources, within, rows, open),
        (3, _) => banded_of::<S, 3, 8>(sources, within, rows, open),
        (_, 16) => banded_of::<S, 4, 16>(sources, within, rows, open),
        _ => banded_of::<S, 4, 8>(sources, within, rows, open),
    }
}

#[inline(always)]
fn banded_of<S: Simd, const K: usize, const N: usize>(
    sources: &[Source<'_>],
    within: &[[f64; ROWS]; ROWS],
    rows: &mut RowBatch<'_>,
    open: &mut Decider<'_>,
) {
    for first in (0..BLOCK).step_by(N) {
        let mut f = [[0.0; N]; K];
        for (coefficients, row) in sources {
            let row = &row.as_chunks::<N>().0[first / N];
            let mut x = [0.0; N];
            for i in 0..N {
                x[i] = f64::from(row[i]);
            }
            for j in 0..K {
                for i in 0..N {
                    f[j][i] = S::near_fused(coefficients[j], x[i], f[j][i]);
                }
            }
        }
        for j in 0..K {
            let n = rows.round::<S, N>(j, first, &f[j], open);
            for later in j + 1..K {
                for i in 0..N {
                    f[later][i] = S::near_fused(within[later][j], n[i], f[later][i]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Backend;
    use crate::dispatch::Active;
    use dice::Dice;

    /// F of one row: nothing is certain, so that all of it is requested.
    fn fed_back(backend: Backend, sources: &[Source<'_>]) -> Values {
        let normals = [Normals { error: [f64::INFINITY; BLOCK / 2], ..Normals::ZERO }];
        let mut f = [f64::NAN; BLOCK];
        let mut out = [[0.0; BLOCK]];
        let mut together = RowBatch { deviations: [1.0; ROWS], normals: &normals, out: &mut out };
        let mut open =
            |_, at: usize, strip: &[f64], _: &mut [f64]| f[at..at + strip.len()].copy_from_slice(strip);
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
