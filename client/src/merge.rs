//! The chunks that have arrived and those that are missing: pure, and independent of the order of arrival.

use proto::{CoordinateRange, RowRange, ServiceError};

use crate::Tile;

/// The reason why a chunk is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MergeError {
    /// The chunk is not part of the request.
    #[error("row {row}, coordinates {range}, was not requested")]
    NotRequested {
        /// The chunk's row.
        row: u64,
        /// The chunk's coordinates.
        range: CoordinateRange,
    },
    /// The chunk overlaps one that has arrived already.
    #[error("row {row}, coordinates {range}, overlaps what has arrived already")]
    Overlap {
        /// The chunk's row.
        row: u64,
        /// The chunk's coordinates.
        range: CoordinateRange,
    },
}

/// A worker that sends such a chunk is asked again, or another one is: the error is safe to retry.
impl From<MergeError> for ServiceError {
    fn from(error: MergeError) -> Self {
        ServiceError::Unavailable { what: format!("a sound answer ({error})") }
    }
}

/// The coordinates of each row of one request that have arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assembly {
    whole: Tile,
    rows: Vec<Coverage>,
}

impl Assembly {
    /// Returns an assembly of `whole` to which nothing has arrived.
    pub fn new(whole: Tile) -> Self {
        Self { whole, rows: vec![Coverage::default(); whole.rows.len() as usize] }
    }

    /// Records the arrival of a piece of a row, or refuses it and stays unchanged.
    pub fn accept(&mut self, row: u64, range: CoordinateRange) -> Result<(), MergeError> {
        if !self.whole.rows.as_range().contains(&row) || !self.whole.range.contains(&range) {
            return Err(MergeError::NotRequested { row, range });
        }
        let coverage = &mut self.rows[(row - self.whole.rows.start) as usize];
        if coverage.insert(range) { Ok(()) } else { Err(MergeError::Overlap { row, range }) }
    }

    /// Returns whether every coordinate of every row has arrived.
    pub fn is_complete(&self) -> bool {
        self.rows.iter().all(|row| row.ranges == [self.whole.range])
    }

    /// Returns the rest of `tile` that has not arrived: one rectangle for each run of rows with the same gap.
    pub fn gaps(&self, tile: Tile) -> Vec<Tile> {
        let mut found: Vec<Tile> = Vec::new();
        let mut run: Option<(RowRange, Vec<CoordinateRange>)> = None;
        let rows = tile.rows.start.max(self.whole.rows.start)..tile.rows.end.min(self.whole.rows.end);
        for row in rows {
            let gaps = self.rows[(row - self.whole.rows.start) as usize].gaps(tile.range);
            match &mut run {
                Some((rows, same)) if *same == gaps => rows.end = row + 1,
                _ => {
                    let ended = run.replace((RowRange { start: row, end: row + 1 }, gaps));
                    found.extend(rectangles(ended));
                }
            }
        }
        found.extend(rectangles(run));
        found
    }

    /// Returns the coordinates that some row still lacks.
    pub fn missing_ranges(&self) -> Vec<CoordinateRange> {
        let gaps = self.rows.iter().flat_map(|row| row.gaps(self.whole.range));
        CoordinateRange::joined(gaps.collect())
    }
}

fn rectangles(run: Option<(RowRange, Vec<CoordinateRange>)>) -> impl Iterator<Item = Tile> {
    run.into_iter().flat_map(|(rows, gaps)| gaps.into_iter().map(move |range| Tile { rows, range }))
}

/// The coordinates of one row that have arrived: sorted ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Coverage {
    ranges: Vec<CoordinateRange>,
}

impl Coverage {
    /// Adds `range`; false, and unchanged, where it overlaps what is there.
    fn insert(&mut self, range: CoordinateRange) -> bool {
        let at = self.ranges.partition_point(|held| held.end <= range.start);
        if self.ranges.get(at).is_some_and(|next| next.start < range.end) {
            return false;
        }
        let mut from = at;
        let mut to = at;
        let mut merged = range;
        if let Some(before) = at.checked_sub(1).filter(|&before| self.ranges[before].end == range.start) {
            (from, merged.start) = (before, self.ranges[before].start);
        }
        if let Some(next) = self.ranges.get(at).filter(|next| next.start == range.end) {
            (to, merged.end) = (at + 1, next.end);
        }
        self.ranges.splice(from..to, [merged]);
        true
    }

    fn gaps(&self, within: CoordinateRange) -> Vec<CoordinateRange> {
        let mut gaps = Vec::new();
        let mut next = within.start;
        for held in &self.ranges {
            gaps.extend(CoordinateRange::new(next, held.start.min(within.end)).ok());
            next = next.max(held.end);
        }
        gaps.extend(CoordinateRange::new(next, within.end).ok());
        gaps
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(start: u64, end: u64) -> CoordinateRange {
        CoordinateRange { start, end }
    }

    fn whole() -> Tile {
        Tile { rows: RowRange { start: 5, end: 9 }, range: range(100, 200) }
    }

    /// Cuts the whole into pieces at the given places and shuffles them.
    fn pieces() -> impl Strategy<Value = Vec<(u64, CoordinateRange)>> {
        prop::collection::vec(prop::collection::btree_set(101u64..200, 0..6), 4)
            .prop_map(|cuts| {
                let rows = (5u64..).zip(cuts);
                rows.flat_map(|(row, cuts)| {
                    let bounds: Vec<u64> = std::iter::once(100).chain(cuts).chain([200]).collect();
                    bounds.windows(2).map(|pair| (row, range(pair[0], pair[1]))).collect::<Vec<_>>()
                })
                .collect::<Vec<_>>()
            })
            .prop_shuffle()
    }

    proptest! {
        #[test]
        fn any_order_completes_and_each_piece_counts_once(pieces in pieces()) {
            let mut assembly = Assembly::new(whole());
            for &(row, range) in &pieces {
                prop_assert!(!assembly.is_complete());
                prop_assert_eq!(assembly.accept(row, range), Ok(()));
                prop_assert_eq!(assembly.accept(row, range), Err(MergeError::Overlap { row, range }));
            }
            prop_assert!(assembly.is_complete());
            prop_assert!(assembly.gaps(whole()).is_empty() && assembly.missing_ranges().is_empty());
        }

        #[test]
        fn gaps_are_exactly_what_has_not_arrived(pieces in pieces(), taken in 0usize..20) {
            let (arrived, absent) = pieces.split_at(taken.min(pieces.len()));
            let mut assembly = Assembly::new(whole());
            for &(row, range) in arrived {
                assembly.accept(row, range).unwrap();
            }
            let cells = |row: u64, range: CoordinateRange| range.as_range().map(move |at| (row, at));
            let mut named: Vec<_> = assembly
                .gaps(whole())
                .iter()
                .flat_map(|gap| gap.rows.as_range().flat_map(|row| cells(row, gap.range)).collect::<Vec<_>>())
                .collect();
            named.sort();
            let mut expected: Vec<_> = absent.iter().flat_map(|&(row, range)| cells(row, range)).collect();
            expected.sort();
            prop_assert_eq!(named, expected);
            let missing: u64 = assembly.missing_ranges().iter().map(CoordinateRange::len).sum();
            let columns: std::collections::BTreeSet<_> =
                absent.iter().flat_map(|(_, range)| range.as_range()).collect();
            prop_assert_eq!(missing, columns.len() as u64);
        }
    }

    #[test]
    fn what_was_not_asked_for_is_refused() {
        let mut assembly = Assembly::new(whole());
        for (row, range) in
            [(4, range(100, 110)), (9, range(100, 110)), (5, range(99, 110)), (5, range(190, 201))]
        {
            assert_eq!(assembly.accept(row, range), Err(MergeError::NotRequested { row, range }));
        }
        assert_eq!(assembly, Assembly::new(whole()));
    }

    #[test]
    fn a_broken_stream_leaves_two_rectangles() {
        let mut assembly = Assembly::new(whole());
        assembly.accept(5, range(100, 200)).unwrap();
        assembly.accept(6, range(100, 140)).unwrap();
        let row = |start, end| RowRange { start, end };
        let expected = [
            Tile { rows: row(6, 7), range: range(140, 200) },
            Tile { rows: row(7, 9), range: range(100, 200) },
        ];
        assert_eq!(assembly.gaps(whole()), expected);
    }
}
