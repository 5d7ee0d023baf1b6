//! The Gaussian transform once more, one value at a time, written from the specification and sharing nothing
//! with the fast path.

use crate::Rounds;
use rand_chacha::{ChaCha12Rng, ChaCha20Rng};
use rand_core::{Rng, SeedableRng};

/// The specification's coefficients, lowest power first: nine digits say each binary32 value exactly.
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
    let words = match rounds {
        Rounds::Twenty => {
            let mut rng = ChaCha20Rng::from_seed(*key);
            rng.set_stream(stream);
            rng.set_word_pos(u128::from(block) * 768);
            words(&mut rng)
        }
        Rounds::Twelve => {
            let mut rng = ChaCha12Rng::from_seed(*key);
            rng.set_stream(stream);
            rng.set_word_pos(u128::from(block) * 768);
            words(&mut rng)
        }
    };
    (0..512).map(|coordinate| normal(&words, coordinate)).collect()
}

fn words(rng: &mut impl Rng) -> Vec<u32> {
    (0..768).map(|_| rng.next_u32()).collect()
}

/// The value of one coordinate of a block from the block's 768 words in ChaCha order.
fn normal(words: &[u32], coordinate: usize) -> f32 {
    let pair_row = coordinate / 32;
    let lane = coordinate % 16;
    // Word w of ChaCha block 16·g + lane of this noise block.
    let word = |g: usize, w: usize| words[16 * (16 * g + lane) + w];
    let (a, b, c) = if pair_row == 15 {
        (word(0, 15), word(1, 15), word(2, 15))
    } else {
        let (g, j) = (pair_row / 5, pair_row % 5);
        (word(g, 3 * j), word(g, 3 * j + 1), word(g, 3 * j + 2))
    };
    let (cosine, sine) = pair(a, b, c);
    if coordinate % 32 < 16 { cosine } else { sine }
}

pub(crate) fn pair(a: u32, b: u32, c: u32) -> (f32, f32) {
    let radius = (2.0 * minus_log(a, b)).sqrt();
    let (cosine, sine) = cos_sin(c);
    (radius * cosine, radius * sine)
}

fn minus_log(a: u32, b: u32) -> f32 {
    let above_half = a >= 0x8000_0000;
    let (a, b) = if above_half { (!a, !b) } else { (a, b) };
    let s = (a as f32 * 4294967296.0 + b as f32) + 0.5;
    let w = s / 18446744073709551616.0; // a power of two: exact
    let u = if above_half { 1.0 - w } else { w };

    // u = m·2^k by halving and doubling, all exact.
    let (mut m, mut k) = (u, 0.0f32);
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
        p = p * f + P[i];
    }
    let square = f * f;
    let cubic = (square * f) * p;
    let low = cubic + k * LN2_LOW;
    let without_f = low - 0.5 * square;
    -((without_f + f) + k * LN2_HIGH)
}

fn cos_sin(c: u32) -> (f32, f32) {
    // The low 30 bits as a signed number of steps within a quarter turn, twice it and one.
    let low = i64::from(c & 0x3fff_ffff);
    let steps = if low >= 0x2000_0000 { low - 0x4000_0000 } else { low };
    let y = (2 * steps + 1) as f32 * ANGLE_STEP;
    let s = y * y;
    let sine = y + (y * s) * ((S[2] * s + S[1]) * s + S[0]);
    let cosine = (1.0 - 0.5 * s) + (s * s) * ((K[2] * s + K[1]) * s + K[0]);
    match (u64::from(c) + 0x2000_0000) / 0x4000_0000 % 4 {
        0 => (cosine, sine),
        1 => (-sine, cosine),
        2 => (-cosine, -sine),
        _ => (sine, -cosine),
    }
}
