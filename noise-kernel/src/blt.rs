//! Buffered linear Toeplitz: one row from d buffers.

use crate::block::{BLOCK, Block};

/// Coordinates handled together where d is not one of the unrolled sizes.
const CHUNK: usize = 64;

/// The numbers of a BLT, as long as the state has slots, at least one.
#[derive(Clone, Copy)]
pub(crate) struct Blt<'a> {
    pub theta: &'a [f32],
    pub omega: &'a [f32],
    pub scale: f32,
}

/// out ← ẑ·scale for one row, where `out` comes in as z; the buffers move on by one row.
#[inline(always)]
pub(crate) fn row(blt: Blt<'_>, state: &mut [Block], out: &mut Block) {
    match state.len() {
        1 => unrolled::<1>(blt, state, out),
        2 => unrolled::<2>(blt, state, out),
        3 => unrolled::<3>(blt, state, out),
        4 => unrolled::<4>(blt, state, out),
        5 => unrolled::<5>(blt, state, out),
        6 => unrolled::<6>(blt, state, out),
        _ => any(blt, state, out),
    }
}

#[inline(always)]
fn unrolled<const D: usize>(blt: Blt<'_>, state: &mut [Block], out: &mut Block) {
    let (Some(state), Some(theta), Some(omega)) =
        (state.first_chunk_mut::<D>(), blt.theta.first_chunk::<D>(), blt.omega.first_chunk::<D>())
    else {
        return;
    };
    let (theta, omega) = (*theta, *omega);
    for i in 0..BLOCK {
        let mut acc = omega[0] * state[0][i];
        for j in 1..D {
            acc += omega[j] * state[j][i];
        }
        let correlated = out[i] - acc;
        for j in 0..D {
            state[j][i] = theta[j] * state[j][i] + correlated;
        }
        out[i] = correlated * blt.scale;
    }
}

#[inline(always)]
fn any(blt: Blt<'_>, state: &mut [Block], out: &mut Block) {
    let (chunks, _) = out.as_chunks_mut::<CHUNK>();
    for (c, out) in chunks.iter_mut().enumerate() {
        let at = c * CHUNK;
        let mut acc = [0.0; CHUNK];
        for (j, (s, &omega)) in state.iter().zip(blt.omega).enumerate() {
            for i in 0..CHUNK {
                let product = omega * s[at + i];
                acc[i] = if j == 0 { product } else { acc[i] + product };
            }
        }
        for i in 0..CHUNK {
            acc[i] = out[i] - acc[i];
            out[i] = acc[i] * blt.scale;
        }
        for (s, &theta) in state.iter_mut().zip(blt.theta) {
            for i in 0..CHUNK {
                s[at + i] = theta * s[at + i] + acc[i];
            }
        }
    }
}
