//! One noise block: 512 neighbouring coordinates of one stream, from 48 ChaCha blocks.

use crate::chacha::{Group, LANES, group};
use crate::gaussian::pair;

/// Coordinates in a noise block; state and shards are cut at multiples of it.
pub const BLOCK: usize = 512;

/// One value for each coordinate of a block.
pub(crate) type Block = [f32; BLOCK];

pub(crate) const ZERO_BLOCK: Block = [0.0; BLOCK];

/// Groups of 16 ChaCha blocks in a noise block.
const GROUPS: usize = 3;
/// Pair rows that take all their words from one group; the word row left over by each group makes one more.
const PAIR_ROWS: usize = 5;

/// The standard normals of coordinates 512·`number`..512·(`number`+1) in stream `stream`.
#[inline(always)]
pub(crate) fn fill<const TWENTY: bool>(key: &[u32; 8], stream: u64, number: u64, out: &mut Block) {
    let mut words: Group = [[0; LANES]; 16];
    let mut left_over = [[0; LANES]; GROUPS];
    let (rows, _) = out.as_chunks_mut::<{ 2 * LANES }>();
    for (g, left_over) in left_over.iter_mut().enumerate() {
        let first = number.wrapping_mul(16 * GROUPS as u64).wrapping_add(16 * g as u64);
        group::<TWENTY>(key, stream, first, &mut words);
        for j in 0..PAIR_ROWS {
            pair_row(&words[3 * j], &words[3 * j + 1], &words[3 * j + 2], &mut rows[PAIR_ROWS * g + j]);
        }
        *left_over = words[15];
    }
    let [a, b, c] = &left_over;
    pair_row(a, b, c, &mut rows[GROUPS * PAIR_ROWS]);
}

/// 16 pairs: cosines in the first half of `out`, sines in the second.
#[inline(always)]
fn pair_row(a: &[u32; LANES], b: &[u32; LANES], c: &[u32; LANES], out: &mut [f32; 2 * LANES]) {
    for lane in 0..LANES {
        let (cosine, sine) = pair(a[lane], b[lane], c[lane]);
        out[lane] = cosine;
        out[LANES + lane] = sine;
    }
}
