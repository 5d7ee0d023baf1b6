//! Cyclic Poisson sampling.

use crate::assignment::{Assignment, Window};
use crate::draws::RecordDraws;
use crate::poisson::Poisson;
use crate::seed::Keys;
use crate::source::Source;

/// Groups drawn for each record independently: all records are sampled, and those of the round's group are kept. The group
/// of a record is drawn again when needed, never stored; a round costs p times its batch.
pub(crate) struct Independent {
    poisson: Poisson,
    groups: RecordDraws,
    bands: u64,
}

impl Independent {
    pub fn new(keys: &Keys, bands: u64, q: f64, count: u64) -> Self {
        let groups = RecordDraws::new(&keys.derive("slot"), keys.derive("slot again"));
        Self { poisson: Poisson::new(keys, q, count), groups, bands }
    }
}

impl Source for Independent {
    fn batch(&mut self, round: u64) -> Vec<u64> {
        let Self { poisson, groups, bands } = self;
        poisson.chosen(round).filter(|&record| groups.below(record, *bands) == round % *bands).collect()
    }
}

/// Groups of one size: the members of the round's group are sampled.
pub(crate) struct EqualSplit<A> {
    poisson: Poisson,
    groups: Window<A>,
}

impl<A: Assignment> EqualSplit<A> {
    pub fn new(keys: &Keys, q: f64, count: u64, groups: Window<A>) -> Self {
        Self { poisson: Poisson::new(keys, q, count), groups }
    }
}

impl<A: Assignment> Source for EqualSplit<A> {
    fn batch(&mut self, round: u64) -> Vec<u64> {
        let members = self.groups.members(round);
        self.poisson.chosen_of(round, members.len() as u64).map(|index| members[index as usize]).collect()
    }
}
