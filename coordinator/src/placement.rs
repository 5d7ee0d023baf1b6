//! Placement: which worker holds which shard, as a pure, deterministic function that avoids moves.
//!
//! A worker's time is the bytes that it goes through for a row divided by its speed; a row is as late as the worker
//! whose time is longest. A move costs the shard a restore, so a shard stays where it is unless its worker is gone, or
//! the move shortens the longer of the two times by enough ([`GAIN_PARTS`]). A shard that is far from the rank that
//! uses it weighs a quarter more, so that it goes near if that makes no worker late.

mod improvement;

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeSet;

/// The speed of a worker that is as fast as the median, in thousandths of that.
pub const NORMAL_SPEED: u32 = 1_000;

/// Loads count quarters of a byte, so that the surcharge of a far shard is a whole number: a shard near its users
/// weighs four quarters per byte.
const NEAR_QUARTERS: u128 = 4;
/// A shard far from its users weighs a quarter more.
const FAR_QUARTERS: u128 = 5;

/// A move must gain one of this many parts of the time that the shard takes on its new worker, so that a small
/// difference moves nothing. With the times t of the two workers and w of the shard: t_late ≥ t_early + w + w / 8.
const GAIN_PARTS: u128 = 8;
/// The same rule without division: 8 · t_late ≥ 8 · t_early + 9 · w.
const WEIGHT_PARTS: u128 = GAIN_PARTS + 1;

/// A worker, which placement knows by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Worker {
    /// The speed, in thousandths of the median; 0 counts as 1.
    pub speed: u32,
    /// Bytes for all of its shards together; `None` for no limit.
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
    /// Bytes that its worker goes through for each row.
    pub bytes: u64,
    /// Bytes of its worker's memory that it takes.
    pub memory: u64,
    /// The worker that holds it and may keep it.
    pub holder: Option<usize>,
    /// Whether it stays with its holder whatever the balance.
    pub is_pinned: bool,
    /// Whether any worker may take it; if not, placement looks for none.
    pub has_taker: bool,
}

/// The rules for a shard and a worker, each a function of their two indexes.
pub struct Rules<T, F> {
    /// Whether the shard may go to the worker. Not consulted for a shard that stays.
    pub may_take: T,
    /// Whether the shard would be far from its users there.
    pub is_far: F,
}

/// Returns the worker of each shard; `None` only for a shard that no worker may take or has memory for.
pub fn assign<T, F>(workers: &[Worker], shards: &[Shard], rules: &Rules<T, F>) -> Vec<Option<usize>>
where
    T: Fn(usize, usize) -> bool,
    F: Fn(usize, usize) -> bool,
{
    let mut assignment = Assignment::keep_holders(workers, shards, rules);
    loop {
        assignment.place_the_rest();
        if !assignment.move_one() && !assignment.swap_one() {
            return assignment.owners;
        }
    }
}

/// An assignment under construction.
struct Assignment<'a, T, F> {
    workers: &'a [Worker],
    shards: &'a [Shard],
    rules: &'a Rules<T, F>,
    owners: Vec<Option<usize>>,
    /// The load of each worker, in quarters of a byte.
    load: Vec<u128>,
    /// The bytes taken on each worker.
    memory: Vec<u128>,
    /// Workers ordered by their time for a row, shortest first; updated with every assignment.
    by_time: Vec<usize>,
    /// The shards of each worker that may move.
    movable: Vec<BTreeSet<usize>>,
    /// The speed of the fastest worker.
    top_speed: u128,
}

impl<'a, T, F> Assignment<'a, T, F>
where
    T: Fn(usize, usize) -> bool,
    F: Fn(usize, usize) -> bool,
{
    /// Starts with every shard at its holder.
    fn keep_holders(workers: &'a [Worker], shards: &'a [Shard], rules: &'a Rules<T, F>) -> Self {
        let load = vec![0; workers.len()];
        let memory = vec![0; workers.len()];
        let by_time = (0..workers.len()).collect();
        let movable = vec![BTreeSet::new(); workers.len()];
        let top_speed = workers.iter().map(|worker| u128::from(worker.speed.max(1))).max().unwrap_or(1);
        let owners = vec![None; shards.len()];
        let mut assignment =
            Self { workers, shards, rules, owners, load, memory, by_time, movable, top_speed };
        for (at, shard) in shards.iter().enumerate() {
            if let Some(holder) = shard.holder.filter(|&holder| holder < workers.len()) {
                assignment.take_on(at, holder);
                assignment.load[holder] += assignment.weight(at, holder);
            }
        }
        let mut by_time = std::mem::take(&mut assignment.by_time);
        by_time.sort_by(|&a, &b| {
            assignment.compare((a, assignment.load[a]), (b, assignment.load[b])).then(a.cmp(&b))
        });
        assignment.by_time = by_time;
        assignment
    }

    /// Counts a shard as its worker's, without its load.
    fn take_on(&mut self, at: usize, worker: usize) {
        self.owners[at] = Some(worker);
        self.memory[worker] += u128::from(self.shards[at].memory);
        if !self.shards[at].is_pinned {
            self.movable[worker].insert(at);
        }
    }

    /// Assigns a shard to a worker, from wherever it was.
    fn assign(&mut self, at: usize, worker: usize) {
        if let Some(before) = self.owners[at] {
            self.movable[before].remove(&at);
            self.set_load(before, self.load[before] - self.weight(at, before));
            self.memory[before] -= u128::from(self.shards[at].memory);
        }
        self.take_on(at, worker);
        self.set_load(worker, self.load[worker] + self.weight(at, worker));
    }

    /// Sets a worker's load, and its rank by time.
    fn set_load(&mut self, worker: usize, load: u128) {
        let at = self.rank_of(worker);
        self.by_time.remove(at);
        self.load[worker] = load;
        let at = self.rank_of(worker);
        self.by_time.insert(at, worker);
    }

    /// Returns the worker's rank by time.
    fn rank_of(&self, worker: usize) -> usize {
        self.by_time.partition_point(|&other| {
            self.compare((other, self.load[other]), (worker, self.load[worker])).then(other.cmp(&worker))
                == Ordering::Less
        })
    }

    /// Returns a shard's weight on a worker, in quarters of a byte; at least that of one byte, for a shard of no bytes
    /// would move without end.
    fn weight(&self, at: usize, worker: usize) -> u128 {
        let quarters = if (self.rules.is_far)(at, worker) { FAR_QUARTERS } else { NEAR_QUARTERS };
        u128::from(self.shards[at].bytes.max(1)) * quarters
    }

    fn speed(&self, worker: usize) -> u128 {
        u128::from(self.workers[worker].speed.max(1))
    }

    /// Compares the times that two workers would take for these loads.
    fn compare(&self, (a, load_a): (usize, u128), (b, load_b): (usize, u128)) -> Ordering {
        (load_a * self.speed(b)).cmp(&(load_b * self.speed(a)))
    }

    /// Returns whether the shard may go to the worker once `leaving` bytes have left it.
    fn fits(&self, at: usize, worker: usize, leaving: u64) -> bool {
        let needed = self.memory[worker] - u128::from(leaving) + u128::from(self.shards[at].memory);
        let has_room = self.workers[worker].memory.is_none_or(|memory| needed <= u128::from(memory));
        has_room && (self.rules.may_take)(at, worker)
    }

    /// Assigns the shards without a worker, the largest first, each to the worker that is done with it first.
    fn place_the_rest(&mut self) {
        let is_open = |at: &usize| self.owners[*at].is_none() && self.shards[*at].has_taker;
        let mut rest: Vec<usize> = (0..self.shards.len()).filter(is_open).collect();
        rest.sort_by_key(|&at| (Reverse(self.shards[at].bytes), at));
        for at in rest {
            let open = (0..self.workers.len()).filter(|&worker| self.fits(at, worker, 0));
            let with_it = |worker: usize| (worker, self.load[worker] + self.weight(at, worker));
            let first = open.min_by(|&a, &b| self.compare(with_it(a), with_it(b)).then(a.cmp(&b)));
            if let Some(worker) = first {
                self.assign(at, worker);
            }
        }
    }
}

#[cfg(test)]
mod tests;
