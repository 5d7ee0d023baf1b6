//! Which worker holds which shard: pure, deterministic, and loath to move what runs.
//!
//! A move costs the shard a restore, so a shard stays where it is unless its worker is gone, or moving it evens out
//! the bytes by a good part of what is moved.

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
}

impl<'a> Plan<'a> {
    fn keeping(workers: usize, shards: &'a [Shard]) -> Self {
        let owners: Vec<_> =
            shards.iter().map(|shard| shard.holder.filter(|&holder| holder < workers)).collect();
        let mut load = vec![0; workers];
        for (shard, owner) in shards.iter().zip(&owners) {
            if let Some(owner) = *owner {
                load[owner] += weight(shard);
            }
        }
        Self { shards, owners, load }
    }

    /// The largest first, each to the worker with the least.
    fn place_the_rest(&mut self, may_take: &impl Fn(usize, usize) -> bool) {
        let mut rest: Vec<usize> = (0..self.shards.len()).filter(|&at| self.owners[at].is_none()).collect();
        rest.sort_by_key(|&at| (std::cmp::Reverse(self.shards[at].bytes), at));
        for at in rest {
            let open = (0..self.load.len()).filter(|&worker| may_take(at, worker));
            if let Some(worker) = open.min_by_key(|&worker| (self.load[worker], worker)) {
                self.owners[at] = Some(worker);
                self.load[worker] += weight(&self.shards[at]);
            }
        }
    }

    /// One move from a fuller worker to an emptier one, the widest gap first; false where none is worth it. Every
    /// move lessens the sum of squared loads, so this comes to an end.
    fn move_one(&mut self, may_take: &impl Fn(usize, usize) -> bool) -> bool {
        let mut by_load: Vec<usize> = (0..self.load.len()).collect();
        by_load.sort_by_key(|&worker| (self.load[worker], worker));
        for &full in by_load.iter().rev() {
            let held: Vec<usize> = (0..self.shards.len())
                .filter(|&at| self.owners[at] == Some(full) && !self.shards[at].is_pinned)
                .collect();
            for &empty in by_load.iter().take_while(|&&worker| self.load[worker] < self.load[full]) {
                let gap = self.load[full] - self.load[empty];
                let movable = held
                    .iter()
                    .copied()
                    .filter(|&at| is_worth_moving(weight(&self.shards[at]), gap) && may_take(at, empty));
                // The one that leaves the two most alike.
                let Some(at) = movable.min_by_key(|&at| gap.abs_diff(2 * weight(&self.shards[at]))) else {
                    continue;
                };
                self.load[full] -= weight(&self.shards[at]);
                self.load[empty] += weight(&self.shards[at]);
                self.owners[at] = Some(empty);
                return true;
            }
        }
        false
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
