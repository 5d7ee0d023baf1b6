//! The Gaussian transform once more, one value at a time, written from the specification and sharing nothing
//! with the fast path.

use crate::Rounds;
use rand_chacha::{ChaCha12Rng, ChaCha20Rng};
use rand_core::{Rng, SeedableRng};

/// Decimal forms of the specification's coefficients, lowest power first. Each is the exact binary32 value.
const P: [f32; 9] = [
    0.333_333_13,
    -0.250_000_1,
    0.200_021_2,
    -0.166_679_95,
    0.142_195_54,
    -0.124_055_95,
    0.118_881_606,
    -0.116_756_14,
    0.067_465_983,
];
const S: [f32; 3] = [-0.166_666_55, 0.008_332_16, -0.000_195_152_84];
const K: [f32; 3] = [0.041_666_646, -0.001_388_731_6, 0.000_024_433_157];
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -0.000_212_194_44;
const SQRT_HALF: f32 = 0.707_106_77;
const ANGLE_STEP: f32 = 7.314_59e-10;

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
    let f = if above_half && k == 0.0 { -w } else { m - 1.0 };

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
