//! Honaker's bottom-up tree, served as the residual of each row.
//!
//! Slot l of the state holds the estimate E_l of the newest complete subtree of 2^l leaves that is a left child.

use crate::Stream;
use crate::block::{Block, ZERO_BLOCK};
use crate::parallel::Sink;
use plan::Tree;
use std::ops::RangeInclusive;

/// The place of one row in its tree.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// Number of the row's leaf in its tree, from 0.
    pub leaf: u64,
    /// Stream number of the tree's first node.
    first_node: u64,
    /// True for the last row of its tree.
    pub last: bool,
    /// Leaves without data that complete the tree after the last row.
    virtual_steps: u64,
}

impl Step {
    /// Numbers of the leaves that the row adds to its tree: its own, and those without data where they follow it.
    pub fn leaves(&self) -> RangeInclusive<u64> {
        self.leaf..=self.leaf + if self.last { self.virtual_steps } else { 0 }
    }

    /// True for the row that completes its tree by leaves without data.
    pub fn completes(&self) -> bool {
        self.last && self.virtual_steps > 0
    }

    /// Streams of a leaf and, by rising level, of the nodes that it completes.
    pub fn nodes(&self, leaf: u64) -> RangeInclusive<u64> {
        let node = self.first_node + 2 * leaf - u64::from(leaf.count_ones());
        node..=node + u64::from(leaf.trailing_ones())
    }
}

/// The steps of rows `first..first + count`. The tree has been checked and has these rows.
pub(crate) fn steps(tree: &Tree, first: u64, count: usize) -> Vec<Step> {
    let first_nodes = tree.first_nodes();
    let mut at = tree.segments.partition_point(|s| s.start + s.rows <= first);
    let mut steps = Vec::with_capacity(count);
    for row in first..first + count as u64 {
        let segment = tree.segments[at];
        let last = row + 1 == segment.start + segment.rows;
        steps.push(Step {
            leaf: row - segment.start,
            first_node: first_nodes[at],
            last,
            virtual_steps: segment.virtual_steps,
        });
        at += usize::from(last);
    }
    steps
}

/// Weights of a level-l node's own noise and of its children's sum.
pub(crate) fn weights(level: u32) -> (f32, f32) {
    let own = 2f64.powi(level as i32) / (2f64.powi(level as i32 + 1) - 1.0);
    (own as f32, (1.0 - own) as f32)
}

/// One block's working space.
pub(crate) struct Scratch {
    carry: Block,
    node: Block,
}

impl Scratch {
    pub fn new() -> Self {
        Self { carry: ZERO_BLOCK, node: ZERO_BLOCK }
    }

    /// Serves all `steps` for block `block`.
    pub fn run(
        &mut self,
        stream: &Stream,
        steps: &[Step],
        block: u64,
        state: &mut [Block],
        sink: &mut Sink<'_, '_>,
    ) {
        for (row, step) in steps.iter().enumerate() {
            let mut before = ZERO_BLOCK;
            if step.completes() {
                self.prefix(stream, state, step.leaf, &mut before);
            } else {
                self.prefix(stream, state, (1 << step.leaf.trailing_ones()) - 1, &mut before);
            }
            for leaf in step.leaves() {
                self.leaf(stream, step, leaf, block, state);
            }
            stream.active().difference(&mut self.node, &self.carry, &before);
            sink.write(row, &self.node);
            if step.last {
                state.fill(ZERO_BLOCK);
            }
        }
    }

    /// sum ← the estimates of the levels set in `levels`, from level 0 up.
    fn prefix(&self, stream: &Stream, state: &[Block], levels: u64, sum: &mut Block) {
        let set = |(level, _): &(usize, &Block)| levels >> level & 1 == 1;
        for (_, estimate) in state.iter().enumerate().filter(set) {
            stream.active().add(sum, estimate);
        }
    }

    /// Adds a leaf: `carry` becomes the estimate of the largest subtree it completes, and is kept.
    fn leaf(&mut self, stream: &Stream, step: &Step, leaf: u64, block: u64, state: &mut [Block]) {
        let nodes = step.nodes(leaf);
        stream.fill_block(*nodes.start(), block, &mut self.carry);
        for (level, node) in nodes.enumerate().skip(1) {
            stream.fill_block(node, block, &mut self.node);
            let left = &state[level - 1];
            stream.active().merge(&mut self.carry, weights(level as u32), &self.node, left);
        }
        if let Some(slot) = state.get_mut(leaf.trailing_ones() as usize) {
            *slot = self.carry;
        }
    }
}
