//! Sensitivity of a tree for given sets of rounds: Σ over nodes of (participations below the node)².

use crate::error::Result;
use crate::tree::{Span, Tree, blocks};

/// The blocks of a run, each with the round it starts at, its level and its real leaves.
pub(crate) struct Blocks(Vec<(u64, u32)>);

impl Blocks {
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for an unusable number of rounds.
    pub(crate) fn of(tree: &Tree, n: u64) -> Result<Self> {
        let mut start = 0;
        let mut out = Vec::new();
        for (level, leaves) in tree.spans(n)?.into_iter().flat_map(|span: Span| blocks(span)) {
            out.push((start, level));
            start += leaves;
        }
        Ok(Self(out))
    }

    /// Σ_nodes count² for ascending `rounds` below n. Counts are never negative, so a set is as bad as its
    /// subsets and contributions that agree in sign are the worst.
    pub(crate) fn squared(&self, rounds: &[u64]) -> u64 {
        let mut total = 0;
        let mut rest = rounds;
        for (index, &(start, level)) in self.0.iter().enumerate() {
            let end = self.0.get(index + 1).map_or(u64::MAX, |next| next.0);
            let (here, later) = rest.split_at(rest.partition_point(|r| *r < end));
            rest = later;
            for l in 0..=level {
                let nodes = here.chunk_by(|a, b| (a - start) >> l == (b - start) >> l);
                total += nodes.map(|node| (node.len() as u64).pow(2)).sum::<u64>();
            }
        }
        total
    }
}
