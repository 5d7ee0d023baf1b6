//! The exact sensitivity of a tree: dynamic programming over complete blocks.
//!
//! For a block of 2^l leaves, a first allowed leaf and a number of participations, only two things about a
//! pattern matter: the sum over the block's nodes and how soon the next participation may be. The Pareto list
//! of those is kept, two halves are joined, and the blocks of the run are chained. A block no longer than
//! min_sep holds at most one participation, and the earliest is the best: so few states are ever visited.
//!
//! Where there is room for many participations, states are many all the same: up to n² of them for a min_sep of 1. So
//! the search has a budget, and where it is spent `bound` takes over.

use std::collections::HashMap;
use std::rc::Rc;

use super::Span;
use crate::participation::Participation;

/// (Σ over nodes of squared counts, first allowed leaf after it, in block coordinates).
type Entry = (u64, u64);
/// Pareto lists by number of participations.
type Table = Vec<Vec<Entry>>;

/// Most entries made, 64 MiB were none dropped: a tenth of a second.
pub(super) const BUDGET: usize = 1 << 22;

struct Search {
    gap: u64,
    most: usize,
    known: HashMap<(u32, u64, u64), Rc<Table>>,
    /// Entries that may still be made.
    budget: usize,
}

/// The largest Σ_nodes count² over patterns allowed by `rule` in a chain of trees; none where that takes more than
/// `budget` entries.
pub(super) fn maximum(spans: &[Span], rule: Participation, budget: usize) -> Option<u64> {
    let rounds: u64 = spans.iter().map(|s| s.rounds).sum();
    // A pattern of so many participations alone has more entries.
    let most = usize::try_from(rule.in_rounds(rounds)).ok().filter(|most| *most <= budget)?;
    let mut search = Search { gap: rule.min_sep.min(rounds), most, known: HashMap::new(), budget };
    let mut table: Table = vec![vec![(0, 0)]];
    for (level, limit) in spans.iter().flat_map(|s| blocks(*s)) {
        table = search.chain(&table, level, limit)?;
    }
    table.iter().flatten().map(|e| e.0).max()
}

/// A span as complete blocks (level, real leaves): one block when completed, else its binary expansion.
pub(crate) fn blocks(span: Span) -> Vec<(u32, u64)> {
    if span.completed {
        return vec![(span.rounds.next_power_of_two().ilog2(), span.rounds)];
    }
    (0..64).rev().filter(|l| span.rounds >> l & 1 == 1).map(|l| (l, 1 << l)).collect()
}

impl Search {
    /// Appends one block with `limit` real leaves to a chain whose entries hold the first allowed leaf of it.
    fn chain(&mut self, table: &Table, level: u32, limit: u64) -> Option<Table> {
        let mut out: Table = Vec::new();
        for (count, list) in table.iter().enumerate() {
            for &(value, start) in list {
                let block = self.block(level, limit, start)?;
                for (more, entries) in block.iter().enumerate().take(self.most - count + 1) {
                    self.pay(entries.len())?;
                    let joined = entries.iter().map(|&(v, next)| (value + v, next - limit));
                    slot(&mut out, count + more).extend(joined);
                }
            }
        }
        Some(out.into_iter().map(pareto).collect())
    }

    fn pay(&mut self, entries: usize) -> Option<()> {
        self.budget = self.budget.checked_sub(entries)?;
        Some(())
    }

    /// The table of a complete block whose leaves from `limit` on are virtual, from leaf `start` on. Entries'
    /// second number is at least `limit`: no participation comes in between.
    fn block(&mut self, level: u32, limit: u64, start: u64) -> Option<Rc<Table>> {
        let size = 1 << level;
        if size <= self.gap || start >= limit {
            return Some(Rc::new(self.single(level, limit, start)));
        }
        let key = (level, limit, start);
        if let Some(known) = self.known.get(&key) {
            return Some(known.clone());
        }
        let table = Rc::new(self.join(level, limit, start)?);
        self.known.insert(key, table.clone());
        Some(table)
    }

    /// A block that can hold one participation at most: it counts once on each of level+1 nodes.
    fn single(&self, level: u32, limit: u64, start: u64) -> Table {
        let mut table = vec![vec![(0, start.max(limit))]];
        if start < limit {
            table.push(vec![(u64::from(level) + 1, (start + self.gap).max(limit))]);
        }
        table
    }

    fn join(&mut self, level: u32, limit: u64, start: u64) -> Option<Table> {
        let half = 1 << (level - 1);
        let left = self.block(level - 1, limit.min(half), start)?;
        let mut out: Table = Vec::new();
        for (first, list) in left.iter().enumerate() {
            for &(value, next) in list {
                let right = self.block(level - 1, limit.saturating_sub(half), next.saturating_sub(half))?;
                for (second, entries) in right.iter().enumerate().take(self.most - first + 1) {
                    self.pay(entries.len())?;
                    let count = first + second;
                    let root = (count as u64).pow(2);
                    // A right half of virtual leaves alone leaves the first allowed leaf where it was.
                    let ready = |n: u64| if limit <= half { next } else { n + half };
                    let joined = entries.iter().map(|&(v, n)| (value + v + root, ready(n)));
                    slot(&mut out, count).extend(joined);
                }
            }
        }
        Some(out.into_iter().map(pareto).collect())
    }
}

fn slot(table: &mut Table, index: usize) -> &mut Vec<Entry> {
    if table.len() <= index {
        table.resize(index + 1, Vec::new());
    }
    &mut table[index]
}

/// Keeps the entries that no other beats in both value and readiness.
fn pareto(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_unstable_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut soonest = u64::MAX;
    entries.retain(|e| {
        let keep = e.1 < soonest;
        soonest = soonest.min(e.1);
        keep
    });
    entries
}
