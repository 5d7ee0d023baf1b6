//! Which worker holds which shard: pure, deterministic, and loath to move what runs.
//!
//! A move costs the shard a restore, so a shard stays where it is unless its worker is gone, or moving it evens out
//! the bytes by a good part of what is moved.

use std::collections::BTreeSet;

/// One shard to place. Workers are numbers 0..n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    pub bytes: u64,
    /// Who holds it and may keep it.
    pub holder: Option<usize>,
    /// It stays with its holder whatever the balance.
    pub is_pinned: bool,
}

/// The worker of each shard; `None` only for a shard that no worker may take. `may_take(shard, worker)` is asked for
/// every new placement, and not for shards that stay.
pub fn assign(
    workers: usize,
    shards: &[Shard],
    may_take: impl Fn(usize, usize) -> bool,
) -> Vec<Option<usize>> {
    let mut plan = Plan::keeping(workers, shards);
    plan.place_the_rest(&may_take);
    while plan.move_one(&may_take) {}
    plan.owners
}

struct Plan<'a> {
    shards: &'a [Shard],
    owners: Vec<Option<usize>>,
    load: Vec<u128>,
    /// (load, worker), the emptiest first.
    by_load: BTreeSet<(u128, usize)>,
    /// What of each worker's may move.
    movable: Vec<BTreeSet<usize>>,
}

impl<'a> Plan<'a> {
    fn keeping(workers: usize, shards: &'a [Shard]) -> Self {
        let by_load = (0..workers).map(|worker| (0, worker)).collect();
        let (load, movable) = (vec![0; workers], vec![BTreeSet::new(); workers]);
        let mut plan = Self { shards, owners: vec![None; shards.len()], load, by_load, movable };
        for (at, shard) in shards.iter().enumerate() {
            if let Some(holder) = shard.holder.filter(|&holder| holder < workers) {
                plan.give(at, holder);
            }
        }
        plan
    }

    fn give(&mut self, at: usize, worker: usize) {
        let bytes = weight(&self.shards[at]);
        if let Some(before) = self.owners[at].replace(worker) {
            self.movable[before].remove(&at);
            self.weigh(before, self.load[before] - bytes);
        }
        if !self.shards[at].is_pinned {
            self.movable[worker].insert(at);
        }
        self.weigh(worker, self.load[worker] + bytes);
    }

    fn weigh(&mut self, worker: usize, load: u128) {
        self.by_load.remove(&(self.load[worker], worker));
        self.load[worker] = load;
        self.by_load.insert((load, worker));
    }

    /// The largest first, each to the worker with the least.
    fn place_the_rest(&mut self, may_take: &impl Fn(usize, usize) -> bool) {
        let mut rest: Vec<usize> = (0..self.shards.len()).filter(|&at| self.owners[at].is_none()).collect();
        rest.sort_by_key(|&at| (std::cmp::Reverse(self.shards[at].bytes), at));
        for at in rest {
            let open = self.by_load.iter().map(|&(_, worker)| worker).find(|&worker| may_take(at, worker));
            if let Some(worker) = open {
                self.give(at, worker);
            }
        }
    }

    /// One move from a fuller worker to an emptier one, the widest gap first; false where none is worth it. Every
    /// move lessens the sum of squared loads, so this comes to an end.
    fn move_one(&mut self, may_take: &impl Fn(usize, usize) -> bool) -> bool {
        let found = self.by_load.iter().rev().find_map(|&full| self.move_from(full, may_take));
        if let Some((at, empty)) = found {
            self.give(at, empty);
        }
        found.is_some()
    }

    /// A shard of that worker's, and who is to have it.
    fn move_from(
        &self,
        (load, full): (u128, usize),
        may_take: &impl Fn(usize, usize) -> bool,
    ) -> Option<(usize, usize)> {
        let held = &self.movable[full];
        let smallest = held.iter().map(|&at| weight(&self.shards[at])).min()?;
        for &(least, empty) in &self.by_load {
            let gap = load.saturating_sub(least);
            // Whoever comes later is fuller still.
            if gap == 0 || !is_worth_moving(smallest, gap) {
                return None;
            }
            let movable = held
                .iter()
                .copied()
                .filter(|&at| is_worth_moving(weight(&self.shards[at]), gap) && may_take(at, empty));
            // The one that leaves the two most alike.
            if let Some(at) = movable.min_by_key(|&at| gap.abs_diff(2 * weight(&self.shards[at]))) {
                return Some((at, empty));
            }
        }
        None
    }
}

/// A shard of no bytes would move without end.
fn weight(shard: &Shard) -> u128 {
    u128::from(shard.bytes.max(1))
}

/// The gap between the two workers must shrink by a quarter of the bytes moved.
fn is_worth_moving(bytes: u128, gap: u128) -> bool {
    9 * bytes <= 8 * gap
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn placed(bytes: &[u64], holders: &[Option<usize>]) -> Vec<Shard> {
        let shards = bytes.iter().zip(holders);
        shards.map(|(&bytes, &holder)| Shard { bytes, holder, is_pinned: false }).collect()
    }

    fn loads(workers: usize, shards: &[Shard], owners: &[Option<usize>]) -> Vec<u64> {
        let mut load = vec![0; workers];
        shards.iter().zip(owners).for_each(|(shard, owner)| load[owner.unwrap()] += shard.bytes);
        load
    }

    fn spread(load: &[u64]) -> u64 {
        load.iter().max().unwrap() - load.iter().min().unwrap()
    }

    proptest! {
        #[test]
        fn complete_balanced_and_the_same_again(
            bytes in prop::collection::vec(1u64..1_000_000, 1..40),
            holders in prop::collection::vec(prop::option::of(0usize..12), 40),
            workers in 1usize..10,
        ) {
            let shards = placed(&bytes, &holders);
            let owners = assign(workers, &shards, |_, _| true);
            prop_assert!(owners.iter().all(|owner| owner.is_some_and(|owner| owner < workers)));
            let largest = *bytes.iter().max().unwrap();
            prop_assert!(8 * spread(&loads(workers, &shards, &owners)) <= 9 * largest);
            let again = assign(workers, &placed(&bytes, &owners), |_, _| true);
            prop_assert_eq!(again, owners);
        }

        /// With equal shards, the shards of a worker that leaves are all that move, and a worker that comes is the
        /// only one that gets any.
        #[test]
        fn workers_that_come_and_go_move_little(shards in 1usize..60, workers in 2usize..10, gone in 0usize..10) {
            let (bytes, gone) = (vec![4096; shards], gone % workers);
            let before = assign(workers, &placed(&bytes, &vec![None; shards]), |_, _| true);
            // The last worker takes the place of the one that left.
            let number = |worker: usize| if worker == workers - 1 { gone } else { worker };
            let orphaned: Vec<_> =
                before.iter().map(|owner| owner.filter(|&owner| owner != gone).map(number)).collect();
            let after = assign(workers - 1, &placed(&bytes, &orphaned), |_, _| true);
            for (was, now) in orphaned.iter().zip(&after) {
                prop_assert!(was.is_none() || was == now);
            }
            prop_assert!(spread(&loads(workers - 1, &placed(&bytes, &after), &after)) <= 4096);
            let joined = assign(workers, &placed(&bytes, &after), |_, _| true);
            let moved: Vec<_> = after.iter().zip(&joined).filter(|(was, now)| was != now).collect();
            prop_assert!(moved.iter().all(|(_, now)| **now == Some(workers - 1)));
            prop_assert!(moved.len() <= shards / workers);
        }

        #[test]
        fn bars_and_pins_are_kept(
            bytes in prop::collection::vec(1u64..100, 1..20),
            barred in prop::collection::btree_set((0usize..20, 0usize..4), 0..40),
            pins in prop::collection::btree_map(0usize..20, 0usize..4, 0..10),
        ) {
            let pins: BTreeMap<_, _> = pins.into_iter().filter(|(at, _)| *at < bytes.len()).collect();
            let shard = |(at, &bytes): (usize, &u64)| {
                Shard { bytes, holder: pins.get(&at).copied(), is_pinned: pins.contains_key(&at) }
            };
            let shards: Vec<_> = bytes.iter().enumerate().map(shard).collect();
            let owners = assign(4, &shards, |at, worker| !barred.contains(&(at, worker)));
            for (at, owner) in owners.iter().enumerate() {
                match (pins.get(&at), owner) {
                    (Some(pin), owner) => prop_assert_eq!(*owner, Some(*pin)),
                    (None, Some(worker)) => prop_assert!(!barred.contains(&(at, *worker))),
                    (None, None) => prop_assert!((0..4).all(|worker| barred.contains(&(at, worker)))),
                }
            }
        }
    }

    #[test]
    fn no_workers_no_owners() {
        assert_eq!(assign(0, &placed(&[1, 2], &[None, Some(0)]), |_, _| true), [None, None]);
    }

    #[test]
    fn a_block_of_difference_moves_nothing() {
        let shards = placed(&[1_000_512, 1_000_000, 1_000_000], &[Some(0), Some(0), Some(1)]);
        assert_eq!(assign(2, &shards, |_, _| true), [Some(0), Some(0), Some(1)]);
    }
}
