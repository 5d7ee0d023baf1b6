//! The words of the keystream that a block of a grid stream takes: 48 bits of each uniform, 256 more where they are
//! needed.

use super::exact::{ExactNormal, midpoint, pair};
use crate::block::BlockAddress;
use crate::chacha::{self, Group, LANES};
use crate::prefetch::Prefetch;
use crate::simd::Simd;

/// Rows of 16 pairs in a block.
pub(crate) const PAIR_ROWS: usize = 16;
/// The quarter of the block counter that the lower 16 bits of uniforms come from.
const LOWER: u64 = 1 << 62;
/// The half of the block counter that further bits come from.
const FURTHER: u64 = 1 << 63;

/// The 48 bits of one uniform of every pair of a block, `[pair row][lane]`.
pub(crate) type Uniforms = [[u64; LANES]; PAIR_ROWS];

/// The first bits of the uniforms of a block.
pub(crate) struct FirstBits {
    /// Those of the radius.
    pub radius: Uniforms,
    /// Those of the angle.
    pub turn: Uniforms,
}

impl FirstBits {
    pub const ZERO: Self = Self { radius: [[0; LANES]; PAIR_ROWS], turn: [[0; LANES]; PAIR_ROWS] };

    /// Puts in those of a block: words a and c of a pair, and the halves of a word h that both share.
    #[inline(always)]
    pub fn fill<S: Simd, const TWENTY: bool>(&mut self, s: S, place: BlockAddress<'_>) {
        let mut upper: [Group; 2] = [[[0.0; LANES]; 16]; 2];
        let mut lower: Group = [[0.0; LANES]; 16];
        let group = |first: u64, out: &mut Group| {
            chacha::group::<S, TWENTY>(s, place.key, place.stream, first, &mut Prefetch::default(), out);
        };
        group(place.counter(0), &mut upper[0]);
        group(place.counter(1), &mut upper[1]);
        group(LOWER | place.number.wrapping_mul(LANES as u64), &mut lower);
        let (pairs, _) = upper.as_flattened().as_chunks::<2>();
        for row in 0..PAIR_ROWS {
            for lane in 0..LANES {
                let shared = u64::from(lower[row][lane].to_bits());
                let [a, c] =
                    [&pairs[row][0][lane], &pairs[row][1][lane]].map(|word| u64::from(word.to_bits()));
                self.radius[row][lane] = a << 16 | shared >> 16;
                self.turn[row][lane] = c << 16 | (shared & 0xffff);
            }
        }
    }
}

/// A normal of a block to all the bits there are, from its place in the block. `None`: see [`pair`].
pub(crate) fn exact_normal<const TWENTY: bool>(
    place: BlockAddress<'_>,
    within: usize,
) -> Option<ExactNormal> {
    let row = within / 32;
    let lane = within % LANES;
    let block = |counter| chacha::block::<TWENTY>(place.key, place.stream, counter);
    let upper = block(place.counter(row / 8) + lane as u64);
    let [a, c] = [upper[2 * (row % 8)], upper[2 * (row % 8) + 1]].map(u64::from);
    let shared = u64::from(block(LOWER | (place.number.wrapping_mul(LANES as u64) + lane as u64))[row]);
    let further = block(FURTHER | place.number.wrapping_mul(256).wrapping_add((16 * row + lane) as u64));
    let (further, _) = further.as_chunks::<8>();
    let u = midpoint(a << 16 | shared >> 16, &further[0]);
    let v = midpoint(c << 16 | (shared & 0xffff), &further[1]);
    Some(pair(u, v)?[within % 32 / LANES])
}
