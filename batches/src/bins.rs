//! Assignments of slots: independent for each record, of one size, or several in each epoch.

use crate::assignment::Assignment;
use crate::draws::RecordDraws;
use crate::seed::{Key, Keys};

/// One slot for each record, drawn independently, the same in every epoch.
pub(crate) struct Uniform {
    keys: Keys,
    slots: u64,
    count: u64,
}

impl Uniform {
    pub fn new(keys: &Keys, slots: u64, count: u64) -> Self {
        Self { keys: keys.clone(), slots, count }
    }
}

impl Assignment for Uniform {
    fn slots(&self) -> u64 {
        self.slots
    }

    fn size(&self) -> u64 {
        self.count / self.slots
    }

    fn anew_every_epoch(&self) -> bool {
        false
    }

    fn visit(&self, _epoch: u64, visit: &mut dyn FnMut(u64, u64)) {
        let mut draws = RecordDraws::new(&self.keys.derive("slot"), self.keys.derive("slot again"));
        (0..self.count).for_each(|record| visit(record, draws.below(record, self.slots)));
    }
}

/// Slots of one size, the first ones larger by one where the records don't divide; every such split is equally likely. It
/// draws without replacement: a record gets a slot with probability proportional to the places left in it. It keeps one
/// number for each slot.
pub(crate) struct WithoutReplacement {
    key: Key,
    slots: u64,
    count: u64,
}

impl WithoutReplacement {
    pub fn new(keys: &Keys, slots: u64, count: u64) -> Self {
        Self { key: keys.derive("split"), slots, count }
    }
}

impl Assignment for WithoutReplacement {
    fn slots(&self) -> u64 {
        self.slots
    }

    fn size(&self) -> u64 {
        self.count.div_ceil(self.slots)
    }

    fn anew_every_epoch(&self) -> bool {
        false
    }

    fn visit(&self, _epoch: u64, visit: &mut dyn FnMut(u64, u64)) {
        let mut draws = self.key.draws(0);
        // Slots past the number of records are empty.
        let slots = self.slots.min(self.count);
        let mut places =
            Places::new((0..slots).map(|s| self.count / slots + u64::from(s < self.count % slots)));
        for record in 0..self.count {
            visit(record, places.take(draws.below(self.count - record)));
        }
    }
}

/// The places left in each slot, as sums over stretches of slots (a Fenwick tree).
struct Places(Vec<u64>);

impl Places {
    fn new(sizes: impl Iterator<Item = u64>) -> Self {
        let mut sums: Vec<u64> = std::iter::once(0).chain(sizes).collect();
        for at in 1..sums.len() {
            let above = at + (at & at.wrapping_neg());
            if above < sums.len() {
                sums[above] += sums[at];
            }
        }
        Self(sums)
    }

    /// Takes place number `place` of all that are left; returns the slot that it was in.
    fn take(&mut self, mut place: u64) -> u64 {
        let mut at = 0;
        let mut step = self.0.len().next_power_of_two();
        while step > 0 {
            match self.0.get_mut(at + step) {
                Some(sum) if *sum <= place => {
                    place -= *sum;
                    at += step;
                }
                // The place is in this stretch, which now has one fewer.
                Some(sum) => *sum -= 1,
                None => {}
            }
            step /= 2;
        }
        at as u64
    }
}

/// k slots of every epoch for each record, where all subsets of that size are equally likely. Epoch e comes from stream e.
pub(crate) struct Allocation {
    key: Key,
    slots: u64,
    participations: u64,
    count: u64,
}

impl Allocation {
    pub fn new(keys: &Keys, slots: u64, participations: u64, count: u64) -> Self {
        Self { key: keys.derive("allocation"), slots, participations, count }
    }
}

impl Assignment for Allocation {
    fn slots(&self) -> u64 {
        self.slots
    }

    fn size(&self) -> u64 {
        (u128::from(self.count) * u128::from(self.participations) / u128::from(self.slots)) as u64
    }

    fn anew_every_epoch(&self) -> bool {
        true
    }

    fn visit(&self, epoch: u64, visit: &mut dyn FnMut(u64, u64)) {
        let mut draws = self.key.draws(epoch);
        let mut chosen = Vec::new();
        for record in 0..self.count {
            draws.subset(self.participations, self.slots, &mut chosen);
            chosen.iter().for_each(|&slot| visit(record, slot));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_taken_once() {
        let sizes = [3, 0, 2, 5, 1, 1, 4];
        let mut places = Places::new(sizes.into_iter());
        let mut taken = [0; 7];
        for left in (1..=16).rev() {
            taken[places.take((left * 7 + 3) % left) as usize] += 1;
        }
        assert_eq!(taken, sizes);
        // Slot by slot, the place decides.
        let slots: Vec<u64> = (0..16).map(|place| Places::new(sizes.into_iter()).take(place)).collect();
        assert_eq!(slots, [0, 0, 0, 2, 2, 3, 3, 3, 3, 3, 4, 5, 6, 6, 6, 6]);
    }
}
