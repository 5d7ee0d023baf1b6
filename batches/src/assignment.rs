//! Schemes that give records slots: the members of as many slots at once as memory allows.

use std::ops::Range;

use crate::source::Source;

/// The most ids that are buffered of later batches, 2²² (32 MiB), beside those of one batch.
pub const MAX_BUFFERED_IDS: u64 = 1 << 22;

/// An assignment of records to the slots of an epoch; slot s is round s of the epoch.
pub(crate) trait Assignment {
    /// Returns the number of slots, which are the rounds of an epoch.
    fn slots(&self) -> u64;

    /// Returns about how many records a slot has.
    fn size(&self) -> u64;

    /// Returns whether every epoch is drawn anew; otherwise all epochs are alike.
    fn anew_every_epoch(&self) -> bool;

    /// Visits every (record, slot) of an epoch, records ascending.
    fn visit(&self, epoch: u64, visit: &mut dyn FnMut(u64, u64));
}

/// The members of some consecutive slots, from one pass over the records.
pub(crate) struct Window<A> {
    assignment: A,
    /// The number of slots that one pass fills.
    width: u64,
    epoch: u64,
    slots: Range<u64>,
    members: Vec<Vec<u64>>,
}

impl<A: Assignment> Window<A> {
    /// Prepares for as many consecutive rounds as will be read.
    pub fn new(assignment: A, rounds: u64) -> Self {
        // An empty list costs about as much as three ids.
        let width =
            (MAX_BUFFERED_IDS / (assignment.size() + 3)).clamp(1, assignment.slots().min(rounds).max(1));
        Self { assignment, width, epoch: 0, slots: 0..0, members: Vec::new() }
    }

    /// Returns the records that have the slot of a round, ascending.
    pub fn members(&mut self, round: u64) -> &[u64] {
        let slots = self.assignment.slots();
        let epoch = if self.assignment.anew_every_epoch() { round / slots } else { 0 };
        let slot = round % slots;
        if epoch != self.epoch || !self.slots.contains(&slot) {
            self.fill(epoch, slot..slots.min(slot + self.width));
        }
        &self.members[(slot - self.slots.start) as usize]
    }

    fn fill(&mut self, epoch: u64, slots: Range<u64>) {
        self.members.clear();
        self.members.resize((slots.end - slots.start) as usize, Vec::new());
        let members = &mut self.members;
        self.assignment.visit(epoch, &mut |record, slot| {
            if slots.contains(&slot) {
                members[(slot - slots.start) as usize].push(record);
            }
        });
        (self.epoch, self.slots) = (epoch, slots);
    }
}

impl<A: Assignment> Source for Window<A> {
    fn batch(&mut self, round: u64) -> Vec<u64> {
        self.members(round).to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Modulo<'a>(u64, &'a Cell<u32>);

    impl Assignment for Modulo<'_> {
        fn slots(&self) -> u64 {
            5
        }
        fn size(&self) -> u64 {
            self.0
        }
        fn anew_every_epoch(&self) -> bool {
            true
        }
        fn visit(&self, epoch: u64, visit: &mut dyn FnMut(u64, u64)) {
            self.1.set(self.1.get() + 1);
            (0..20).for_each(|record| visit(record, (record + epoch) % 5));
        }
    }

    #[test]
    fn windows_of_any_width_have_the_same_members() {
        for (size, rounds, passes) in
            [(1, 100, 4), (1, 2, 12), (MAX_BUFFERED_IDS / 2, 100, 20), (MAX_BUFFERED_IDS, 100, 20)]
        {
            let count = Cell::new(0);
            let mut window = Window::new(Modulo(size, &count), rounds);
            for round in 0..20 {
                let expected: Vec<u64> =
                    (0..20).filter(|record| (record + round / 5) % 5 == round % 5).collect();
                assert_eq!(window.members(round), expected, "{size} {rounds} {round}");
            }
            assert_eq!(count.get(), passes, "{size} {rounds}");
        }
    }
}
