//! Weighted sums over earlier rows, for several rows of the result at once: a small matrix product.
//!
//! The sum for a row runs over source rows in ascending order and is cut into partial sums at multiples of 32
//! source rows, which keeps rounding small. The cuts depend on the source row alone, so neighbouring rows can
//! share each pass over the sources and still get the bits they would get one at a time.

use crate::block::{BLOCK, Block};
use crate::dispatch::Active;
use crate::parallel::FETCHED;
use std::ops::Range;

/// Rows that share a pass over the sources, at most.
pub(crate) const GROUP: usize = 16;
/// A partial sum is closed after every source row h with h % 32 = 31.
const CUT: u64 = 32;
/// Source rows that are in the cache before the first sum, at least.
const FETCHED_BEFORE: u64 = (FETCHED / BLOCK) as u64;
pub(crate) const CUT_ROWS: usize = CUT as usize;
/// A tile of each source row of a cut.
pub(crate) type CutTiles<'a> = [&'a Tile; CUT_ROWS];

/// Chunks of 16 coordinates in a tile.
pub(crate) const CHUNKS: usize = 8;
/// A quarter of a block: the sums of a group of rows over it stay in the first level cache.
pub(crate) type Tile = [[f32; 16]; CHUNKS];
/// Tiles in a block.
pub(crate) const TILES: usize = 4;

const ZERO_TILE: Tile = [[0.0; 16]; CHUNKS];

#[inline(always)]
pub(crate) fn chunks(block: &Block) -> &[[f32; 16]] {
    block.as_chunks().0
}

#[inline(always)]
pub(crate) fn chunks_mut(block: &mut Block) -> &mut [[f32; 16]] {
    block.as_chunks_mut().0
}

/// One tile of a block.
pub(crate) fn tile(block: &Block, index: usize) -> &Tile {
    &chunks(block).as_chunks().0[index]
}

/// The last rows of one block, row h in slot h % slots: `[tile][slot][128]`, so that the sources of a tile lie next to
/// each other and do not crowd each other out of the cache, as they would with a stride of a whole block.
pub(crate) struct Ring<'a> {
    tiles: &'a mut [Tile],
    slots: usize,
}

impl<'a> Ring<'a> {
    /// As many slots as blocks.
    pub fn new(state: &'a mut [Block]) -> Self {
        let slots = state.len();
        Self { tiles: state.as_flattened_mut().as_chunks_mut().0.as_chunks_mut().0, slots }
    }

    /// One tile of each of `rows`, as far as `to` has room.
    pub fn tiles<'t>(&'t self, rows: Range<u64>, index: usize, to: &mut [&'t Tile]) {
        if self.slots == 0 {
            return;
        }
        let tiles = &self.tiles[index * self.slots..][..self.slots];
        let mut slot = (rows.start % self.slots as u64) as usize;
        for (to, _) in to.iter_mut().zip(rows) {
            *to = &tiles[slot];
            slot = if slot + 1 == self.slots { 0 } else { slot + 1 };
        }
    }

    /// Puts in rows `first..`, of which the last stay.
    pub fn keep(&mut self, first: u64, rows: &[Block]) {
        for (row, values) in (first..).zip(rows).skip(rows.len().saturating_sub(self.slots)) {
            let slot = (row % self.slots as u64) as usize;
            for index in 0..TILES {
                self.tiles[index * self.slots + slot] = *tile(values, index);
            }
        }
    }
}

/// Rows `first..first + rows` and their coefficients over source rows `oldest..first + rows`.
#[derive(Debug)]
pub(crate) struct RowGroup {
    pub first: u64,
    /// 1, 2, 4, 8 or 16.
    pub rows: usize,
    pub oldest: u64,
    /// `[(source − oldest)·rows + row − first]`; 0 where a source has no part in a row. Adding a zero product
    /// changes no bit but the sign of a zero, and no row ends as one (`check`).
    coefficients: Vec<f32>,
}

impl RowGroup {
    /// Cuts rows `first..first + count` into groups. `reach`: how many rows a row looks back at most;
    /// `weight(row, source)` is asked only for row − reach ≤ source ≤ row.
    pub fn cut(first: u64, count: usize, reach: u64, weight: impl Fn(u64, u64) -> f32) -> Vec<RowGroup> {
        let mut groups = Vec::new();
        let mut first = first;
        let mut left = count;
        while left > 0 {
            let rows = GROUP.min(1 << left.ilog2());
            let oldest = first.saturating_sub(reach);
            let end = first + rows as u64;
            let coefficient = |source: u64, row: u64| {
                let used = source <= row && row - source <= reach;
                if used { weight(row, source) } else { 0.0 }
            };
            let coefficients = (oldest..end).flat_map(|source| (first..end).map(move |row| (source, row)));
            let coefficients = coefficients.map(|(source, row)| coefficient(source, row)).collect();
            groups.push(RowGroup { first, rows, oldest, coefficients });
            (first, left) = (end, left - rows);
        }
        groups
    }

    pub fn end(&self) -> u64 {
        self.first + self.rows as u64
    }

    /// The coefficients of the sources from `source` on.
    pub fn coefficients_from(&self, source: u64) -> &[f32] {
        &self.coefficients[(source - self.oldest) as usize * self.rows..]
    }

    /// The row of the group after which partial sums are closed, if there is one: never two, as a group has at most
    /// 16 rows.
    pub fn closed_after(&self) -> Option<usize> {
        (0..self.rows).find(|&row| (self.first + row as u64) % CUT == CUT - 1)
    }
}

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

    /// Adds sources to the sums of K rows, in ascending order, all of one cut together: `tiles_of(rows, index, to)` puts
    /// the tile of each of some source rows, one cut at most, where they go.
    pub fn add<'a, const K: usize>(
        &mut self,
        active: Active,
        group: &RowGroup,
        sources: Range<u64>,
        index: usize,
        tiles_of: impl Fn(Range<u64>, usize, &mut CutTiles<'a>),
    ) {
        let cut = |source: u64| source..((source / CUT + 1) * CUT).min(sources.end);
        let mut now = [&ZERO_TILE; CUT_ROWS];
        let mut later = [&ZERO_TILE; CUT_ROWS];
        // Of so few, all were fetched while the normals were made.
        let fetches = sources.end - sources.start > FETCHED_BEFORE;
        let mut at = cut(sources.start);
        if !at.is_empty() {
            tiles_of(at.clone(), index, &mut now);
        }
        while !at.is_empty() {
            let next = match index + 1 {
                _ if at.end < sources.end => (cut(at.end), index),
                next if next < TILES && fetches => (cut(sources.start), next),
                _ => (0..0, index),
            };
            if !next.0.is_empty() {
                tiles_of(next.0.clone(), next.1, &mut later);
            }
            let count = |rows: &Range<u64>| (rows.end - rows.start) as usize;
            let used = count(&at);
            let ahead = count(&next.0);
            let coefficients = &group.coefficients_from(at.start)[..used * K];
            active.accumulate::<K>(self, at.end % CUT == 0, &now[..used], &later[..ahead], coefficients);
            at = if at.end < sources.end { next.0 } else { 0..0 };
            std::mem::swap(&mut now, &mut later);
        }
    }

    /// total + partial of one row.
    pub fn write(&self, active: Active, row: usize, to: &mut [[f32; 16]]) {
        match (self.has_total, self.has_partial) {
            (true, _) => to.copy_from_slice(&self.total[row]),
            (false, true) => to.copy_from_slice(&self.partial[row]),
            (false, false) => to.fill([0.0; 16]),
        }
        if self.has_total && self.has_partial {
            active.add(to.as_flattened_mut(), self.partial[row].as_flattened());
        }
    }
}
