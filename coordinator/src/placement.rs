//! Which worker holds which shard: pure, deterministic, and loath to move what runs.
//!
//! A worker's time is the bytes that it goes through for a row, over its speed; a row is as late as the worker whose
//! time is longest. A move costs the shard a restore, so a shard stays where it is unless its worker is gone, or moving
//! it shortens the longer of the two times by a good part of what is moved. A shard that is far from the rank that uses
//! it weighs a quarter more: it goes near where that makes no worker late.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

/// The speed of a worker that is neither fast nor slow.
pub const NORMAL_SPEED: u32 = 1_000;

/// Workers are numbers 0..n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// In thousandths of the usual; 0 counts as 1.
    pub speed: u32,
    /// For all of its shards together; `None` for no limit.
    pub memory: Option<u64>,
}

impl Default for Worker {
    fn default() -> Self {
        Self { speed: NORMAL_SPEED, memory: None }
    }
}

/// One shard to place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Gone through for each row.
    pub bytes: u64,
    /// Taken from its worker's memory.
    pub memory: u64,
    /// Who holds it and may keep it.
    pub holder: Option<usize>,
    /// It stays with its holder whatever the balance.
    pub is_pinned: bool,
}

/// What is asked of a shard and a worker: whether it may go there, for every new placement and not for shards that
/// stay; and whether it would be far from who uses it.
pub struct Rules<T, F> {
    pub may_take: T,
    pub is_far: F,
}

/// The worker of each shard; `None` only for a shard that no worker may take or has memory for.
pub fn assign<T, F>(workers: &[Worker], shards: &[Shard], rules: &Rules<T, F>) -> Vec<Option<usize>>
where
    T: Fn(usize, usize) -> bool,
    F: Fn(usize, usize) -> bool,
{
    let mut plan = Plan::keeping(workers, shards, rules);
    loop {
        plan.place_the_rest();
        if !plan.move_one() && !plan.swap_one() {
            return plan.owners;
        }
    }
}

struct Plan<'a, T, F> {
    workers: &'a [Worker],
    shards: &'a [Shard],
    rules: &'a Rules<T, F>,
    owners: Vec<Option<usize>>,
    /// In quarters of a byte.
    load: Vec<u128>,
    memory: Vec<u128>,
    /// Workers, the one that is done first before the others; kept up with every shard given.
    by_time: Vec<usize>,
    /// What of each worker's may move.
    movable: Vec<BTreeSet<usize>>,
    /// Of all workers.
    top_speed: u128,
}

impl<'a, T, F> Plan<'a, T, F>
where
    T: Fn(usize, usize) -> bool,
    F: Fn(usize, usize) -> bool,
{
    fn keeping(workers: &'a [Worker], shards: &'a [Shard], rules: &'a Rules<T, F>) -> Self {
        let (load, memory) = (vec![0; workers.len()], vec![0; workers.len()]);
        let by_time = (0..workers.len()).collect();
        let movable = vec![BTreeSet::new(); workers.len()];
        let top_speed = workers.iter().map(|worker| u128::from(worker.speed.max(1))).max().unwrap_or(1);
        let owners = vec![None; shards.len()];
        let mut plan = Self { workers, shards, rules, owners, load, memory, by_time, movable, top_speed };
        for (at, shard) in shards.iter().enumerate() {
            if let Some(holder) = shard.holder.filter(|&holder| holder < workers.len()) {
                plan.take_on(at, holder);
                plan.load[holder] += plan.weight(at, holder);
            }
        }
        let mut by_time = std::mem::take(&mut plan.by_time);
        by_time.sort_by(|&a, &b| plan.compare((a, plan.load[a]), (b, plan.load[b])).then(a.cmp(&b)));
        plan.by_time = by_time;
        plan
    }

    fn take_on(&mut self, at: usize, worker: usize) {
        self.owners[at] = Some(worker);
        self.memory[worker] += u128::from(self.shards[at].memory);
        if !self.shards[at].is_pinned {
            self.movable[worker].insert(at);
        }
    }

    fn give(&mut self, at: usize, worker: usize) {
        if let Some(before) = self.owners[at] {
            self.movable[before].remove(&at);
            self.weigh(before, self.load[before] - self.weight(at, before));
            self.memory[before] -= u128::from(self.shards[at].memory);
        }
        self.take_on(at, worker);
        self.weigh(worker, self.load[worker] + self.weight(at, worker));
    }

    /// Gives the worker another load, and its place among the others.
    fn weigh(&mut self, worker: usize, load: u128) {
        let at = self.place_of(worker);
        self.by_time.remove(at);
        self.load[worker] = load;
        let at = self.place_of(worker);
        self.by_time.insert(at, worker);
    }

    /// Where the worker is, or would be.
    fn place_of(&self, worker: usize) -> usize {
        self.by_time.partition_point(|&other| {
            self.compare((other, self.load[other]), (worker, self.load[worker])).then(other.cmp(&worker))
                == Ordering::Less
        })
    }

    /// A shard of no bytes would move without end.
    fn weight(&self, at: usize, worker: usize) -> u128 {
        let quarters = if (self.rules.is_far)(at, worker) { 5 } else { 4 };
        u128::from(self.shards[at].bytes.max(1)) * quarters
    }

    fn speed(&self, worker: usize) -> u128 {
        u128::from(self.workers[worker].speed.max(1))
    }

    /// Of the times that two workers would take for these loads.
    fn compare(&self, (a, load_a): (usize, u128), (b, load_b): (usize, u128)) -> Ordering {
        (load_a * self.speed(b)).cmp(&(load_b * self.speed(a)))
    }

    /// Whether the shard may go there, once `leaving` bytes have left.
    fn fits(&self, at: usize, worker: usize, leaving: u64) -> bool {
        let needed = self.memory[worker] - u128::from(leaving) + u128::from(self.shards[at].memory);
        let has_room = self.workers[worker].memory.is_none_or(|memory| needed <= u128::from(memory));
        has_room && (self.rules.may_take)(at, worker)
    }

    /// The largest first, each to the worker that is done with it first.
    fn place_the_rest(&mut self) {
        let mut rest: Vec<usize> = (0..self.shards.len()).filter(|&at| self.owners[at].is_none()).collect();
        rest.sort_by_key(|&at| (Reverse(self.shards[at].bytes), at));
        for at in rest {
            let open = (0..self.workers.len()).filter(|&worker| self.fits(at, worker, 0));
            let with_it = |worker: usize| (worker, self.load[worker] + self.weight(at, worker));
            let first = open.min_by(|&a, &b| self.compare(with_it(a), with_it(b)).then(a.cmp(&b)));
            if let Some(worker) = first {
                self.give(at, worker);
            }
        }
    }

    /// One move from a later worker to an earlier one, the widest gap first; false where none is worth it. Both are
    /// earlier after it than the later was before, so this comes to an end.
    fn move_one(&mut self) -> bool {
        let found = (0..self.by_time.len()).rev().find_map(|place| self.move_from(place));
        if let Some((at, early)) = found {
            self.give(at, early);
        }
        found.is_some()
    }

    /// A shard of the worker at that place among the others, and who is to have it.
    fn move_from(&self, place: usize) -> Option<(usize, usize)> {
        let late = self.by_time[place];
        let held = &self.movable[late];
        let smallest = held.iter().map(|&at| self.shards[at].bytes.max(1)).min()?;
        for &early in &self.by_time[..place] {
            // Whoever comes after is later still.
            if self.is_never_worth_moving(smallest, late, early) {
                return None;
            }
            let worth = held
                .iter()
                .copied()
                .filter(|&at| self.is_worth_moving(at, late, early) && self.fits(at, early, 0));
            // The one that leaves the two most alike.
            if let Some(at) = worth.min_by_key(|&at| self.gap_after(at, late, early)) {
                return Some((at, early));
            }
        }
        None
    }

    /// Not even if `early` were as fast as the fastest.
    fn is_never_worth_moving(&self, bytes: u64, late: usize, early: usize) -> bool {
        let (of_late, of_early) = (self.speed(late), self.speed(early));
        let before = (8 * self.load[late]).saturating_mul(of_early).saturating_mul(self.top_speed);
        let loaded = (8 * self.load[early]).saturating_mul(of_late).saturating_mul(self.top_speed);
        let moved = (36 * u128::from(bytes)).saturating_mul(of_early).saturating_mul(of_late);
        loaded.saturating_add(moved) > before
    }

    /// The later of the two must gain an eighth of the time that the shard itself takes there.
    fn is_worth_moving(&self, at: usize, late: usize, early: usize) -> bool {
        let after = 8 * self.load[early] + 9 * self.weight(at, early);
        self.compare((early, after), (late, 8 * self.load[late])) != Ordering::Greater
    }

    fn gap_after(&self, at: usize, late: usize, early: usize) -> u128 {
        let late_after = (self.load[late] - self.weight(at, late)) * self.speed(early);
        late_after.abs_diff((self.load[early] + self.weight(at, early)) * self.speed(late))
    }

    /// One exchange that brings a shard near, takes none further away, and leaves the two workers earlier; false where
    /// there is none.
    fn swap_one(&mut self) -> bool {
        let is_far = |at: usize, worker: usize| (self.rules.is_far)(at, worker);
        for far in 0..self.shards.len() {
            let Some(here) = self.owners[far].filter(|&here| is_far(far, here)) else { continue };
            if self.shards[far].is_pinned {
                continue;
            }
            for there in (0..self.workers.len()).filter(|&there| there != here && !is_far(far, there)) {
                let other = self.movable[there].iter().copied().find(|&other| {
                    (is_far(other, there) || !is_far(other, here))
                        && self.fits(far, there, self.shards[other].memory)
                        && self.fits(other, here, self.shards[far].memory)
                        && self.is_earlier_swapped((far, here), (other, there))
                });
                if let Some(other) = other {
                    self.give(far, there);
                    self.give(other, here);
                    return true;
                }
            }
        }
        false
    }

    /// The later of the two is earlier after it, or as late and the other one earlier.
    fn is_earlier_swapped(&self, (a, of_a): (usize, usize), (b, of_b): (usize, usize)) -> bool {
        let before = [(of_a, self.load[of_a]), (of_b, self.load[of_b])];
        let after = [
            (of_a, self.load[of_a] - self.weight(a, of_a) + self.weight(b, of_a)),
            (of_b, self.load[of_b] - self.weight(b, of_b) + self.weight(a, of_b)),
        ];
        let sorted = |[x, y]: [(usize, u128); 2]| match self.compare(x, y) {
            Ordering::Less => [y, x],
            _ => [x, y],
        };
        let (before, after) = (sorted(before), sorted(after));
        self.compare(after[0], before[0]).then(self.compare(after[1], before[1])) == Ordering::Less
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn placed(bytes: &[u64], holders: &[Option<usize>]) -> Vec<Shard> {
        let shards = bytes.iter().zip(holders);
        shards.map(|(&bytes, &holder)| Shard { bytes, memory: bytes, holder, is_pinned: false }).collect()
    }

    fn assign_to(
        workers: usize,
        shards: &[Shard],
        may_take: impl Fn(usize, usize) -> bool,
    ) -> Vec<Option<usize>> {
        assign(&vec![Worker::default(); workers], shards, &Rules { may_take, is_far: |_, _| false })
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
            let owners = assign_to(workers, &shards, |_, _| true);
            prop_assert!(owners.iter().all(|owner| owner.is_some_and(|owner| owner < workers)));
            let largest = *bytes.iter().max().unwrap();
            prop_assert!(8 * spread(&loads(workers, &shards, &owners)) <= 9 * largest);
            let again = assign_to(workers, &placed(&bytes, &owners), |_, _| true);
            prop_assert_eq!(again, owners);
        }

        /// With equal shards, the shards of a worker that leaves are all that move, and a worker that comes is the
        /// only one that gets any.
        #[test]
        fn workers_that_come_and_go_move_little(shards in 1usize..60, workers in 2usize..10, gone in 0usize..10) {
            let (bytes, gone) = (vec![4096; shards], gone % workers);
            let before = assign_to(workers, &placed(&bytes, &vec![None; shards]), |_, _| true);
            // The last worker takes the place of the one that left.
            let number = |worker: usize| if worker == workers - 1 { gone } else { worker };
            let orphaned: Vec<_> =
                before.iter().map(|owner| owner.filter(|&owner| owner != gone).map(number)).collect();
            let after = assign_to(workers - 1, &placed(&bytes, &orphaned), |_, _| true);
            for (was, now) in orphaned.iter().zip(&after) {
                prop_assert!(was.is_none() || was == now);
            }
            prop_assert!(spread(&loads(workers - 1, &placed(&bytes, &after), &after)) <= 4096);
            let joined = assign_to(workers, &placed(&bytes, &after), |_, _| true);
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
                Shard {
                    bytes,
                    memory: bytes,
                    holder: pins.get(&at).copied(),
                    is_pinned: pins.contains_key(&at),
                }
            };
            let shards: Vec<_> = bytes.iter().enumerate().map(shard).collect();
            let owners = assign_to(4, &shards, |at, worker| !barred.contains(&(at, worker)));
            for (at, owner) in owners.iter().enumerate() {
                match (pins.get(&at), owner) {
                    (Some(pin), owner) => prop_assert_eq!(*owner, Some(*pin)),
                    (None, Some(worker)) => prop_assert!(!barred.contains(&(at, *worker))),
                    (None, None) => prop_assert!((0..4).all(|worker| barred.contains(&(at, worker)))),
                }
            }
        }

        /// Whatever single move or new place is left would not be worth it, reckoned in plain numbers; memory holds
        /// what is placed, and what is not placed has no room anywhere.
        #[test]
        fn fast_workers_carry_more_and_memory_is_a_limit(
            bytes in prop::collection::vec(1u64..1_000_000, 1..24),
            holders in prop::collection::vec(prop::option::of(0usize..6), 24),
            speeds in prop::collection::vec((50u32..4_000, prop::option::of(0u64..3_000_000)), 1..6),
        ) {
            let workers: Vec<_> = speeds.iter().map(|&(speed, memory)| Worker { speed, memory }).collect();
            let mut shards = placed(&bytes, &holders);
            // Held within memory, or not at all.
            let mut used = vec![0; workers.len()];
            for shard in &mut shards {
                shard.holder = shard.holder.filter(|&holder| {
                    let fits = holder < workers.len()
                        && workers[holder].memory.is_none_or(|memory| used[holder] + shard.memory <= memory);
                    if fits {
                        used[holder] += shard.memory;
                    }
                    fits
                });
            }
            let rules = Rules { may_take: |_, _| true, is_far: |_, _| false };
            let owners = assign(&workers, &shards, &rules);
            let (mut load, mut used) = (vec![0f64; workers.len()], vec![0u64; workers.len()]);
            for (shard, owner) in shards.iter().zip(&owners) {
                if let Some(owner) = *owner {
                    load[owner] += shard.bytes as f64;
                    used[owner] += shard.memory;
                }
            }
            let fits = |shard: &Shard, worker: usize| {
                workers[worker].memory.is_none_or(|memory| used[worker] + shard.memory <= memory)
            };
            prop_assert!((0..workers.len()).all(|at| workers[at].memory.is_none_or(|memory| used[at] <= memory)));
            let time = |worker: usize, load: f64| load / f64::from(workers[worker].speed);
            for (shard, owner) in shards.iter().zip(&owners) {
                for to in (0..workers.len()).filter(|&to| Some(to) != *owner && fits(shard, to)) {
                    let from = owner.ok_or_else(|| TestCaseError::fail("there was room for it"))?;
                    let gain = time(from, load[from]) - time(to, load[to] + shard.bytes as f64);
                    let own = time(to, shard.bytes as f64);
                    prop_assert!(gain < own * 0.125 * 1.000_001, "{gain} of {own}: {from} to {to}");
                }
            }
            let kept: Vec<_> =
                shards.iter().zip(&owners).map(|(&shard, &holder)| Shard { holder, ..shard }).collect();
            prop_assert_eq!(assign(&workers, &kept, &rules), owners);
        }

        /// A wish is kept where every worker has as many shards that are wished to it, wherever they were before.
        #[test]
        fn shards_come_near_where_it_makes_nobody_late(
            each in 1usize..5,
            workers in 2usize..5,
            start in prop::collection::vec(prop::option::of(0usize..5), 20),
        ) {
            let home = |at: usize| at % workers;
            let mut count = vec![0; workers];
            let holders: Vec<_> = (0..each * workers).map(|at| start[at].filter(|&worker| {
                let fits = worker < workers && count[worker] < each;
                if fits {
                    count[worker] += 1;
                }
                fits
            })).collect();
            let shards = placed(&vec![4096; each * workers], &holders);
            let rules = Rules { may_take: |_, _| true, is_far: |at, worker| home(at) != worker };
            let owners = assign(&vec![Worker::default(); workers], &shards, &rules);
            let far = owners.iter().enumerate().filter(|(at, owner)| **owner != Some(home(*at))).count();
            // Pairs are exchanged, not rings of three and more: a ring can be left.
            prop_assert!(far == 0 || (workers > 2 && far >= 3), "{far} far: {owners:?}");
            let spread = |owner: usize| owners.iter().filter(|of| **of == Some(owner)).count();
            prop_assert!((0..workers).all(|worker| spread(worker) == each), "{owners:?}");
        }
    }

    #[test]
    fn no_workers_no_owners() {
        assert_eq!(assign_to(0, &placed(&[1, 2], &[None, Some(0)]), |_, _| true), [None, None]);
    }

    #[test]
    fn a_block_of_difference_moves_nothing() {
        let shards = placed(&[1_000_512, 1_000_000, 1_000_000], &[Some(0), Some(0), Some(1)]);
        assert_eq!(assign_to(2, &shards, |_, _| true), [Some(0), Some(0), Some(1)]);
    }

    #[test]
    fn a_wish_does_not_make_a_worker_late() {
        let rules = Rules { may_take: |_, _| true, is_far: |_, worker| worker != 0 };
        let shards = placed(&[1000; 6], &[None; 6]);
        let owners = assign(&[Worker::default(); 2], &shards, &rules);
        let near = owners.iter().filter(|owner| **owner == Some(0)).count();
        assert!((3..=4).contains(&near), "{owners:?}");
    }

    #[test]
    fn a_worker_four_times_slower_is_relieved() {
        let workers = [Worker::default(), Worker { speed: 250, ..Worker::default() }];
        let shards = placed(&[1000; 2], &[Some(0), Some(1)]);
        let rules = Rules { may_take: |_, _| true, is_far: |_, _| false };
        assert_eq!(assign(&workers, &shards, &rules), [Some(0), Some(0)]);
    }
}
