//! Groups of rows that share each pass over their sources.

use crate::block::BLOCK;
use crate::dispatch::Active;
use crate::partial_sums::{CUT, CUT_ROWS, CutTiles, GROUP, Sums};
use crate::prefetch::NEXT_STATE_VALUES;
use crate::tile::{TILES, ZERO_TILE};
use std::ops::Range;

/// Least number of source rows that are in the cache before the first sum.
const FETCHED_BEFORE: u64 = (NEXT_STATE_VALUES / BLOCK) as u64;

/// Rows `first..first + rows` and their coefficients over source rows `oldest..first + rows`.
#[derive(Debug)]
pub(crate) struct RowGroup {
    pub first: u64,
    /// 1, 2, 4, 8 or 16.
    pub rows: usize,
    pub oldest: u64,
    /// `[(source − oldest)·rows + row − first]`; 0 where a source has no part in a row. Adding a zero product
    /// changes no bit but the sign of a zero, and no row ends as one (`validate`).
    coefficients: Vec<f32>,
}

impl RowGroup {
    /// Cuts rows `first..first + count` into groups. A row looks back at `reach` rows at most;
    /// `weight(row, source)` is called only for row − reach ≤ source ≤ row.
    pub fn cut(first: u64, count: usize, reach: u64, weight: impl Fn(u64, u64) -> f32) -> Vec<RowGroup> {
        let mut groups = Vec::new();
        let mut first = first;
        let mut left = count;
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

    pub fn end(&self) -> u64 {
        self.first + self.rows as u64
    }

    /// The coefficients of the sources from `source` on.
    pub fn coefficients_from(&self, source: u64) -> &[f32] {
        &self.coefficients[(source - self.oldest) as usize * self.rows..]
    }

    /// The row of the group after which partial sums are closed, if there is one: never two, as a group has at most
    /// 16 rows.
    pub fn closed_after(&self) -> Option<usize> {
        (0..self.rows).find(|&row| (self.first + row as u64) % CUT == CUT - 1)
    }

    /// Adds sources to the sums of K rows, in ascending order, all of one cut together: `tiles_of(rows, index, to)`
    /// puts the tile of each of some source rows, one cut at most, where they go.
    pub fn accumulate<'a, const K: usize>(
        &self,
        sums: &mut Sums,
        active: Active,
        sources: Range<u64>,
        index: usize,
        tiles_of: impl Fn(Range<u64>, usize, &mut CutTiles<'a>),
    ) {
        let cut = |source: u64| source..((source / CUT + 1) * CUT).min(sources.end);
        let mut now = [&ZERO_TILE; CUT_ROWS];
        let mut later = [&ZERO_TILE; CUT_ROWS];
        // Few enough sources were all fetched while the normals were made.
        let fetches = sources.end - sources.start > FETCHED_BEFORE;
        let mut at = cut(sources.start);
        if !at.is_empty() {
            tiles_of(at.clone(), index, &mut now);
        }
        while !at.is_empty() {
            let next = match index + 1 {
                _ if at.end < sources.end => (cut(at.end), index),
                next if next < TILES && fetches => (cut(sources.start), next),
                _ => (0..0, index),
            };
            if !next.0.is_empty() {
                tiles_of(next.0.clone(), next.1, &mut later);
            }
            let count = |rows: &Range<u64>| (rows.end - rows.start) as usize;
            let used = count(&at);
            let ahead = count(&next.0);
            let coefficients = &self.coefficients_from(at.start)[..used * K];
            active.accumulate::<K>(sums, at.end % CUT == 0, &now[..used], &later[..ahead], coefficients);
            at = if at.end < sources.end { next.0 } else { 0..0 };
            std::mem::swap(&mut now, &mut later);
        }
    }
}

/// total + partial of one row.
pub(crate) fn write_sum(sums: &Sums, active: Active, row: usize, to: &mut [[f32; 16]]) {
    match (sums.has_total, sums.has_partial) {
        (true, _) => to.copy_from_slice(&sums.total[row]),
        (false, true) => to.copy_from_slice(&sums.partial[row]),
        (false, false) => to.fill([0.0; 16]),
    }
    if sums.has_total && sums.has_partial {
        active.add(to.as_flattened_mut(), sums.partial[row].as_flattened());
    }
}
