//! The i.i.d. streams that the rows of a plan are made of.

use std::ops::Range;

use crate::{Plan, Tree};

impl Plan {
    /// Returns the numbers of the streams of Z that belong to rows `steps`: the rows themselves, or of a tree the nodes
    /// that these rows complete, in order of completion. A row that completes its tree with virtual steps has
    /// their nodes too. Rows from n on have none.
    pub fn streams(&self, steps: Range<u64>) -> Range<u64> {
        let n = self.iterations();
        let start = steps.start.min(n);
        let end = steps.end.min(n);
        match self.tree() {
            None => start..end,
            Some(tree) => tree.first_stream(start)..tree.first_stream(end),
        }
    }
}

impl Tree {
    /// Returns the number of nodes completed before row `row`: the first stream that no row before it needs. `row` is
    /// at most the number of rows.
    pub fn first_stream(&self, row: u64) -> u64 {
        // L leaves complete 2L − popcount(L).
        let nodes = |leaves: u64| 2 * leaves - u64::from(leaves.count_ones());
        let at = self.segments.partition_point(|segment| segment.start <= row).saturating_sub(1);
        let segment = self.segments[at];
        let first = self.first_nodes()[at];
        let leaves = row - segment.start;
        // Only the very end lies past a tree's last row: the next tree starts where one ends.
        first + nodes(if leaves == segment.rows { leaves + segment.virtual_steps } else { leaves })
    }
}

#[cfg(test)]
mod tests {
    use crate::{Mechanism, Participation, Plan, PlanSpec};

    fn plan(mechanism: Mechanism) -> Plan {
        Plan::new(PlanSpec {
            chacha_rounds: 20,
            iterations: 12,
            noise_multiplier: 1.0,
            clip_norm: 1.0,
            participation: Participation { min_sep: 1, max_participations: 1 },
            mechanism,
            layout: None,
            grid: None,
        })
        .unwrap()
    }

    #[test]
    fn rows_are_their_own_streams() {
        assert_eq!(plan(Mechanism::Identity).streams(3..7), 3..7);
        assert_eq!(plan(Mechanism::Identity).streams(3..70), 3..12);
    }

    #[test]
    fn trees_have_nodes() {
        let tree = plan(Mechanism::Tree { restarts: vec![5, 9], completion: false });
        // 5 leaves complete 8 nodes, 4 complete 7, 3 complete 4.
        assert_eq!(tree.streams(0..12), 0..19);
        assert_eq!(tree.streams(0..4), 0..7);
        assert_eq!(tree.streams(3..5), 4..8);
        assert_eq!(tree.streams(5..9), 8..15);
        let complete = plan(Mechanism::Tree { restarts: vec![5, 9], completion: true });
        // The first tree is filled to 8 leaves, 15 nodes, by its last row.
        assert_eq!(complete.streams(4..5), 7..15);
        assert_eq!(complete.streams(0..12), 0..26);
    }
}
