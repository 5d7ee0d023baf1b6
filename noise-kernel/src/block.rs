//! One noise block: 512 neighbouring coordinates of one stream, from 32 ChaCha blocks and, seldom, one of 16 more.

#![allow(clippy::needless_range_loop)] // vectors of several arrays go by one number

use crate::chacha::{self, LANES};
use crate::gaussian::{cos_sin, radius, refined, split, uniform};
use crate::prefetch::Prefetch;
use crate::simd::Simd;

/// Coordinates in a noise block; state and shards are cut at multiples of it.
pub const BLOCK: usize = 512;

/// One value for each coordinate of a block.
pub(crate) type Block = [f32; BLOCK];

pub(crate) const ZERO_BLOCK: Block = [0.0; BLOCK];

/// Groups of 16 ChaCha blocks in a noise block.
pub(crate) const GROUPS: usize = 2;
/// Rows of 16 pairs in a noise block: each takes two rows of words.
pub(crate) const PAIR_ROWS: usize = 16;

/// The block counter's half that extension words come from.
const EXTENSION: u64 = 1 << 63;

/// The place of a noise block's words in the keystream.
#[derive(Clone, Copy)]
pub(crate) struct BlockAddress<'a> {
    pub key: &'a [u32; 8],
    pub stream: u64,
    /// Number of the noise block.
    pub number: u64,
}

impl BlockAddress<'_> {
    /// The first ChaCha block of one of the noise block's own groups.
    #[inline(always)]
    pub fn counter(&self, group: usize) -> u64 {
        self.number.wrapping_mul(16 * GROUPS as u64).wrapping_add(16 * group as u64)
    }

    /// The ChaCha block that holds the extension words of a row of pairs.
    pub fn extension(&self, row: usize) -> u64 {
        EXTENSION | self.number.wrapping_mul(PAIR_ROWS as u64).wrapping_add(row as u64)
    }
}

/// Fills `out` with the standard normals of coordinates 512·`number`..512·(`number`+1). `ahead` is memory that will be
/// needed soon; it is fetched meanwhile.
///
/// A block is 2 groups of 16 ChaCha blocks. Word w of the 16 blocks of a group lies in row w of 16 lanes, so that two
/// neighbouring rows are 16 pairs of words; the pairs become pairs of normals in place:
///
/// ```text
/// for each group g:                                     chacha::group
///     out[g] ← words of ChaCha blocks 32·number + 16·g + (0..16), [word][lane]
/// for each row of pairs (a, c), lane by lane:
///     w, coarse ← a                                     gaussian::uniform: u = w or 1 − w, from 32 bits
///     where coarse (one row in 128): w ← a, extension   refine: the same u from 64 bits
///     f, k ← w                                          gaussian::split: u = (1 + f)·2ᵏ
///     r ← √(−2·ln u)                                    gaussian::radius
///     (a, c) ← (r·cos φ, r·sin φ)                       gaussian::cos_sin, φ = 2π(c + ½)/2³²
/// ```
///
/// With 16 lanes a vector is a row, and four rows pass through all steps in registers ([`whole_rows`]). With fewer
/// registers each step runs over the whole block, on as many vectors as keep its chains of operations busy: 4, 2 or 1.
#[inline(always)]
pub(crate) fn fill<S: Simd, const TWENTY: bool>(
    s: S,
    place: BlockAddress<'_>,
    ahead: &[f32],
    out: &mut Block,
) {
    // Two thirds of the time and more go into the keystream.
    let (early, late) = ahead.split_at(ahead.len() / 64 * 48);
    let mut early = Prefetch::new(early, GROUPS * chacha::fetches(S::LANES, TWENTY));
    let mut late = Prefetch::new(late, PAIR_ROWS);
    let (rows, _) = out.as_chunks_mut::<LANES>();
    let (groups, _) = rows.as_chunks_mut::<16>();
    for (g, words) in groups.iter_mut().enumerate() {
        chacha::group::<S, TWENTY>(s, place.key, place.stream, place.counter(g), &mut early, words);
    }
    let (pairs, _) = rows.as_chunks_mut::<2>();
    if S::LANES == LANES {
        return whole_rows::<S, TWENTY, 4>(s, place, &mut late, pairs);
    }
    // With fewer registers, step by step, as many vectors at once as they allow.
    let mut exponents = [[0.0; LANES]; PAIR_ROWS];
    logarithms::<S, TWENTY>(s, place, pairs, &mut exponents);
    match S::LANES {
        8 => (radii::<S, 4>(s, pairs, &exponents), turns::<S, 2>(s, &mut late, pairs)),
        4 => (radii::<S, 4>(s, pairs, &exponents), turns::<S, 4>(s, &mut late, pairs)),
        _ => (radii::<S, 1>(s, pairs, &exponents), turns::<S, 1>(s, &mut late, pairs)),
    };
}

/// A row of words for the radius and one for the angle, then a row of cosines and one of sines.
type PairRow = [[f32; LANES]; 2];

/// Turns words into normals, `N` rows of pairs at once, where a vector is a row: all in registers.
#[inline(always)]
fn whole_rows<S: Simd, const TWENTY: bool, const N: usize>(
    s: S,
    place: BlockAddress<'_>,
    ahead: &mut Prefetch<'_>,
    pairs: &mut [PairRow],
) {
    for (index, rows) in pairs.as_chunks_mut::<N>().0.iter_mut().enumerate() {
        let mut f = [s.splat_f(0.0); N];
        let mut k = [s.splat_f(0.0); N];
        let mut words = [s.splat(0); N];
        for i in 0..N {
            ahead.fetch(s);
            let a = s.bits(s.load_f(&rows[i][0], 0));
            let (mut w, coarse) = uniform(s, a);
            if s.any_high(coarse) {
                let mut values = [0.0; LANES];
                s.store_f(w, &mut values, 0);
                refine::<TWENTY>(place, index * N + i, &rows[i][0], &mut values);
                w = s.load_f(&values, 0);
            }
            (f[i], k[i]) = split(s, w, a);
            words[i] = s.bits(s.load_f(&rows[i][1], 0));
        }
        let r = radius(s, f, k);
        let (cosine, sine) = cos_sin(s, words);
        for i in 0..N {
            s.store_f(s.mul_f(r[i], cosine[i]), &mut rows[i][0], 0);
            s.store_f(s.mul_f(r[i], sine[i]), &mut rows[i][1], 0);
        }
    }
}

/// Turns words for the radius into f, and `exponents` into k.
#[inline(always)]
fn logarithms<S: Simd, const TWENTY: bool>(
    s: S,
    place: BlockAddress<'_>,
    pairs: &mut [PairRow],
    exponents: &mut [[f32; LANES]; PAIR_ROWS],
) {
    for (row, ([words, _], exponents)) in pairs.iter_mut().zip(exponents).enumerate() {
        let mut w = [0.0; LANES];
        let mut coarse = s.splat(0);
        for at in (0..LANES).step_by(S::LANES) {
            let (value, is_coarse) = uniform(s, s.bits(s.load_f(words, at)));
            s.store_f(value, &mut w, at);
            coarse = s.or(coarse, is_coarse);
        }
        if s.any_high(coarse) {
            refine::<TWENTY>(place, row, words, &mut w);
        }
        for at in (0..LANES).step_by(S::LANES) {
            let (f, k) = split(s, s.load_f(&w, at), s.bits(s.load_f(words, at)));
            s.store_f(f, words, at);
            s.store_f(k, exponents, at);
        }
    }
}

/// Turns f into the radius, `N` vectors at once.
#[inline(always)]
fn radii<S: Simd, const N: usize>(s: S, pairs: &mut [PairRow], exponents: &[[f32; LANES]; PAIR_ROWS]) {
    for first in (0..LANES / S::LANES * PAIR_ROWS).step_by(N) {
        let mut f = [s.splat_f(0.0); N];
        let mut k = [s.splat_f(0.0); N];
        for i in 0..N {
            let (row, at) = lane_of::<S>(first + i);
            f[i] = s.load_f(&pairs[row][0], at);
            k[i] = s.load_f(&exponents[row], at);
        }
        let r = radius(s, f, k);
        for i in 0..N {
            let (row, at) = lane_of::<S>(first + i);
            s.store_f(r[i], &mut pairs[row][0], at);
        }
    }
}

/// Turns radii and words for the angle into normals, `N` vectors at once.
#[inline(always)]
fn turns<S: Simd, const N: usize>(s: S, ahead: &mut Prefetch<'_>, pairs: &mut [PairRow]) {
    for first in (0..LANES / S::LANES * PAIR_ROWS).step_by(N) {
        ahead.fetch(s);
        let mut words = [s.splat(0); N];
        for i in 0..N {
            let (row, at) = lane_of::<S>(first + i);
            words[i] = s.bits(s.load_f(&pairs[row][1], at));
        }
        let (cosine, sine) = cos_sin(s, words);
        for i in 0..N {
            let (row, at) = lane_of::<S>(first + i);
            let r = s.load_f(&pairs[row][0], at);
            s.store_f(s.mul_f(r, cosine[i]), &mut pairs[row][0], at);
            s.store_f(s.mul_f(r, sine[i]), &mut pairs[row][1], at);
        }
    }
}

/// The row of pairs and the first lane of a vector.
#[inline(always)]
fn lane_of<S: Simd>(vector: usize) -> (usize, usize) {
    let in_row = LANES / S::LANES;
    (vector / in_row, vector % in_row * S::LANES)
}

/// Computes w from 64 bits where it needs them. One row of pairs in 128 does.
#[cold]
#[inline(never)]
fn refine<const TWENTY: bool>(place: BlockAddress<'_>, row: usize, a: &[f32; LANES], w: &mut [f32; LANES]) {
    let counter = place.extension(row);
    for (lane, w) in w.iter_mut().enumerate() {
        let extension = || chacha::block::<TWENTY>(place.key, place.stream, counter)[lane];
        *w = refined(a[lane].to_bits(), extension).unwrap_or(*w);
    }
}
