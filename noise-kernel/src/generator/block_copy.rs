//! A copy of one block of a generator, to make its rows again.

use std::ops::Range;

use super::Generator;
use crate::history::PastNormals;
use crate::memory::Buffer;
use crate::range::{block_range, blocks};
use crate::{Backend, KernelError};

impl Generator {
    /// The place of a block's state.
    fn state_of(&self, block: u64) -> Range<usize> {
        let length = self.block_state_len();
        let start = (block - blocks(&self.range).start) as usize * length;
        start..start + length
    }

    /// Returns a generator of one block of this range, with a copy of its state. It draws past normals again.
    ///
    /// # Errors
    /// [`KernelError`] where the system has no memory, or this processor not this backend.
    pub(crate) fn of_block(&self, block: u64, backend: Backend) -> Result<Self, KernelError> {
        let range = block_range(&self.range, block);
        let mut state = Buffer::zeroed("the state of a block that is checked", self.block_state_len())?;
        state.copy_from_slice(&self.state[self.state_of(block)]);
        Ok(Self {
            stream: self.stream.clone().with_backend(backend)?,
            coefficients: self.coefficients.clone(),
            iterations: self.iterations,
            scale: self.scale,
            width: (range.end - range.start) as usize,
            range,
            slots: self.slots,
            next_row: self.next_row,
            state,
            past: PastNormals { slots: 0, values: Buffer::zeroed("past normals", 0)?, next_row: 0 },
        })
    }

    /// Returns whether the state of a block's generator is that of the block here, bit by bit.
    pub(crate) fn has_state_of(&self, block: &Self) -> bool {
        let here = &self.state[self.state_of(blocks(&block.range).start)];
        here.iter().zip(&block.state[..]).all(|(one, other)| one.to_bits() == other.to_bits())
    }
}
