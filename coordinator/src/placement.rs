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
    /// Whether there is any worker that may take it; else none is looked for.
    pub has_taker: bool,
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
        let load = vec![0; workers.len()];
        let memory = vec![0; workers.len()];
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
        let is_open = |at: &usize| self.owners[*at].is_none() && self.shards[*at].has_taker;
        let mut rest: Vec<usize> = (0..self.shards.len()).filter(is_open).collect();
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
        let of_late = self.speed(late);
        let of_early = self.speed(early);
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
        let before = sorted(before);
        let after = sorted(after);
        self.compare(after[0], before[0]).then(self.compare(after[1], before[1])) == Ordering::Less
    }
}

#[cfg(test)]
mod tests;
