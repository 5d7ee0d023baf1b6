//! Rows made once more, a noise block here and there, on another instruction set: a processor that computes wrongly is
//! found by its own rows.

use std::sync::{Mutex, OnceLock, PoisonError};

use rayon::prelude::*;

use crate::grid::GridRowError;
use crate::range::blocks;
use crate::{Backend, KernelError, RowGenerator};

/// 2⁶⁴ divided by the golden ratio: multiples of it, modulo 2⁶⁴, are spread evenly however many there are.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Makes a sample of the noise blocks of every call again, and compares rows and state bit by bit.
///
/// The blocks begin with the state that the call began with, and past normals are drawn again. So a sample finds what
/// went wrong in the call: arithmetic, past normals that are kept, memory that was written. State that had changed in memory
/// before the call is not found.
///
/// One `Recheck` is shared by all generators of a process: after the first difference nothing is sound any more.
pub struct Recheck {
    one_in: u64,
    made_by: Backend,
    checked_by: Backend,
    progress: Mutex<Progress>,
    found: OnceLock<KernelError>,
}

struct Progress {
    /// Blocks made since the last one that was checked.
    blocks: u64,
    /// Blocks that were chosen so far.
    chosen: u64,
}

/// Blocks of a call, as they were before it.
pub struct Sample(Vec<RowGenerator>);

impl Recheck {
    /// Returns a recheck of one block in `one_in` of rows that `made_by` makes; 0 for none. Another backend checks, where
    /// this processor has one: the fastest of the others, since plain instructions take many times as long.
    ///
    /// # Errors
    /// [`KernelError::Backend`] for a backend that this processor does not have.
    pub fn new(made_by: Backend, one_in: u64) -> Result<Self, KernelError> {
        let made_by = made_by.resolve()?;
        let other = Backend::available().into_iter().rev().find(|backend| *backend != made_by);
        let checked_by = other.unwrap_or(made_by);
        // The first call is checked, however small.
        let progress = Mutex::new(Progress { blocks: one_in.saturating_sub(1), chosen: 0 });
        Ok(Self { one_in, made_by, checked_by, progress, found: OnceLock::new() })
    }

    /// Fails where a difference was found before: nothing made here may be released any more.
    ///
    /// # Errors
    /// The [`KernelError::WrongRow`] that was found.
    pub fn ensure_sound(&self) -> Result<(), KernelError> {
        self.found.get().map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Copies what the next call of the generator is checked by. To be called before the rows are made.
    ///
    /// # Errors
    /// Fails as [`Recheck::ensure_sound`] does, and where the system has no memory.
    pub fn sample(&self, generator: &RowGenerator) -> Result<Sample, KernelError> {
        self.ensure_sound()?;
        let blocks = blocks(&generator.range());
        let chosen = self.choose(blocks.end - blocks.start);
        let of_block = |index: u64| generator.of_block(blocks.start + index, self.checked_by);
        chosen.into_iter().map(of_block).collect::<Result<_, _>>().map(Sample)
    }

    /// Makes the sample's blocks of `rows` again, on the caller's rayon pool, after `generator` has made them. Words of rows
    /// are compared, of integers their bits.
    ///
    /// # Errors
    /// [`KernelError::WrongRow`] where a bit differs. From then on [`Recheck::ensure_sound`] fails.
    pub fn check(
        &self,
        sample: Sample,
        generator: &RowGenerator,
        rows: &[&[f32]],
    ) -> Result<(), KernelError> {
        let check = |again: RowGenerator| self.check_block(again, generator, rows);
        let checked = sample.0.into_par_iter().try_for_each(check);
        if let Err(error @ KernelError::WrongRow { .. }) = &checked {
            // The first is kept.
            let _ = self.found.set(error.clone());
        }
        checked
    }

    /// The indices of the blocks to check of a call that makes so many: every `one_in`-th block on average, and each
    /// block of a range about as often as any other.
    fn choose(&self, blocks: u64) -> Vec<u64> {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.blocks = progress.blocks.saturating_add(blocks);
        let count = progress.blocks.checked_div(self.one_in).unwrap_or(0);
        progress.blocks -= count * self.one_in;
        if count >= blocks {
            return if count == 0 { Vec::new() } else { (0..blocks).collect() };
        }
        let first = progress.chosen;
        progress.chosen = first.wrapping_add(count);
        let place = |number: u64| {
            let spread = first.wrapping_add(number).wrapping_mul(GOLDEN);
            ((u128::from(spread) * u128::from(blocks)) >> 64) as u64
        };
        (0..count).map(place).collect()
    }

    fn check_block(
        &self,
        mut again: RowGenerator,
        made: &RowGenerator,
        rows: &[&[f32]],
    ) -> Result<(), KernelError> {
        let first_row = again.next_row();
        let range = again.range();
        let width = (range.end - range.start) as usize;
        let wrong = |row: u64, coordinate: u64| KernelError::WrongRow {
            row,
            coordinate,
            made_by: self.made_by,
            checked_by: self.checked_by,
        };
        let mut own = vec![vec![0f32; width]; rows.len()];
        let mut out: Vec<&mut [f32]> = own.iter_mut().map(Vec::as_mut_slice).collect();
        again.generate(&mut out).map_err(|error| match error {
            GridRowError::Argument(error) => error,
            // The rows that were made stay within 32 bits: these are others.
            _ => wrong(first_row, range.start),
        })?;
        let offset = (range.start - made.range().start) as usize;
        for ((row, own), made) in (first_row..).zip(&own).zip(rows) {
            if let Some(at) = first_difference(own, &made[offset..offset + width]) {
                return Err(wrong(row, range.start + at as u64));
            }
        }
        if made.has_state_of(&again) { Ok(()) } else { Err(wrong(again.next_row(), range.start)) }
    }
}

fn first_difference(one: &[f32], other: &[f32]) -> Option<usize> {
    one.iter().zip(other).position(|(one, other)| one.to_bits() != other.to_bits())
}
