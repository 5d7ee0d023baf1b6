//! Several rows of a block at once, strip by strip: rounding, and a BLT's feedback and state in registers.
//!
//! A strip goes the fast way, and where any of its values is not certain once more from its state, value by value.

#![allow(clippy::needless_range_loop)] // values of several arrays go by one number

use super::decide::{Rounded, Values, WholeBlock, limit, out_of_range, rounded, uncertain};
use super::normals::Normals;
use crate::block::BLOCK;
use crate::simd::doubles::{Doubles, EIGHT};

/// Most rows at once, a power of two.
pub(crate) const ROWS: usize = 8;

/// Coordinates of a strip, and its vectors.
pub(crate) const STRIP: usize = 16;
pub(crate) const VECTORS: usize = STRIP / EIGHT;

/// A strip of a row that is not certain.
pub(crate) struct OpenStrip<'a> {
    /// The row of the call.
    pub row: usize,
    /// The first coordinate of the block.
    pub first: usize,
    pub f: &'a [f64; STRIP],
    /// Those that are not certain.
    pub uncertain: [u8; VECTORS],
}

/// What decides it: n has what is certain, and gets the rest.
pub(crate) type Decider<'a> = dyn FnMut(&OpenStrip<'_>, &mut [i32]) + 'a;

/// Rows of a block that are made together.
pub(crate) struct RowBatch<'a> {
    /// s of each row.
    pub deviations: [f64; ROWS],
    pub normals: &'a [Normals],
    pub out: &'a mut [WholeBlock],
}

/// The way a strip goes.
pub(crate) enum Pace<'a, 'b> {
    /// What is not certain is noted.
    Fast,
    /// It is decided.
    Sure(&'a mut Decider<'b>),
}

impl RowBatch<'_> {
    /// n of a strip of one row. `open` becomes other than 0 where the fast way does not decide.
    #[inline(always)]
    pub fn round<S: Doubles>(
        &mut self,
        s: S,
        row: usize,
        first: usize,
        f: &[S::D; VECTORS],
        pace: &mut Pace<'_, '_>,
        open: &mut u8,
    ) -> [S::D; VECTORS] {
        let deviation = s.splat_d(self.deviations[row]);
        let normals = &self.normals[row];
        let z = &normals.z.as_chunks::<STRIP>().0[first / STRIP].as_chunks::<EIGHT>().0;
        let errors = &normals.error.as_chunks::<STRIP>().0[first / STRIP / 2].as_chunks::<EIGHT>().0;
        let mut values = [rounded(s, deviation, s.load_d(&z[0]), f[0]); VECTORS];
        for i in 1..VECTORS {
            values[i] = rounded(s, deviation, s.load_d(&z[i]), f[i]);
        }
        let limits = [limit(s, deviation, &errors[0]), limit(s, deviation, &errors[1])];
        let out = &mut self.out[row].as_chunks_mut::<STRIP>().0[first / STRIP];
        s.store_low([values[0].raised, values[1].raised], out);
        match pace {
            Pace::Fast => {
                let [a, b] = values;
                *open |= s.not_below(a.off, limits[0]) | s.not_below(b.off, limits[1]);
                *open |= out_of_range(s, s.abs_max(a.n, b.n));
                [a.n, b.n]
            }
            Pace::Sure(decider) => settled(s, row, first, f, values, limits, out, decider),
        }
    }
}

/// n of a strip whose values are decided one by one where they are not certain.
#[inline(always)]
#[allow(clippy::too_many_arguments)] // all that a strip has
fn settled<S: Doubles>(
    s: S,
    row: usize,
    first: usize,
    f: &[S::D; VECTORS],
    values: [Rounded<S>; VECTORS],
    limits: [S::D; VECTORS],
    n: &mut [i32; STRIP],
    decider: &mut Decider<'_>,
) -> [S::D; VECTORS] {
    let mut fed_back = [0.0; STRIP];
    for (to, &from) in fed_back.as_chunks_mut::<EIGHT>().0.iter_mut().zip(f) {
        s.store_d(from, to);
    }
    let uncertain = [uncertain(s, values[0], limits[0]), uncertain(s, values[1], limits[1])];
    decider(&OpenStrip { row, first, f: &fed_back, uncertain }, n);
    let (n, _) = n.as_chunks::<EIGHT>();
    [s.load_whole(&n[0]), s.load_whole(&n[1])]
}

/// The numbers of a BLT.
#[derive(Clone, Copy)]
pub(crate) struct Blt<'a> {
    pub theta: &'a [f64],
    pub omega: &'a [f64],
}

/// Most buffers that stay in registers.
pub(crate) const MOST_BUFFERS: usize = 8;

/// Rows of a BLT of at most [`MOST_BUFFERS`] buffers.
#[inline(always)]
pub(crate) fn blt<S: Doubles>(
    s: S,
    blt: Blt<'_>,
    state: &mut [Values],
    rows: &mut RowBatch<'_>,
    decider: &mut Decider<'_>,
) {
    macro_rules! buffers {
        ($($d:literal)*) => {
            match state.len() {
                $($d => blt_of::<S, $d>(s, blt, state, rows, decider),)*
                _ => {}
            }
        };
    }
    buffers!(1 2 3 4 5 6 7 8);
}

#[inline(always)]
fn blt_of<S: Doubles, const D: usize>(
    s: S,
    blt: Blt<'_>,
    state: &mut [Values],
    rows: &mut RowBatch<'_>,
    decider: &mut Decider<'_>,
) {
    let (Some(state), Some(theta), Some(omega)) =
        (state.first_chunk_mut::<D>(), blt.theta.first_chunk::<D>(), blt.omega.first_chunk::<D>())
    else {
        return;
    };
    for first in (0..BLOCK).step_by(STRIP) {
        let mut buffers = loaded(s, state, first);
        if blt_strip(s, theta, omega, first, &mut buffers, rows, &mut Pace::Fast) != 0 {
            buffers = loaded(s, state, first);
            blt_strip(s, theta, omega, first, &mut buffers, rows, &mut Pace::Sure(decider));
        }
        for j in 0..D {
            let to = state[j].as_chunks_mut::<STRIP>().0[first / STRIP].as_chunks_mut::<EIGHT>().0;
            for i in 0..VECTORS {
                s.store_d(buffers[j][i], &mut to[i]);
            }
        }
    }
}

/// The buffers of one strip.
#[inline(always)]
fn loaded<S: Doubles, const D: usize>(s: S, state: &[Values; D], first: usize) -> [[S::D; VECTORS]; D] {
    let mut buffers = [[s.splat_d(0.0); VECTORS]; D];
    for j in 0..D {
        let from = state[j].as_chunks::<STRIP>().0[first / STRIP].as_chunks::<EIGHT>().0;
        buffers[j] = [s.load_d(&from[0]), s.load_d(&from[1])];
    }
    buffers
}

/// One strip: F of the buffers in the order of the specification, n, and the buffers after it. Returns whether any value is
/// open.
#[inline(always)]
fn blt_strip<S: Doubles, const D: usize>(
    s: S,
    theta: &[f64; D],
    omega: &[f64; D],
    first: usize,
    buffers: &mut [[S::D; VECTORS]; D],
    rows: &mut RowBatch<'_>,
    pace: &mut Pace<'_, '_>,
) -> u8 {
    let mut open = 0;
    for row in 0..rows.normals.len() {
        let mut f = [s.splat_d(0.0); VECTORS];
        for i in 0..VECTORS {
            f[i] = s.mul_d(s.splat_d(omega[0]), buffers[0][i]);
            if D > 1 {
                let mut odd = s.mul_d(s.splat_d(omega[1 % D]), buffers[1 % D][i]);
                for j in (2..D).step_by(2) {
                    f[i] = s.fused_d(s.splat_d(omega[j]), buffers[j][i], f[i]);
                }
                for j in (3..D).step_by(2) {
                    odd = s.fused_d(s.splat_d(omega[j]), buffers[j][i], odd);
                }
                f[i] = s.add_d(f[i], odd);
            }
        }
        let n = rows.round(s, row, first, &f, pace, &mut open);
        for j in 0..D {
            for i in 0..VECTORS {
                buffers[j][i] = s.fused_d(s.splat_d(theta[j]), buffers[j][i], n[i]);
            }
        }
    }
    open
}
