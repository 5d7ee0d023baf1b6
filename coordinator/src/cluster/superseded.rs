//! Leases that the ledger has given to others and that are served until their successors are ready. After a change of
//! layout there may be thousands, and every shard that is not ready looks up those that overlap it.

use proto::{CoordinateRange, Incarnation, WorkerId};

/// A lease as it was before the ledger gave its coordinates to others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SupersededLease {
    pub worker: WorkerId,
    pub process: Incarnation,
    pub shard: u32,
    pub range: CoordinateRange,
    pub epoch: u64,
}

/// The superseded leases of one job, ordered by the start of their range, then by age.
#[derive(Clone, Debug, Default)]
pub struct SupersededLeases {
    leases: Vec<SupersededLease>,
    /// An upper bound on the length of a lease, in coordinates: a lease that starts further back reaches no coordinate.
    longest: u64,
}

impl SupersededLeases {
    /// Adds leases.
    pub fn extend(&mut self, leases: impl IntoIterator<Item = SupersededLease>) {
        self.leases.extend(leases);
        self.leases.sort_by_key(|lease| lease.range.start);
        self.longest = self.leases.iter().map(|lease| lease.range.len()).max().unwrap_or(0);
    }

    pub fn retain(&mut self, keep: impl FnMut(&SupersededLease) -> bool) {
        self.leases.retain(keep);
    }

    pub fn clear(&mut self) {
        self.leases.clear();
    }

    pub fn iter(&self) -> impl Iterator<Item = &SupersededLease> {
        self.leases.iter()
    }

    pub fn len(&self) -> usize {
        self.leases.len()
    }

    pub fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// Returns the leases that overlap the range.
    pub fn over(&self, range: CoordinateRange) -> impl Iterator<Item = &SupersededLease> {
        let first = self
            .leases
            .partition_point(|lease| lease.range.start.saturating_add(self.longest) <= range.start);
        let near = self.leases[first..].iter().take_while(move |lease| lease.range.start < range.end);
        near.filter(move |lease| lease.range.intersection(&range).is_some())
    }
}

/// Returns whether any of these ranges, which are ordered and disjoint, overlaps the range.
pub fn is_any_over(ranges: &[CoordinateRange], range: CoordinateRange) -> bool {
    let first = ranges.partition_point(|it| it.end <= range.start);
    ranges.get(first).is_some_and(|it| it.start < range.end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn lease(shard: u32, range: CoordinateRange) -> SupersededLease {
        let worker = WorkerId::new("w").unwrap();
        SupersededLease { worker, process: Incarnation([1; 16]), shard, range, epoch: 1 }
    }

    fn a_range() -> impl Strategy<Value = CoordinateRange> {
        (0u64..60, 1u64..30).prop_map(|(start, len)| CoordinateRange { start, end: start + len })
    }

    proptest! {
        /// Leases of several layouts lie over each other in any way.
        #[test]
        fn what_lies_over_a_range_is_what_a_search_finds(
            ranges in prop::collection::vec(a_range(), 0..20),
            kept in prop::collection::vec(any::<bool>(), 20),
            searched_range in a_range(),
        ) {
            let mut leases = SupersededLeases::default();
            for (shard, range) in ranges.iter().enumerate() {
                leases.extend([lease(shard as u32, *range)]);
            }
            leases.retain(|lease| kept[lease.shard as usize]);
            let mut found: Vec<u32> = leases.over(searched_range).map(|lease| lease.shard).collect();
            found.sort_unstable();
            let searched: Vec<u32> = (0..ranges.len())
                .filter(|&at| kept[at] && ranges[at].intersection(&searched_range).is_some())
                .map(|at| at as u32)
                .collect();
            prop_assert_eq!(found, searched);
        }

        #[test]
        fn ranges_in_order_are_searched_like_any(
            cuts in prop::collection::btree_set(0u64..60, 2..20),
            kept in prop::collection::vec(any::<bool>(), 20),
            searched_range in a_range(),
        ) {
            let cuts: Vec<u64> = cuts.into_iter().collect();
            let all = cuts.windows(2).map(|cut| CoordinateRange { start: cut[0], end: cut[1] });
            let ranges: Vec<_> = all.zip(&kept).filter(|(_, kept)| **kept).map(|(range, _)| range).collect();
            let searched = ranges.iter().any(|range| range.intersection(&searched_range).is_some());
            prop_assert_eq!(is_any_over(&ranges, searched_range), searched);
        }
    }
}
