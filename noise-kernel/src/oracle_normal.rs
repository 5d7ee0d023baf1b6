//! The Gaussian transform once more, one value at a time, written from the specification and sharing nothing
//! with the fast path.

use crate::Rounds;
use rand_chacha::{ChaCha12Rng, ChaCha20Rng};
use rand_core::{Rng, SeedableRng};

/// The specification's coefficients, lowest power first: nine digits determine each binary32 value exactly.
#[allow(clippy::excessive_precision)]
mod constants {
    pub const P: [f32; 9] = [
        3.33333135e-1,
        -2.50000089e-1,
        2.00021192e-1,
        -1.66679949e-1,
        1.42195538e-1,
        -1.24055952e-1,
        1.18881606e-1,
        -1.16756141e-1,
        6.74659833e-2,
    ];
    pub const S: [f32; 3] = [-1.66666552e-1, 8.33216030e-3, -1.95152839e-4];
    pub const K: [f32; 3] = [4.16666456e-2, -1.38873165e-3, 2.44331568e-5];
    pub const LN2_HIGH: f32 = 6.93359375e-1;
    pub const LN2_LOW: f32 = -2.12194440e-4;
    pub const SQRT_HALF: f32 = 7.07106769e-1;
    pub const ANGLE_STEP: f32 = 7.31459060e-10;
}
use constants::*;

/// Coordinates 512·`block`..512·(`block` + 1) of one stream.
pub(crate) fn block(key: &[u8; 32], rounds: Rounds, stream: u64, block: u64) -> Vec<f32> {
    // ChaCha block `counter` of the stream.
    let chacha = |counter: u64| match rounds {
        Rounds::Twenty => {
            let mut rng = ChaCha20Rng::from_seed(*key);
            rng.set_stream(stream);
            words(&mut rng, counter)
        }
        Rounds::Twelve => {
            let mut rng = ChaCha12Rng::from_seed(*key);
            rng.set_stream(stream);
            words(&mut rng, counter)
        }
    };
    let own: Vec<Vec<u32>> = (0..32).map(|i| chacha(32 * block + i)).collect();
    (0..512)
        .map(|coordinate| {
            let pair_row = coordinate / 32;
            let lane = coordinate % 16;
            let source = &own[16 * (pair_row / 8) + lane];
            let a = source[2 * (pair_row % 8)];
            let c = source[2 * (pair_row % 8) + 1];
            let extension = || chacha((1 << 63) + 16 * block + pair_row as u64)[lane];
            let (cosine, sine) = pair(a, extension, c);
            if coordinate % 32 < 16 { cosine } else { sine }
        })
        .collect()
}

fn words<R: Rng + WordPosition>(rng: &mut R, counter: u64) -> Vec<u32> {
    rng.to_block(counter);
    (0..16).map(|_| rng.next_u32()).collect()
}

/// `rand_chacha` moves each of its generators by a method of its own.
trait WordPosition {
    fn to_block(&mut self, counter: u64);
}

impl WordPosition for ChaCha20Rng {
    fn to_block(&mut self, counter: u64) {
        self.set_word_pos(u128::from(counter) * 16);
    }
}

impl WordPosition for ChaCha12Rng {
    fn to_block(&mut self, counter: u64) {
        self.set_word_pos(u128::from(counter) * 16);
    }
}

pub(crate) fn pair(a: u32, extension: impl FnOnce() -> u32, c: u32) -> (f32, f32) {
    let radius = (-2.0 * log(a, extension)).sqrt();
    let (cosine, sine) = cos_sin(c);
    (radius * cosine, radius * sine)
}

fn log(a: u32, extension: impl FnOnce() -> u32) -> f32 {
    let above_half = a >= 0x8000_0000;
    let a = if above_half { !a } else { a };
    let w = if a >= 1 << 20 {
        (a as f32 + 0.5) / 4294967296.0 // a power of two: exact
    } else {
        let e = extension();
        let e = if above_half { !e } else { e };
        ((a as f32 * 4294967296.0 + e as f32) + 0.5) / 18446744073709551616.0
    };
    let u = if above_half { 1.0 - w } else { w };

    // u = m·2^k by halving and doubling, all exact.
    let mut m = u;
    let mut k = 0.0f32;
    while m < SQRT_HALF {
        m *= 2.0;
        k -= 1.0;
    }
    let f = match (above_half, k == 0.0) {
        (false, _) => m - 1.0,
        (true, true) => -w,
        (true, false) => 1.0 - (w + w),
    };

    let mut p = P[8];
    for i in (0..8).rev() {
        p = p.mul_add(f, P[i]);
    }
    let square = f * f;
    let cubic = (square * f) * p;
    let low = k.mul_add(LN2_LOW, cubic);
    let without_f = (-0.5f32).mul_add(square, low);
    k.mul_add(LN2_HIGH, without_f + f)
}

fn cos_sin(c: u32) -> (f32, f32) {
    // The low 30 bits as a signed number of steps within a quarter turn, twice it and one.
    let low = i64::from(c & 0x3fff_ffff);
    let steps = if low >= 0x2000_0000 { low - 0x4000_0000 } else { low };
    let y = (2 * steps + 1) as f32 * ANGLE_STEP;
    let s = y * y;
    let sine = (y * s).mul_add(S[2].mul_add(s, S[1]).mul_add(s, S[0]), y);
    let half = (-0.5f32).mul_add(s, 1.0);
    let cosine = (s * s).mul_add(K[2].mul_add(s, K[1]).mul_add(s, K[0]), half);
    match (u64::from(c) + 0x2000_0000) / 0x4000_0000 % 4 {
        0 => (cosine, sine),
        1 => (-sine, cosine),
        2 => (-cosine, -sine),
        _ => (sine, -cosine),
    }
}
