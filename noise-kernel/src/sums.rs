//! Weighted sums over earlier rows, for several rows of the result at once: a small matrix product.
//!
//! The sum for a row runs over source rows in ascending order and is cut into partial sums at multiples of 32
//! source rows, which keeps rounding small. The cuts depend on the source row alone, so neighbouring rows can
//! share each pass over the sources and still get the bits they would get one at a time.

use crate::block::Block;
use crate::dispatch::Active;
use std::ops::Range;

/// Rows that share a pass over the sources, at most.
pub(crate) const GROUP: usize = 16;
/// A partial sum is closed after every source row h with h % 32 = 31.
const CUT: u64 = 32;

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

    pub fn tile(&self, row: u64, index: usize) -> &Tile {
        &self.tiles[index * self.slots + (row % self.slots as u64) as usize]
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
        let (mut first, mut left) = (first, count);
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

    /// Adds sources to the sums of K rows, in ascending order, all of one cut together: `tile_of(h, index)` is a tile
    /// of source row h.
    pub fn add<'a, const K: usize>(
        &mut self,
        active: Active,
        group: &RowGroup,
        sources: Range<u64>,
        index: usize,
        tile_of: impl Fn(u64, usize) -> &'a Tile,
    ) {
        let gather = |sources: Range<u64>, index: usize| {
            let mut tiles = [&ZERO_TILE; CUT as usize];
            let count = tiles.iter_mut().zip(sources).map(|(to, h)| *to = tile_of(h, index)).count();
            (tiles, count)
        };
        let stop = |source: u64| ((source / CUT + 1) * CUT).min(sources.end);
        let mut source = sources.start;
        while source < sources.end {
            let end = stop(source);
            let (tiles, count) = gather(source..end, index);
            let (next, next_count) = match index + 1 {
                _ if end < sources.end => gather(end..stop(end), index),
                TILES => gather(0..0, index),
                index => gather(sources.start..stop(sources.start), index),
            };
            let coefficients = &group.coefficients_from(source)[..count * K];
            active.accumulate::<K>(self, end % CUT == 0, &tiles[..count], &next[..next_count], coefficients);
            source = end;
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
