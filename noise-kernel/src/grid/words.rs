//! The words of the keystream that a block of a grid stream takes: 48 bits of each uniform, 256 more where they are
//! needed.

use super::exact::{Digits, ExactNormal, midpoint, pair};
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

/// The words that the first 48 bits of the uniforms of a block lie in.
#[repr(C, align(64))]
pub(crate) struct FirstBits {
    /// Words a and c of a pair, one row after the other.
    pub upper: [Group; 2],
    /// Word h, whose halves a pair of uniforms share.
    pub shared: Group,
}

impl FirstBits {
    pub const ZERO: Self = Self { upper: [[[0.0; LANES]; 16]; 2], shared: [[0.0; LANES]; 16] };

    /// Puts in those of a block, while `ahead` comes into the caches.
    #[inline(always)]
    pub fn fill<S: Simd, const TWENTY: bool>(&mut self, s: S, place: BlockAddress<'_>, ahead: &[f32]) {
        let mut ahead = Prefetch::new(ahead, 3 * chacha::fetches(S::LANES, TWENTY));
        let mut group = |first: u64, out: &mut Group| {
            chacha::group::<S, TWENTY>(s, place.key, place.stream, first, &mut ahead, out);
        };
        let [first, second] = &mut self.upper;
        group(place.counter(0), first);
        group(place.counter(1), second);
        group(LOWER | place.number.wrapping_mul(LANES as u64), &mut self.shared);
    }

    /// Words a, c and h of a row of pairs.
    #[inline(always)]
    pub fn row(&self, row: usize) -> [&[f32; LANES]; 3] {
        let upper = &self.upper[row / 8];
        [&upper[2 * (row % 8)], &upper[2 * (row % 8) + 1], &self.shared[row]]
    }
}

/// A normal of a block from its place in the block. `None`: see [`pair`].
pub(crate) fn exact_normal<const TWENTY: bool>(
    place: BlockAddress<'_>,
    within: usize,
    digits: Digits,
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
    Some(pair(u, v, digits)?[within % 32 / LANES])
}
