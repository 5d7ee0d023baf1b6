//! One call of the generator on one block: some rows of one mechanism.

use super::decide::Values;
use super::family::{GridBanded, GridFamily, GridInverse};
use super::feedback::Whole;
use super::mechanism::GridMechanism;
use super::normals::Normals;
use super::settle::{BlockRow, Fault, Scratch};
use super::task::{GridSink, StatePart};
use super::tree;
use crate::Stream;
use crate::tree::{Step, steps};

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

impl<'a> Call<'a> {
    pub fn new(stream: &'a Stream, mechanism: &'a GridMechanism, first: u64, count: usize) -> Self {
        let steps = match mechanism.family() {
            GridFamily::Tree(tree) => steps(tree, first, count),
            _ => Vec::new(),
        };
        Self { stream, mechanism, first, count, steps }
    }

    pub fn scratch(&self) -> Scratch {
        match self.mechanism.family() {
            GridFamily::Inverse(_) => Scratch::new(self.count.min(INVERSE_ROWS)),
            _ => Scratch::new(0),
        }
    }

    /// Makes all rows of block `block`: `state` advances by them, `sink` gets them.
    pub fn run(
        &self,
        block: u64,
        state: StatePart<'_>,
        scratch: &mut Scratch,
        sink: &mut GridSink<'_, '_>,
    ) -> Result<(), Fault> {
        match (self.mechanism.family(), state) {
            (GridFamily::Blt { theta, omega }, StatePart::Floats(state)) => {
                self.blt(theta, omega, block, state, scratch, sink)
            }
            (GridFamily::Banded(banded), StatePart::Whole(state)) => {
                self.banded(banded, block, state, scratch, sink)
            }
            (GridFamily::Inverse(inverse), _) => self.inverse(inverse, block, scratch, sink),
            (GridFamily::Tree(_), StatePart::Whole(state)) => self.tree(block, state, scratch, sink),
            _ => self.identity(block, scratch, sink),
        }
    }

    fn at(&self, index: usize, block: u64) -> BlockRow<'_> {
        BlockRow { stream: self.stream, row: self.first + index as u64, block }
    }

    fn identity(&self, block: u64, scratch: &mut Scratch, sink: &mut GridSink<'_, '_>) -> Result<(), Fault> {
        for index in 0..self.count {
            let at = self.at(index, block);
            at.fresh(at.row, self.mechanism.deviation(at.row), scratch)?;
            sink.write(index, &scratch.n);
        }
        Ok(())
    }

    fn blt(
        &self,
        theta: &[f64],
        omega: &[f64],
        block: u64,
        state: &mut [Values],
        scratch: &mut Scratch,
        sink: &mut GridSink<'_, '_>,
    ) -> Result<(), Fault> {
        let active = self.stream.active();
        for index in 0..self.count {
            let at = self.at(index, block);
            active.grid_blt(omega, state, &mut scratch.f);
            at.fed_back(self.mechanism.deviation(at.row), scratch)?;
            active.grid_blt_advance(theta, state, &scratch.n);
            sink.write(index, &scratch.n);
        }
        Ok(())
    }

    /// Row t lies in slot t mod slots.
    fn banded(
        &self,
        banded: &GridBanded,
        block: u64,
        state: &mut [Whole],
        scratch: &mut Scratch,
        sink: &mut GridSink<'_, '_>,
    ) -> Result<(), Fault> {
        let active = self.stream.active();
        let slots = state.len() as u64;
        for index in 0..self.count {
            let at = self.at(index, block);
            let sources: Vec<(f64, &Whole)> = (1..)
                .zip(banded.lags(at.row))
                .map(|(back, &lag)| (lag, &state[((at.row - back) % slots) as usize]))
                .collect();
            active.grid_banded(&sources, &mut scratch.f);
            at.fed_back(self.mechanism.deviation(at.row), scratch)?;
            if slots > 0 {
                active.narrow_into(&mut state[(at.row % slots) as usize], &*scratch.n);
            }
            sink.write(index, &scratch.n);
        }
        Ok(())
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
                at.summed(s, &terms, &mut scratch.sums[index - first], &mut scratch.n)?;
                sink.write(index, &scratch.n);
            }
        }
        Ok(())
    }

    /// The approximate sums of rows `rows` of the call. Every source is drawn once for all of them.
    fn inverse_sums(
        &self,
        inverse: &GridInverse,
        rows: std::ops::Range<usize>,
        block: u64,
        scratch: &mut Scratch,
    ) {
        let row_of = |index: usize| self.first + index as u64;
        let Scratch { normals, sums, .. } = scratch;
        let sums = &mut sums[..rows.len()];
        sums.fill_with(|| Normals::ZERO);
        for source in inverse.oldest(row_of(rows.start))..row_of(rows.end) {
            self.stream.fill_grid_block(source, block, normals);
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
        state: &mut [Whole],
        scratch: &mut Scratch,
        sink: &mut GridSink<'_, '_>,
    ) -> Result<(), Fault> {
        for (index, step) in self.steps.iter().enumerate() {
            let at = self.at(index, block);
            tree::row(&at, self.mechanism.deviation(at.row), step, state, scratch)?;
            sink.write(index, &scratch.n);
        }
        Ok(())
    }
}
