//! What one call of the generator does to one block: some rows of one mechanism.

use crate::Stream;
use crate::block::{Block, ZERO_BLOCK};
use crate::blt::Blt;
use crate::parallel::Sink;
use crate::sums::{GROUP, RowGroup, Sums};
use crate::tree;
use plan::{BandRows, Banded, Coefficients, Inverse};

/// Rows `first..first + count`, the same for every block.
pub(crate) struct Call<'a> {
    stream: &'a Stream,
    scale: f32,
    first: u64,
    count: usize,
    work: Work<'a>,
}

enum Work<'a> {
    Identity,
    Blt(Blt<'a>),
    Banded { banded: &'a Banded, groups: Vec<RowGroup> },
    Inverse { reach: u64, groups: Vec<RowGroup> },
    Tree(Vec<tree::Step>),
}

/// Working space of one thread.
pub(crate) struct Scratch {
    normals: Block,
    sums: Box<Sums>,
    /// Source rows drawn again, row h in slot h % length.
    drawn: Vec<Block>,
    tree: Box<tree::Scratch>,
}

impl<'a> Call<'a> {
    /// The coefficients have been checked and have these rows.
    pub fn new(
        stream: &'a Stream,
        coefficients: &'a Coefficients,
        scale: f32,
        first: u64,
        count: usize,
    ) -> Self {
        let work = match coefficients {
            Coefficients::Identity => Work::Identity,
            Coefficients::Blt { theta, omega } => Work::Blt(Blt { theta, omega, scale }),
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
                Work::Inverse { reach, groups }
            }
            Coefficients::Tree(tree) => Work::Tree(tree::steps(tree, first, count)),
        };
        Self { stream, scale, first, count, work }
    }

    pub fn scratch(&self) -> Scratch {
        let drawn = match &self.work {
            // No row looks back past row 0.
            Work::Inverse { reach, .. } => (*reach).min(self.first + self.count as u64) as usize + GROUP,
            _ => 0,
        };
        Scratch {
            normals: ZERO_BLOCK,
            sums: Sums::new(),
            drawn: vec![ZERO_BLOCK; drawn],
            tree: Box::new(tree::Scratch::new()),
        }
    }

    /// All rows of block `block`: `state` moves on by them, `sink` gets them.
    pub fn run(&self, block: u64, state: &mut [Block], scratch: &mut Scratch, sink: &mut Sink<'_, '_>) {
        match &self.work {
            Work::Identity => self.identity(block, sink),
            Work::Blt(blt) => self.blt(*blt, block, state, sink),
            Work::Banded { banded, groups } => {
                for group in groups {
                    self.banded(banded, group, block, state, scratch, sink);
                }
            }
            Work::Inverse { groups, .. } => self.inverse(groups, block, scratch, sink),
            Work::Tree(steps) => scratch.tree.run(self.stream, self.scale, steps, block, state, sink),
        }
    }

    fn identity(&self, block: u64, sink: &mut Sink<'_, '_>) {
        for row in 0..self.count {
            sink.write(row, |out| {
                self.stream.fill_block(self.first + row as u64, block, out);
                self.stream.active().scale(out, self.scale);
            });
        }
    }

    fn blt(&self, blt: Blt<'_>, block: u64, state: &mut [Block], sink: &mut Sink<'_, '_>) {
        for row in 0..self.count {
            sink.write(row, |out| {
                self.stream.fill_block(self.first + row as u64, block, out);
                self.stream.active().blt_row(blt, state, out);
            });
        }
    }

    fn banded(
        &self,
        banded: &Banded,
        group: &RowGroup,
        block: u64,
        state: &mut [Block],
        scratch: &mut Scratch,
        sink: &mut Sink<'_, '_>,
    ) {
        let active = self.stream.active();
        let Scratch { normals, sums, .. } = scratch;
        sums.clear(group.rows);
        sums.add(active, group, group.oldest..group.first, state);
        for j in 0..group.rows {
            let row = group.first + j as u64;
            self.stream.fill_block(row, block, normals);
            // The partial sum of row j turns into ŷ of row j, the last source of the rows after it.
            let (solved, later) = sums.partial.split_at_mut(j + 1);
            let y = &mut solved[j];
            active.solve(y, normals, &sums.total[j], inverse_diagonal(banded, row));
            let factors = &group.coefficients(row, 1)[j + 1..];
            for (partial, &factor) in later.iter_mut().zip(factors).take(banded.bands - 1) {
                active.add_product(partial, factor, y);
            }
            let output_scale = banded.output_scale.get(row as usize).copied().unwrap_or(1.0);
            sink.write((row - self.first) as usize, |out| {
                active.scale_twice(out, y, output_scale, self.scale);
            });
            if !state.is_empty() {
                state[(row % state.len() as u64) as usize] = *y;
            }
            sums.close_after(active, row, j + 1..group.rows);
        }
    }

    fn inverse(&self, groups: &[RowGroup], block: u64, scratch: &mut Scratch, sink: &mut Sink<'_, '_>) {
        let active = self.stream.active();
        let Scratch { sums, drawn, .. } = scratch;
        let mut next = 0;
        for group in groups {
            let end = group.first + group.rows as u64;
            for source in group.oldest.max(next)..end {
                let slot = (source % drawn.len() as u64) as usize;
                self.stream.fill_block(source, block, &mut drawn[slot]);
            }
            next = end;
            sums.clear(group.rows);
            sums.add(active, group, group.oldest..end, drawn);
            for j in 0..group.rows {
                sink.write((group.first - self.first) as usize + j, |out| {
                    active.sum(out, &sums.total[j], &sums.partial[j], self.scale);
                });
            }
        }
    }
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
