//! Weighted sums over earlier rows, for several rows of the result at once.
//!
//! The sum for a row runs over source rows in ascending order and is cut into partial sums at multiples of 32
//! source rows, which keeps rounding small. The cuts depend on the source row alone, so neighbouring rows can
//! share each pass over the sources and still get the bits they would get one at a time.

use crate::block::{Block, ZERO_BLOCK};
use crate::dispatch::Active;
use std::ops::Range;

/// Rows that share a pass over the sources, at most.
pub(crate) const GROUP: usize = 8;
/// A partial sum is closed after every source row h with h % 32 = 31.
const CUT: u64 = 32;
/// Sources taken together, so that a sum is loaded and stored once for all of them.
const TOGETHER: usize = 8;

/// Rows `first..first + rows` and their coefficients over source rows `oldest..first + rows`.
#[derive(Debug)]
pub(crate) struct RowGroup {
    pub first: u64,
    /// 1, 2, 4 or 8.
    pub rows: usize,
    pub oldest: u64,
    /// `[(source − oldest)·rows + row − first]`; 0 where a source has no part in a row. Adding a zero product
    /// changes no bit: a partial sum starts at +0 and so is never −0.
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

    /// The coefficients of `sources` neighbouring sources from `source` on.
    pub fn coefficients(&self, source: u64, sources: usize) -> &[f32] {
        let at = (source - self.oldest) as usize * self.rows;
        &self.coefficients[at..at + sources * self.rows]
    }
}

/// Running sums of up to [`GROUP`] rows for one block.
pub(crate) struct Sums {
    pub total: [Block; GROUP],
    pub partial: [Block; GROUP],
}

impl Sums {
    pub fn new() -> Box<Self> {
        Box::new(Self { total: [ZERO_BLOCK; GROUP], partial: [ZERO_BLOCK; GROUP] })
    }

    pub fn clear(&mut self, rows: usize) {
        self.total[..rows].fill(ZERO_BLOCK);
        self.partial[..rows].fill(ZERO_BLOCK);
    }

    /// Adds sources, in ascending order. Source h lies in `ring[h % ring.len()]`.
    pub fn add(&mut self, active: Active, group: &RowGroup, sources: Range<u64>, ring: &[Block]) {
        match group.rows {
            1 => self.add_rows::<1>(active, group, sources, ring),
            2 => self.add_rows::<2>(active, group, sources, ring),
            4 => self.add_rows::<4>(active, group, sources, ring),
            _ => self.add_rows::<8>(active, group, sources, ring),
        }
    }

    fn add_rows<const K: usize>(
        &mut self,
        active: Active,
        group: &RowGroup,
        sources: Range<u64>,
        ring: &[Block],
    ) {
        let slot = |source: u64| (source % ring.len() as u64) as usize;
        let mut source = sources.start;
        while source < sources.end {
            let cut = (source / CUT + 1) * CUT;
            let stop = cut.min(sources.end);
            let Some(partial) = self.partial.first_chunk_mut::<K>() else { return };
            while stop - source >= TOGETHER as u64 {
                let slots: [usize; TOGETHER] = std::array::from_fn(|u| slot(source + u as u64));
                let factors = group.coefficients(source, TOGETHER);
                active.accumulate::<K, TOGETHER>(partial, ring, &slots, factors);
                source += TOGETHER as u64;
            }
            while source < stop {
                active.accumulate::<K, 1>(partial, ring, &[slot(source)], group.coefficients(source, 1));
                source += 1;
            }
            if stop == cut {
                self.close(active, 0..K);
            }
        }
    }

    /// Closes the partial sums of some rows if `source` is the last before a cut.
    pub fn close_after(&mut self, active: Active, source: u64, rows: Range<usize>) {
        if source % CUT == CUT - 1 {
            self.close(active, rows);
        }
    }

    fn close(&mut self, active: Active, rows: Range<usize>) {
        for (total, partial) in self.total[rows.clone()].iter_mut().zip(&mut self.partial[rows]) {
            active.add(total, partial);
            *partial = ZERO_BLOCK;
        }
    }
}
