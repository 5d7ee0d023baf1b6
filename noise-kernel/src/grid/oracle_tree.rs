//! The tree's estimates by their definition, node by node, in whole numbers.

use plan::{Tree, TreeSegment};

/// One row of a tree, with the values of nodes from `node`, a function of the row and the node's stream.
pub(crate) struct TreeSource<'a, N> {
    tree: &'a Tree,
    row: u64,
    node: N,
}

impl<'a, E, N: Fn(u64, u64) -> Result<i32, E>> TreeSource<'a, N> {
    pub fn new(tree: &'a Tree, row: u64, node: N) -> Self {
        Self { tree, row, node }
    }

    /// The estimate of the largest subtree that ends with the row's leaf, or of the whole tree where it is completed, less
    /// what earlier rows have served of it.
    pub fn row(&self) -> Result<i64, E> {
        let index = self.tree.segments.iter().rposition(|s| s.start <= self.row).unwrap_or(0);
        let segment = self.tree.segments[index];
        let first_node = self.tree.first_nodes()[index];
        let leaf = self.row - segment.start;
        let (level, number) =
            completed_root(segment, leaf).unwrap_or((leaf.trailing_ones(), leaf >> leaf.trailing_ones()));
        let mut value = self.estimate(first_node, level, number)?;
        for l in (0..level).filter(|l| leaf >> l & 1 == 1) {
            value -= self.estimate(first_node, l, (leaf >> l) - 1)?;
        }
        Ok(value)
    }

    /// The estimate of the sum over the leaves of the `number`-th subtree of 2^`level` leaves.
    fn estimate(&self, first_node: u64, level: u32, number: u64) -> Result<i64, E> {
        let last_leaf = ((number + 1) << level) - 1;
        let completed_before: u64 = (0..last_leaf).map(|leaf| 1 + u64::from(leaf.trailing_ones())).sum();
        let own = i64::from((self.node)(self.row, first_node + completed_before + u64::from(level))?);
        if level == 0 {
            return Ok(own);
        }
        let left = self.estimate(first_node, level - 1, 2 * number)?;
        let right = self.estimate(first_node, level - 1, 2 * number + 1)?;
        let lower = left + right;
        let weight = 2f64.powi(level as i32) / (2f64.powi(level as i32 + 1) - 1.0);
        Ok(lower + (weight * (own - lower) as f64).round_ties_even() as i64)
    }
}

/// (level, number) of the root if this leaf is the last of a tree that is completed.
fn completed_root(segment: TreeSegment, leaf: u64) -> Option<(u32, u64)> {
    let completed = segment.virtual_steps > 0 && leaf + 1 == segment.rows;
    completed.then(|| ((segment.rows + segment.virtual_steps).trailing_zeros(), 0))
}
