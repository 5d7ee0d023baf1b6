//! Tiles: quarters of a block, the pieces that sums over rows work on.

use crate::block::Block;
use std::ops::Range;

/// Chunks of 16 coordinates in a tile.
pub(crate) const CHUNKS: usize = 8;
/// A quarter of a block: the sums of a group of rows over it stay in the first level cache.
pub(crate) type Tile = [[f32; 16]; CHUNKS];
/// Tiles in a block.
pub(crate) const TILES: usize = 4;

pub(crate) const ZERO_TILE: Tile = [[0.0; 16]; CHUNKS];

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
    /// A ring with as many slots as blocks.
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
