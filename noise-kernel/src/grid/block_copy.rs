//! A copy of one block of a generator of whole rows, to make them again.

use super::generator::GridGenerator;
use crate::range::{block_range, blocks};
use crate::{Backend, KernelError};

impl GridGenerator {
    /// Returns a generator of one block of this range, with a copy of its state.
    ///
    /// # Errors
    /// [`KernelError`] where the system has no memory, or this processor not this backend.
    pub(crate) fn of_block(&self, block: u64, backend: Backend) -> Result<Self, KernelError> {
        let stream = self.stream.clone().with_backend(backend)?;
        let mut copy = Self::new(stream, self.mechanism.clone(), block_range(&self.range, block))?;
        copy.state.take_part(&self.state, self.index_of(block));
        copy.next_row = self.next_row;
        Ok(copy)
    }

    /// Returns whether the state of a block's generator is that of the block here, bit by bit.
    pub(crate) fn has_state_of(&self, block: &Self) -> bool {
        block.state.is_part_of(&self.state, self.index_of(blocks(&block.range).start))
    }

    fn index_of(&self, block: u64) -> usize {
        (block - blocks(&self.range).start) as usize
    }
}
