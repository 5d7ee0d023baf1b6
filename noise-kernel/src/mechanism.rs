//! One call of the generator on one block: some rows of one mechanism.

use crate::Stream;
use crate::block::{Block, ZERO_BLOCK};
use crate::blt::Blt;
use crate::parallel::Sink;
use crate::partial_sums::{GROUP, Sums};
use crate::row_group::{RowGroup, write_sum};
use crate::tile::{CHUNKS, Ring, TILES, chunks_mut, tile};
use crate::tree;
use crate::triangular::TriangularSystem;
use plan::{BandRows, Banded, Coefficients, Inverse};

/// Rows of a BLT made together: few enough for their places, the rows themselves and the buffers to share the first
/// level cache.
const BLT_ROWS: usize = 4;

/// Rows `first..first + count`, the same for every block.
pub(crate) struct Call<'a> {
    stream: &'a Stream,
    first: u64,
    count: usize,
    work: Work<'a>,
}

enum Work<'a> {
    Identity,
    Blt { blt: Blt<'a>, output_scale: &'a [f32] },
    Banded { banded: &'a Banded, groups: Vec<RowGroup> },
    Inverse { groups: Vec<RowGroup>, kept: bool },
    Tree(Vec<tree::Step>),
}

/// Working space of one thread.
pub(crate) struct Scratch {
    rows: Vec<Block>,
    sums: Box<Sums>,
    /// The rows of an inverse mechanism, while `rows` are still needed as sources.
    results: Vec<Block>,
    /// Source rows drawn again, row h in slot h % length.
    drawn: Vec<Block>,
    tree: Box<tree::Scratch>,
}

impl<'a> Call<'a> {
    /// Prepares a call; the coefficients have been checked and have these rows. With `kept` the state of an inverse
    /// mechanism holds its past normals.
    pub fn new(
        stream: &'a Stream,
        coefficients: &'a Coefficients,
        first: u64,
        count: usize,
        kept: bool,
    ) -> Self {
        let work = match coefficients {
            Coefficients::Identity => Work::Identity,
            Coefficients::Blt { theta, omega, output_scale } => {
                Work::Blt { blt: Blt { theta, omega }, output_scale }
            }
            Coefficients::Banded(banded) => {
                let weight = |row: u64, source: u64| lag(banded, row, (row - source) as usize);
                let groups = RowGroup::cut(first, count, banded.bands as u64 - 1, weight);
                Work::Banded { banded, groups }
            }
            Coefficients::Inverse(inverse) => {
                let reach = match inverse {
                    Inverse::Toeplitz { coefficients } => coefficients.len() as u64 - 1,
                    Inverse::Dense { .. } => first + count as u64 - 1,
                };
                let groups =
                    RowGroup::cut(first, count, reach, |row, source| inverse_at(inverse, row, source));
                Work::Inverse { groups, kept }
            }
            Coefficients::Tree(tree) => Work::Tree(tree::steps(tree, first, count)),
        };
        Self { stream, first, count, work }
    }

    pub fn scratch(&self) -> Scratch {
        let group = self.count.min(GROUP);
        let (results, drawn) = match &self.work {
            Work::Inverse { groups, kept } => {
                let reach = groups.iter().map(|g| g.first - g.oldest).max().unwrap_or(0);
                (group, if *kept { 0 } else { reach as usize + GROUP })
            }
            _ => (0, 0),
        };
        Scratch {
            rows: vec![ZERO_BLOCK; group],
            sums: Sums::new(),
            results: vec![ZERO_BLOCK; results],
            drawn: vec![ZERO_BLOCK; drawn],
            tree: Box::new(tree::Scratch::new()),
        }
    }

    /// Makes all rows of block `block`: `state` advances by them, `sink` gets them.
    pub fn run(&self, block: u64, state: &mut [Block], scratch: &mut Scratch, sink: &mut Sink<'_, '_>) {
        match &self.work {
            Work::Identity => self.identity(block, scratch, sink),
            Work::Blt { blt, output_scale } => self.blt(*blt, output_scale, block, state, scratch, sink),
            Work::Banded { banded, groups } => {
                for group in groups {
                    match group.rows {
                        1 => self.banded::<1>(banded, group, block, state, scratch, sink),
                        2 => self.banded::<2>(banded, group, block, state, scratch, sink),
                        4 => self.banded::<4>(banded, group, block, state, scratch, sink),
                        8 => self.banded::<8>(banded, group, block, state, scratch, sink),
                        _ => self.banded::<16>(banded, group, block, state, scratch, sink),
                    }
                }
            }
            Work::Inverse { groups, kept } => {
                for group in groups {
                    let past = if *kept { PastSource::Kept(&mut *state) } else { PastSource::Drawn };
                    match group.rows {
                        1 => self.inverse::<1>(group, block, past, scratch, sink),
                        2 => self.inverse::<2>(group, block, past, scratch, sink),
                        4 => self.inverse::<4>(group, block, past, scratch, sink),
                        8 => self.inverse::<8>(group, block, past, scratch, sink),
                        _ => self.inverse::<16>(group, block, past, scratch, sink),
                    }
                }
            }
            Work::Tree(steps) => scratch.tree.run(self.stream, steps, block, state, sink),
        }
    }

    fn identity(&self, block: u64, scratch: &mut Scratch, sink: &mut Sink<'_, '_>) {
        let normals = &mut scratch.rows[0];
        for row in 0..self.count {
            sink.prefetch(row);
            self.stream.fill_block(self.first + row as u64, block, normals);
            sink.write(row, normals);
        }
    }

    fn blt(
        &self,
        blt: Blt<'_>,
        output_scale: &[f32],
        block: u64,
        state: &mut [Block],
        scratch: &mut Scratch,
        sink: &mut Sink<'_, '_>,
    ) {
        for first in (0..self.count).step_by(BLT_ROWS) {
            let rows = &mut scratch.rows[..BLT_ROWS.min(self.count - first)];
            self.fill(first, block, rows, sink);
            self.stream.active().blt(blt, state, rows);
            for (j, row) in rows.iter_mut().enumerate() {
                self.scale_output(output_scale, self.first + (first + j) as u64, row);
                sink.write(first + j, row);
            }
        }
    }

    fn banded<const K: usize>(
        &self,
        banded: &Banded,
        group: &RowGroup,
        block: u64,
        state: &mut [Block],
        scratch: &mut Scratch,
        sink: &mut Sink<'_, '_>,
    ) {
        let active = self.stream.active();
        let Scratch { rows, sums, .. } = scratch;
        let rows = &mut rows[..K];
        self.fill((group.first - self.first) as usize, block, rows, sink);
        let solve = TriangularSystem::<K> {
            coefficients: group.coefficients_from(group.first),
            inverse_diagonal: std::array::from_fn(|j| inverse_diagonal(banded, group.first + j as u64)),
            closed_after: group.closed_after(),
        };
        let mut ring = Ring::new(state);
        for tile in 0..TILES {
            sums.clear();
            group.accumulate::<K>(sums, active, group.oldest..group.first, tile, |h, tile, to| {
                ring.tiles(h, tile, to)
            });
            active.solve::<K>(sums, &solve, tile, rows);
        }
        ring.keep(group.first, rows);
        for (j, row) in rows.iter_mut().enumerate() {
            let row_number = group.first + j as u64;
            self.scale_output(&banded.output_scale, row_number, row);
            sink.write((row_number - self.first) as usize, row);
        }
    }

    fn inverse<const K: usize>(
        &self,
        group: &RowGroup,
        block: u64,
        past: PastSource<'_>,
        scratch: &mut Scratch,
        sink: &mut Sink<'_, '_>,
    ) {
        let active = self.stream.active();
        let Scratch { rows, results, drawn, sums, .. } = scratch;
        let rows = &mut rows[..K];
        let results = &mut results[..K];
        self.fill((group.first - self.first) as usize, block, rows, sink);
        let mut ring = match past {
            PastSource::Kept(state) => Ring::new(state),
            PastSource::Drawn => {
                let mut ring = Ring::new(drawn);
                // Neighbouring groups share most of their past: the rows that the last one drew are still there.
                let from = if group.first == self.first { group.oldest } else { group.first };
                for source in from..group.first {
                    self.stream.fill_block(source, block, &mut results[0]);
                    ring.keep(source, &results[..1]);
                }
                ring
            }
        };
        for index in 0..TILES {
            sums.clear();
            let past = group.oldest..group.first;
            group.accumulate::<K>(sums, active, past, index, |h, index, to| ring.tiles(h, index, to));
            group.accumulate::<K>(sums, active, group.first..group.end(), index, |h, index, to| {
                let rows = &rows[(h.start - group.first) as usize..(h.end - group.first) as usize];
                to.iter_mut().zip(rows).for_each(|(to, row)| *to = tile(row, index));
            });
            for (j, result) in results.iter_mut().enumerate() {
                write_sum(sums, active, j, &mut chunks_mut(result)[index * CHUNKS..][..CHUNKS]);
            }
        }
        ring.keep(group.first, rows);
        let first = (group.first - self.first) as usize;
        results.iter().enumerate().for_each(|(j, row)| sink.write(first + j, row));
    }

    /// Multiplies row `number` by its output scale, where there are any.
    fn scale_output(&self, output_scale: &[f32], number: u64, row: &mut Block) {
        if let Some(&factor) = output_scale.get(number as usize) {
            let unscaled = *row;
            self.stream.active().scale_into(row, &unscaled, factor);
        }
    }

    /// Fills `rows` with the normals of rows of the call, from its `first`-th on.
    fn fill(&self, first: usize, block: u64, rows: &mut [Block], sink: &Sink<'_, '_>) {
        for (row, normals) in (first..).zip(rows) {
            sink.prefetch(row);
            let ahead = sink.ahead(row, self.count);
            self.stream.fill_block_and_fetch(self.first + row as u64, block, ahead, normals);
        }
    }
}

/// The source of an inverse mechanism's past normals.
enum PastSource<'a> {
    Kept(&'a mut [Block]),
    Drawn,
}

/// C[row, row − back] for 0 < back < bands; 0 on the diagonal, which has a place of its own.
fn lag(banded: &Banded, row: u64, back: usize) -> f32 {
    let index = match (&banded.rows, back) {
        (_, 0) => return 0.0,
        (BandRows::Toeplitz { .. }, _) => back - 1,
        (BandRows::PerRow { .. }, _) => row as usize * (banded.bands - 1) + back - 1,
    };
    let (BandRows::Toeplitz { lags, .. } | BandRows::PerRow { lags, .. }) = &banded.rows;
    lags[index]
}

fn inverse_diagonal(banded: &Banded, row: u64) -> f32 {
    match &banded.rows {
        BandRows::Toeplitz { inverse_diagonal, .. } => *inverse_diagonal,
        BandRows::PerRow { inverse_diagonal, .. } => inverse_diagonal[row as usize],
    }
}

/// C⁻¹[row, source] for source ≤ row within reach.
fn inverse_at(inverse: &Inverse, row: u64, source: u64) -> f32 {
    match inverse {
        Inverse::Toeplitz { coefficients } => coefficients[(row - source) as usize],
        Inverse::Dense { rows } => rows[(row * (row + 1) / 2 + source) as usize],
    }
}
