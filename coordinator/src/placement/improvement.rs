//! Improvements of a whole assignment: single moves, and exchanges of two shards.

use std::cmp::Ordering;

use super::{Assignment, GAIN_PARTS, NEAR_QUARTERS, WEIGHT_PARTS};

impl<T, F> Assignment<'_, T, F>
where
    T: Fn(usize, usize) -> bool,
    F: Fn(usize, usize) -> bool,
{
    /// Makes one move from a later worker to an earlier one, the widest gap first. Returns false if none is worth it.
    /// After a move both are earlier than the later one was before, so repeated moves end.
    pub(super) fn move_one(&mut self) -> bool {
        let found = (0..self.by_time.len()).rev().find_map(|rank| self.move_from(rank));
        if let Some((at, early)) = found {
            self.assign(at, early);
        }
        found.is_some()
    }

    /// Returns a shard to move from the worker of this rank, and the worker that gets it.
    fn move_from(&self, rank: usize) -> Option<(usize, usize)> {
        let late = self.by_time[rank];
        let held = &self.movable[late];
        let smallest = held.iter().map(|&at| self.shards[at].bytes.max(1)).min()?;
        for &early in &self.by_time[..rank] {
            // The workers that follow are later still.
            if self.is_never_worth_moving(smallest, late, early) {
                return None;
            }
            let worth = held
                .iter()
                .copied()
                .filter(|&at| self.is_worth_moving(at, late, early) && self.fits(at, early, 0));
            // The shard that leaves the two workers' times closest.
            if let Some(at) = worth.min_by_key(|&at| self.gap_after(at, late, early)) {
                return Some((at, early));
            }
        }
        None
    }

    /// Returns whether no shard of this size or more is worth moving, even if `early` were as fast as the fastest
    /// worker and the shard were near its users there.
    fn is_never_worth_moving(&self, bytes: u64, late: usize, early: usize) -> bool {
        let of_late = self.speed(late);
        let of_early = self.speed(early);
        let before = (GAIN_PARTS * self.load[late]).saturating_mul(of_early).saturating_mul(self.top_speed);
        let loaded = (GAIN_PARTS * self.load[early]).saturating_mul(of_late).saturating_mul(self.top_speed);
        let moved = (WEIGHT_PARTS * NEAR_QUARTERS * u128::from(bytes))
            .saturating_mul(of_early)
            .saturating_mul(of_late);
        loaded.saturating_add(moved) > before
    }

    /// Returns whether the later worker's time falls by at least an eighth of the shard's own time at the earlier one,
    /// counted on top of that time.
    fn is_worth_moving(&self, at: usize, late: usize, early: usize) -> bool {
        let after = GAIN_PARTS * self.load[early] + WEIGHT_PARTS * self.weight(at, early);
        self.compare((early, after), (late, GAIN_PARTS * self.load[late])) != Ordering::Greater
    }

    /// Returns the gap between the two workers' times after the move, up to a common factor.
    fn gap_after(&self, at: usize, late: usize, early: usize) -> u128 {
        let late_after = (self.load[late] - self.weight(at, late)) * self.speed(early);
        late_after.abs_diff((self.load[early] + self.weight(at, early)) * self.speed(late))
    }

    /// Makes one exchange that brings a shard near its users, takes none away from its own, and makes the two workers
    /// earlier. Returns false if there is none.
    pub(super) fn swap_one(&mut self) -> bool {
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
                    self.assign(far, there);
                    self.assign(other, here);
                    return true;
                }
            }
        }
        false
    }

    /// Returns whether the exchange makes the later worker earlier, or keeps its time and makes the other one earlier.
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
