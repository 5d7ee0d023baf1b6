//! Weighted sums over earlier rows, for several rows of the result at once: a small matrix product.
//!
//! The sum for a row runs over source rows in ascending order and is cut into partial sums at multiples of 32
//! source rows, which keeps rounding small. The cuts depend on the source row alone, so neighbouring rows can
//! share each pass over the sources and still get the bits they would get one by one.

#![allow(clippy::needless_range_loop)] // vectors of several arrays go by one number

use crate::simd::Simd;
use crate::tile::{CHUNKS, Tile, ZERO_TILE};

/// Most rows that share a pass over the sources.
pub(crate) const GROUP: usize = 16;
/// A partial sum is closed after every source row h with h % 32 = 31.
pub(crate) const CUT: u64 = 32;
pub(crate) const CUT_ROWS: usize = CUT as usize;
/// A tile of each source row of a cut.
pub(crate) type CutTiles<'a> = [&'a Tile; CUT_ROWS];

/// Running sums of the rows of a group over one tile. What has not been written counts as +0.
pub(crate) struct Sums {
    pub total: [Tile; GROUP],
    pub partial: [Tile; GROUP],
    pub has_total: bool,
    pub has_partial: bool,
}

impl Sums {
    pub fn new() -> Box<Self> {
        let zero = [ZERO_TILE; GROUP];
        Box::new(Self { total: zero, partial: zero, has_total: false, has_partial: false })
    }

    pub fn clear(&mut self) {
        (self.has_total, self.has_partial) = (false, false);
    }
}

/// Rows, and vectors of each, whose sums stay in registers: half of the registers, with the other half for the sources
/// and a coefficient.
const fn in_registers(lanes: usize, k: usize) -> (usize, usize) {
    let registers = if lanes == 16 { 16 } else { 8 };
    let rows = if k < 4 { k } else { 4 };
    let vectors = registers / rows;
    let all = CHUNKS * 16 / lanes;
    (rows, if vectors < all { vectors } else { all })
}

/// The chunk of a vector of a tile, and its place there.
#[inline(always)]
pub(crate) fn place_of<S: Simd>(vector: usize) -> (usize, usize) {
    (vector * S::LANES / 16, vector * S::LANES % 16)
}

/// partial[j] ← partial[j] + Σ_u coefficients[u·K + j]·sources[u], one u after another, for the first K sums. `next`
/// is read after them: it is fetched in the order in which it lies in memory, evenly over all the work.
#[inline(always)]
pub(crate) fn accumulate<S: Simd, const K: usize>(
    s: S,
    sums: &mut Sums,
    closes: bool,
    sources: &[&Tile],
    next: &[&Tile],
    coefficients: &[f32],
) {
    let (coefficients, _) = coefficients.as_chunks::<K>();
    let Sums { total, partial, has_total, has_partial } = sums;
    let (rows, vectors) = const { in_registers(S::LANES, K) };
    let strips = CHUNKS * 16 / S::LANES / vectors;
    let parts = K / rows;
    let passes = strips * parts;
    for pass in 0..passes {
        let first_vector = pass / parts * vectors;
        let first = pass % parts * rows;
        let mut acc = [[s.splat_f(0.0); 8]; 4];
        if *has_partial {
            for j in 0..rows {
                for v in 0..vectors {
                    let (chunk, at) = place_of::<S>(first_vector + v);
                    acc[j][v] = s.load_f(&partial[first + j][chunk], at);
                }
            }
        }
        for (u, (source, factors)) in sources.iter().zip(coefficients).enumerate() {
            fetch(s, next, pass * CUT_ROWS + u, passes);
            let mut x = [s.splat_f(0.0); 8];
            for v in 0..vectors {
                let (chunk, at) = place_of::<S>(first_vector + v);
                x[v] = s.load_f(&source[chunk], at);
            }
            for j in 0..rows {
                let factor = s.splat_f(factors[first + j]);
                for v in 0..vectors {
                    acc[j][v] = s.fma(factor, x[v], acc[j][v]);
                }
            }
        }
        let to = if closes { &mut *total } else { &mut *partial };
        for j in 0..rows {
            for v in 0..vectors {
                let (chunk, at) = place_of::<S>(first_vector + v);
                let place = &mut to[first + j][chunk];
                if closes && *has_total {
                    acc[j][v] = s.add_f(s.load_f(place, at), acc[j][v]);
                }
                s.store_f(acc[j][v], place, at);
            }
        }
    }
    *has_total |= closes;
    *has_partial = !closes;
}

/// Fetches the share of step `step` of `passes`·32, which together fetch every line of 32 tiles once.
#[inline(always)]
fn fetch<S: Simd>(s: S, tiles: &[&Tile], step: usize, passes: usize) {
    let lines = if passes < CHUNKS { CHUNKS / passes } else { 1 };
    if passes > CHUNKS && !step.is_multiple_of(passes / CHUNKS) {
        return;
    }
    let line = step * CHUNKS / passes;
    if let Some(tile) = tiles.get(line / CHUNKS) {
        for i in 0..lines {
            s.prefetch(&tile[line % CHUNKS + i]);
        }
    }
}
