//! One call of the generator on one block: some rows of one mechanism.

use super::banded::Source;
use super::decide::{Values, WholeBlock};
use super::family::{GridBanded, GridFamily, GridInverse};
use super::mechanism::GridMechanism;
use super::normals::Normals;
use super::rows::{Blt, Decider, MOST_BUFFERS, OpenStrip, ROWS, RowBatch};
use super::settle::{BlockRow, Fault, Faults, Scratch};
use super::task::{GridSink, StatePart, TaskBlock};
use super::tree;
use crate::Stream;
use crate::tree::{Step, steps};
use std::ops::Range;

/// Rows of an inverse mechanism made together: they share the normals drawn for them.
const INVERSE_ROWS: usize = 16;

/// Rows `first..first + count`, the same for every block.
pub(crate) struct Call<'a> {
    stream: &'a Stream,
    mechanism: &'a GridMechanism,
    first: u64,
    count: usize,
    /// Of a tree.
    steps: Vec<Step>,
}

/// A block, and the memory that the next one needs.
#[derive(Clone, Copy)]
struct Place<'a> {
    block: u64,
    ahead: &'a [f32],
}

/// What rows of a banded C that are made together look back at.
struct LookBack<'a> {
    sources: Vec<Source<'a>>,
    /// Of row and row.
    within: [[f64; ROWS]; ROWS],
}

impl<'a> Call<'a> {
    pub fn new(stream: &'a Stream, mechanism: &'a GridMechanism, first: u64, count: usize) -> Self {
        let steps = match mechanism.family() {
            GridFamily::Tree(tree) => steps(tree, first, count),
            _ => Vec::new(),
        };
        Self { stream, mechanism, first, count, steps }
    }

    pub fn scratch(&self) -> Box<Scratch> {
        match self.mechanism.family() {
            GridFamily::Inverse(_) => Scratch::new(self.count.min(INVERSE_ROWS)),
            _ => Scratch::new(0),
        }
    }

    /// Makes all rows of block `block`: its state advances by them, its sink gets them.
    pub fn run(&self, block: u64, parts: TaskBlock<'_, '_>, scratch: &mut Scratch) -> Result<(), Fault> {
        let TaskBlock { state, mut sink, ahead } = parts;
        let sink = &mut sink;
        match (self.mechanism.family(), state) {
            (GridFamily::Blt { theta, omega }, StatePart::Floats(state)) => {
                self.blt(Blt { theta, omega }, Place { block, ahead }, state, scratch, sink)
            }
            (GridFamily::Banded(banded), StatePart::Whole(state)) => {
                self.banded(banded, Place { block, ahead }, state, scratch, sink)
            }
            (GridFamily::Inverse(inverse), _) => self.inverse(inverse, block, scratch, sink),
            (GridFamily::Tree(_), StatePart::Whole(state)) => self.tree(block, state, scratch, sink),
            _ => self.identity(block, scratch, sink),
        }
    }

    /// The rows of the call in batches of 1, 2, 4 or 8, the largest first.
    fn batches(&self) -> impl Iterator<Item = Range<usize>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let left = self.count - at;
            let size = if left == 0 { 0 } else { ROWS.min(1 << left.ilog2()) };
            at += size;
            (size > 0).then(|| at - size..at)
        })
    }

    fn at(&self, index: usize, block: u64) -> BlockRow<'_> {
        BlockRow { stream: self.stream, row: self.first + index as u64, block }
    }

    fn identity(&self, block: u64, scratch: &mut Scratch, sink: &mut GridSink<'_, '_>) -> Result<(), Fault> {
        for index in 0..self.count {
            let at = self.at(index, block);
            at.fresh(at.row, self.mechanism.deviation(at.row), scratch)?;
            sink.write(index, &scratch.rows[0]);
        }
        Ok(())
    }

    fn blt(
        &self,
        blt: Blt<'_>,
        place: Place<'_>,
        state: &mut [Values],
        scratch: &mut Scratch,
        sink: &mut GridSink<'_, '_>,
    ) -> Result<(), Fault> {
        let active = self.stream.active();
        if state.len() > MOST_BUFFERS {
            for index in 0..self.count {
                let at = self.at(index, place.block);
                active.grid_blt_feedback(blt.omega, state, &mut scratch.f);
                at.fed_back(self.mechanism.deviation(at.row), scratch)?;
                active.grid_blt_advance(blt.theta, state, &scratch.rows[0]);
                sink.write(index, &scratch.rows[0]);
            }
            return Ok(());
        }
        for Range { start: first, end } in self.batches() {
            let count = end - first;
            let mut run =
                |rows: &mut RowBatch<'_>, open: &mut Decider<'_>| active.grid_blt(blt, state, rows, open);
            self.together(first, count, place, scratch, &mut run)?;
            (0..count).for_each(|j| sink.write(first + j, &scratch.rows[j]));
        }
        Ok(())
    }

    /// Row t lies in slot t mod slots.
    fn banded(
        &self,
        banded: &GridBanded,
        place: Place<'_>,
        state: &mut [WholeBlock],
        scratch: &mut Scratch,
        sink: &mut GridSink<'_, '_>,
    ) -> Result<(), Fault> {
        let active = self.stream.active();
        let slots = state.len() as u64;
        for Range { start: first, end } in self.batches() {
            let count = end - first;
            let LookBack { sources, within } = self.looked(banded, first, count, state);
            let mut run = |rows: &mut RowBatch<'_>, open: &mut Decider<'_>| {
                active.grid_banded(&sources, &within, rows, open);
            };
            self.together(first, count, place, scratch, &mut run)?;
            for j in 0..count {
                let row = self.first + (first + j) as u64;
                if slots > 0 {
                    state[(row % slots) as usize] = scratch.rows[j];
                }
                sink.write(first + j, &scratch.rows[j]);
            }
        }
        Ok(())
    }

    /// What rows of a banded C look back at: rows kept, and each other.
    fn looked<'s>(
        &self,
        banded: &GridBanded,
        first: usize,
        count: usize,
        state: &'s [WholeBlock],
    ) -> LookBack<'s> {
        let first = self.first + first as u64;
        let slots = state.len() as u64;
        let at = |row: u64, source: u64| {
            let back = (row - source) as usize;
            banded.lags(row).get(back - 1).copied().unwrap_or(0.0)
        };
        let coefficients =
            |source: u64| std::array::from_fn(|j| if j < count { at(first + j as u64, source) } else { 0.0 });
        let sources = (first.saturating_sub(slots)..first)
            .map(|source| (coefficients(source), &state[(source % slots) as usize]));
        let within = std::array::from_fn(|j| {
            let row = first + j as u64;
            std::array::from_fn(|i| if i < j && j < count { at(row, first + i as u64) } else { 0.0 })
        });
        LookBack { sources: sources.collect(), within }
    }

    /// Makes some rows of the call together, by `run`.
    fn together(
        &self,
        first: usize,
        count: usize,
        place: Place<'_>,
        scratch: &mut Scratch,
        run: &mut dyn FnMut(&mut RowBatch<'_>, &mut Decider<'_>),
    ) -> Result<(), Fault> {
        let Scratch { words, normals, rows, .. } = scratch;
        let deviations = std::array::from_fn(|j| {
            if j < count { self.mechanism.deviation(self.first + (first + j) as u64) } else { 0.0 }
        });
        for (j, normals) in normals[..count].iter_mut().enumerate() {
            // Each row of the call fetches its part.
            let part = |row: usize| place.ahead.len() / 16 * row / self.count * 16;
            let ahead = &place.ahead[part(first + j)..part(first + j + 1)];
            self.stream.fill_grid_block(self.first + (first + j) as u64, place.block, ahead, words, normals);
        }
        let normals = &normals[..count];
        let mut faults = Faults::default();
        let mut open = |strip: &OpenStrip<'_>, n: &mut [i32]| {
            let at = self.at(first + strip.row, place.block);
            faults.join(at.settle_strip(deviations[strip.row], strip, n));
        };
        run(&mut RowBatch { deviations, normals, out: &mut rows[..count] }, &mut open);
        faults.result()
    }

    fn inverse(
        &self,
        inverse: &GridInverse,
        block: u64,
        scratch: &mut Scratch,
        sink: &mut GridSink<'_, '_>,
    ) -> Result<(), Fault> {
        for first in (0..self.count).step_by(INVERSE_ROWS) {
            let rows = first..self.count.min(first + INVERSE_ROWS);
            self.inverse_sums(inverse, rows.clone(), block, scratch);
            for index in rows {
                let at = self.at(index, block);
                let terms = (inverse.oldest(at.row)..=at.row)
                    .map(|source| (source, inverse.at(at.row, source)))
                    .filter(|(_, c)| *c != 0.0);
                let terms: Vec<(u64, f64)> = terms.collect();
                let s = self.mechanism.deviation(at.row);
                at.summed(s, &terms, &mut scratch.sums[index - first], &mut scratch.rows[0])?;
                sink.write(index, &scratch.rows[0]);
            }
        }
        Ok(())
    }

    /// The approximate sums of rows `rows` of the call. Every source is drawn once for all of them.
    fn inverse_sums(&self, inverse: &GridInverse, rows: Range<usize>, block: u64, scratch: &mut Scratch) {
        let row_of = |index: usize| self.first + index as u64;
        let Scratch { words, normals: [normals, ..], sums, .. } = scratch;
        let sums = &mut sums[..rows.len()];
        sums.fill_with(|| Normals::ZERO);
        for source in inverse.oldest(row_of(rows.start))..row_of(rows.end) {
            self.stream.fill_grid_block(source, block, &[], words, normals);
            for (index, sum) in rows.clone().zip(&mut *sums) {
                let row = row_of(index);
                if !(inverse.oldest(row)..=row).contains(&source) {
                    continue;
                }
                let c = self.mechanism.deviation(row) * inverse.at(row, source);
                if c != 0.0 {
                    self.stream.active().grid_inverse(c, normals, sum);
                }
            }
        }
    }

    fn tree(
        &self,
        block: u64,
        state: &mut [WholeBlock],
        scratch: &mut Scratch,
        sink: &mut GridSink<'_, '_>,
    ) -> Result<(), Fault> {
        for (index, step) in self.steps.iter().enumerate() {
            let at = self.at(index, block);
            tree::row(&at, self.mechanism.deviation(at.row), step, state, scratch)?;
            sink.write(index, &scratch.rows[0]);
        }
        Ok(())
    }
}
