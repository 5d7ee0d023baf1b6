//! Batches over an owner graph, in which every owner takes part rarely.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

use crate::owners::Owners;
use crate::poisson::Poisson;
use crate::seed::Keys;
use crate::source::Source;

/// The participation that no owner exceeds, and the size of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnerRule {
    pub batch_size: u64,
    pub min_sep: u64,
    pub max_participations: u64,
    pub records_per_batch: u64,
}

/// The rounds that an owner took part in so far.
#[derive(Debug, Clone, Copy, Default)]
struct Past {
    rounds: u64,
    last: u64,
    /// Its records in the last of them.
    records: u64,
}

/// When an owner, or a record, may join next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Turn {
    Now,
    In(u64),
    Never,
}

/// A record in the line of those that may join: first the least used ones, among them by the drawn order.
type InLine = Reverse<(u64, usize)>;

/// Greedy batches: of the records in line each joins if all of its owners may. It keeps 40 bytes for each record and 24 for
/// each owner.
pub(crate) struct ContributionBound {
    rule: OwnerRule,
    graph: Arc<Owners>,
    /// The places of records by their rank in the drawn order.
    order: Vec<usize>,
    line: BinaryHeap<InLine>,
    /// Records by the round before which one of their owners may not join.
    waiting: BTreeMap<u64, Vec<InLine>>,
    past: Vec<Past>,
}

impl ContributionBound {
    pub fn new(keys: &Keys, rule: OwnerRule, graph: Arc<Owners>) -> Self {
        let order = graph.shuffled(&keys.derive("owners"));
        let line = (0..order.len()).map(|rank| Reverse((0, rank))).collect();
        let past = vec![Past::default(); graph.count() as usize];
        Self { rule, graph, order, line, waiting: BTreeMap::new(), past }
    }

    fn turn(&self, owner: u32, round: u64) -> Turn {
        let OwnerRule { min_sep, max_participations, records_per_batch, .. } = self.rule;
        let Past { rounds, last, records } = self.past[owner as usize];
        let again = last.saturating_add(min_sep);
        if rounds == 0 || (last == round && records < records_per_batch) {
            Turn::Now
        } else if rounds >= max_participations {
            Turn::Never
        } else if again <= round {
            Turn::Now
        } else {
            Turn::In(again)
        }
    }

    /// Returns the turn of a record: the latest of its owners'.
    fn turn_of(&self, place: usize, round: u64) -> Turn {
        let owners = self.graph.owners_at(place).iter();
        owners.map(|owner| self.turn(*owner, round)).max().unwrap_or(Turn::Never)
    }

    fn join(&mut self, place: usize, round: u64) {
        for owner in self.graph.owners_at(place) {
            let past = &mut self.past[*owner as usize];
            *past = if past.rounds > 0 && past.last == round {
                Past { records: past.records + 1, ..*past }
            } else {
                Past { rounds: past.rounds + 1, last: round, records: 1 }
            };
        }
    }
}

impl Source for ContributionBound {
    fn batch(&mut self, round: u64) -> Vec<u64> {
        while let Some(first) = self.waiting.first_entry()
            && *first.key() <= round
        {
            self.line.extend(first.remove());
        }
        let mut batch = Vec::new();
        while (batch.len() as u64) < self.rule.batch_size
            && let Some(Reverse((uses, rank))) = self.line.pop()
        {
            let place = self.order[rank];
            match self.turn_of(place, round) {
                Turn::Now => {
                    self.join(place, round);
                    batch.push(self.graph.record_at(place));
                    let next = round.saturating_add(self.rule.min_sep);
                    self.waiting.entry(next).or_default().push(Reverse((uses + 1, rank)));
                }
                Turn::In(next) => self.waiting.entry(next).or_default().push(Reverse((uses, rank))),
                // An owner of it has had all of its rounds.
                Turn::Never => {}
            }
        }
        batch.sort_unstable();
        batch
    }

    /// Forms every batch before, as each depends on those before it.
    fn seek(&mut self, round: u64) {
        (0..round).for_each(|before| drop(self.batch(before)));
    }
}

/// Poisson sampling of the records that a bound on each owner's records has left.
pub(crate) struct BoundedPoisson {
    poisson: Poisson,
    kept: Vec<u64>,
}

impl BoundedPoisson {
    pub fn new(keys: &Keys, q: f64, group_size: u64, graph: &Owners) -> Self {
        let kept = graph.bounded(group_size, &keys.derive("owners"));
        Self { poisson: Poisson::new(keys, q, kept.len() as u64), kept }
    }
}

impl Source for BoundedPoisson {
    fn batch(&mut self, round: u64) -> Vec<u64> {
        self.poisson.chosen(round).map(|index| self.kept[index as usize]).collect()
    }
}
