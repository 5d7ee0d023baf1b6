//! Buffered linear Toeplitz: rows from d buffers.

#![allow(clippy::needless_range_loop)] // vectors of several arrays go by one number

use crate::block::{BLOCK, Block, ZERO_BLOCK};
use crate::simd::Simd;
use crate::tile::{chunks, chunks_mut};

/// The numbers of a BLT, as long as the state has slots, at least one.
#[derive(Clone, Copy)]
pub(crate) struct Blt<'a> {
    pub theta: &'a [f32],
    pub omega: &'a [f32],
}

/// Turns each row from z into ẑ; the buffers advance by all of them.
#[inline(always)]
pub(crate) fn rows<S: Simd>(s: S, blt: Blt<'_>, state: &mut [Block], rows: &mut [Block]) {
    if S::LANES == 1 {
        return rows.iter_mut().for_each(|row| one_by_one::<S>(blt, state, row));
    }
    match state.len() {
        1 => in_registers::<S, 1>(s, blt, state, rows),
        2 => in_registers::<S, 2>(s, blt, state, rows),
        3 => in_registers::<S, 3>(s, blt, state, rows),
        4 => in_registers::<S, 4>(s, blt, state, rows),
        5 => in_registers::<S, 5>(s, blt, state, rows),
        6 => in_registers::<S, 6>(s, blt, state, rows),
        7 => in_registers::<S, 7>(s, blt, state, rows),
        8 => in_registers::<S, 8>(s, blt, state, rows),
        _ => rows.iter_mut().for_each(|row| one_by_one::<S>(blt, state, row)),
    }
}

/// The buffers of two vectors of coordinates stay in registers over all rows: they are read and written once.
#[inline(always)]
fn in_registers<S: Simd, const D: usize>(s: S, blt: Blt<'_>, state: &mut [Block], rows: &mut [Block]) {
    let (Some(state), Some(theta), Some(omega)) =
        (state.first_chunk_mut::<D>(), blt.theta.first_chunk::<D>(), blt.omega.first_chunk::<D>())
    else {
        return;
    };
    let mut decay = [s.splat_f(0.0); D];
    let mut weight = [s.splat_f(0.0); D];
    for j in 0..D {
        decay[j] = s.splat_f(theta[j]);
        weight[j] = s.splat_f(-omega[j]);
    }
    for first in (0..BLOCK).step_by(2 * S::LANES) {
        let place = |v: usize| ((first + v * S::LANES) / 16, (first + v * S::LANES) % 16);
        let mut buffers = [[s.splat_f(0.0); 2]; D];
        for j in 0..D {
            for v in 0..2 {
                let (chunk, at) = place(v);
                buffers[j][v] = s.load_f(&chunks(&state[j])[chunk], at);
            }
        }
        for row in rows.iter_mut() {
            let row = chunks_mut(row);
            let mut z = [s.splat_f(0.0); 2];
            for v in 0..2 {
                let (chunk, at) = place(v);
                z[v] = s.load_f(&row[chunk], at);
            }
            // Two chains, each half as long as one would be.
            for v in 0..2 {
                let mut odd = s.splat_f(0.0);
                for j in 0..D {
                    match j {
                        1 => odd = s.mul_f(weight[j], buffers[j][v]),
                        j if j % 2 == 1 => odd = s.fma(weight[j], buffers[j][v], odd),
                        _ => z[v] = s.fma(weight[j], buffers[j][v], z[v]),
                    }
                }
                if D > 1 {
                    z[v] = s.add_f(z[v], odd);
                }
            }
            for j in 0..D {
                for v in 0..2 {
                    buffers[j][v] = s.fma(decay[j], buffers[j][v], z[v]);
                }
            }
            for v in 0..2 {
                let (chunk, at) = place(v);
                s.store_f(z[v], &mut row[chunk], at);
            }
        }
        for j in 0..D {
            for v in 0..2 {
                let (chunk, at) = place(v);
                s.store_f(buffers[j][v], &mut chunks_mut(&mut state[j])[chunk], at);
            }
        }
    }
}

/// Any number of buffers, in loops that the compiler turns into vectors.
#[inline(always)]
fn one_by_one<S: Simd>(blt: Blt<'_>, state: &mut [Block], row: &mut Block) {
    let mut odd = ZERO_BLOCK;
    for (j, (buffer, &omega)) in state.iter().zip(blt.omega).enumerate() {
        let sum = if j % 2 == 1 { &mut odd } else { &mut *row };
        for i in 0..BLOCK {
            sum[i] = if j == 1 { -omega * buffer[i] } else { S::fused(-omega, buffer[i], sum[i]) };
        }
    }
    if state.len() > 1 {
        for i in 0..BLOCK {
            row[i] += odd[i];
        }
    }
    for (buffer, &theta) in state.iter_mut().zip(blt.theta) {
        for i in 0..BLOCK {
            buffer[i] = S::fused(theta, buffer[i], row[i]);
        }
    }
}
