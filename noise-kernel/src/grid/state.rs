//! The state of a generator of whole rows, and the bytes it is saved as.

use super::decide::{Values, WholeBlock};
use super::error::GridRowError;
use super::family::GridFamily;
use super::mechanism::GridMechanism;
use super::task::StatePart;
use crate::KernelError;
use crate::block::BLOCK;
use crate::memory::Buffer;
use crate::range::blocks;
use rayon::prelude::*;
use std::fmt;
use std::ops::Range;

/// The type of the values of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GridElement {
    /// Whole numbers of 32 bits: past rows, or estimates of a tree. Mechanisms without state have this type too.
    I32,
    /// Binary64 values: the buffers of a BLT.
    F64,
}

impl GridElement {
    /// Returns the bytes of a value.
    pub fn bytes(self) -> usize {
        match self {
            GridElement::I32 => 4,
            GridElement::F64 => 8,
        }
    }

    fn name(self) -> &'static str {
        match self {
            GridElement::I32 => "i32",
            GridElement::F64 => "f64",
        }
    }
}

/// A state as it is saved. It is as secret as the rows it was made of.
#[derive(Clone, PartialEq, Eq)]
pub struct GridSnapshot {
    /// The row made next.
    pub next_row: u64,
    /// The type of the values.
    pub element: GridElement,
    /// `[block][slot][512]` values, little-endian, of all coordinates of the blocks that the range touches: the snapshots
    /// of ranges that meet at a multiple of 512 are joined and cut as byte strings.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for GridSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let GridSnapshot { next_row, element, bytes } = self;
        write!(f, "GridSnapshot(before row {next_row}, {} bytes of {})", bytes.len(), element.name())
    }
}

/// `[block][slot][512]`.
pub(crate) enum State {
    Whole(Buffer<i32>),
    Floats(Buffer<f64>),
}

impl State {
    pub fn zeroed(mechanism: &GridMechanism, range: &Range<u64>) -> Result<Self, KernelError> {
        const WHAT: &str = "the state of this range";
        let all = blocks(range);
        let values = u128::from(all.end - all.start) * mechanism.slots() as u128 * BLOCK as u128;
        let element = element_of(mechanism);
        let bytes = values * element.bytes() as u128;
        if isize::try_from(bytes).is_err() {
            return Err(KernelError::TooLarge { what: WHAT, bytes });
        }
        Ok(match element {
            GridElement::I32 => State::Whole(Buffer::zeroed(WHAT, values as usize)?),
            GridElement::F64 => State::Floats(Buffer::zeroed(WHAT, values as usize)?),
        })
    }

    pub fn element(&self) -> GridElement {
        match self {
            State::Whole(_) => GridElement::I32,
            State::Floats(_) => GridElement::F64,
        }
    }

    pub fn len(&self) -> usize {
        match self {
            State::Whole(values) => values.len(),
            State::Floats(values) => values.len(),
        }
    }

    pub fn whole(&mut self) -> StatePart<'_> {
        match self {
            State::Whole(values) => StatePart::Whole(values.as_chunks_mut::<BLOCK>().0),
            State::Floats(values) => StatePart::Floats(values.as_chunks_mut::<BLOCK>().0),
        }
    }

    /// Copies the values of the block at `index` of another state, which this is the state of.
    pub fn take_part(&mut self, all: &Self, index: usize) {
        let part = self.len() * index..self.len() * (index + 1);
        match (self, all) {
            (State::Whole(values), State::Whole(all)) => values.copy_from_slice(&all[part]),
            (State::Floats(values), State::Floats(all)) => values.copy_from_slice(&all[part]),
            // Both are of one mechanism.
            _ => {}
        }
    }

    /// Returns whether this is the state of the block at `index` of another one, bit by bit.
    pub fn is_part_of(&self, all: &Self, index: usize) -> bool {
        let part = self.len() * index..self.len() * (index + 1);
        match (self, all) {
            (State::Whole(values), State::Whole(all)) => values[..] == all[part],
            (State::Floats(values), State::Floats(all)) => {
                values.iter().zip(&all[part]).all(|(one, other)| one.to_bits() == other.to_bits())
            }
            _ => false,
        }
    }

    /// The bytes, on all threads of the current pool.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len() * self.element().bytes()];
        match self {
            State::Whole(values) => {
                let parts = bytes.par_chunks_mut(size_of::<WholeBlock>()).zip(values.par_chunks(BLOCK));
                parts.for_each(|(bytes, values)| {
                    let to = bytes.as_chunks_mut().0.iter_mut();
                    to.zip(values).for_each(|(to, value)| *to = value.to_le_bytes());
                });
            }
            State::Floats(values) => {
                let parts = bytes.par_chunks_mut(size_of::<Values>()).zip(values.par_chunks(BLOCK));
                parts.for_each(|(bytes, values)| {
                    let to = bytes.as_chunks_mut().0.iter_mut();
                    to.zip(values).for_each(|(to, value)| *to = value.to_le_bytes());
                });
            }
        }
        bytes
    }

    /// Takes the values of saved bytes.
    pub fn take_bytes(&mut self, element: GridElement, bytes: &[u8]) -> Result<(), GridRowError> {
        let expected = self.element();
        if element != expected {
            return Err(GridRowError::Element { got: element.name(), expected: expected.name() });
        }
        if bytes.len() != self.len() * element.bytes() {
            let got = bytes.len() / element.bytes();
            return Err(KernelError::StateLength { got, expected: self.len() }.into());
        }
        match self {
            State::Whole(values) => {
                let from = bytes.as_chunks().0.iter();
                values.iter_mut().zip(from).for_each(|(to, from)| *to = i32::from_le_bytes(*from));
            }
            State::Floats(values) => {
                let from = bytes.as_chunks().0.iter();
                values.iter_mut().zip(from).for_each(|(to, from)| *to = f64::from_le_bytes(*from));
            }
        }
        Ok(())
    }
}

fn element_of(mechanism: &GridMechanism) -> GridElement {
    match mechanism.family() {
        GridFamily::Blt { .. } => GridElement::F64,
        _ => GridElement::I32,
    }
}
