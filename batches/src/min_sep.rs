//! b-min-sep sampling.

use std::collections::{HashMap, VecDeque};

use crate::poisson::Poisson;
use crate::seed::{Key, Keys};
use crate::skips;
use crate::source::Source;

/// b-min-sep sampling: every record is sampled in every round, and records that still rest are left out. It keeps the last
/// b − 1 batches.
pub(crate) struct MinSep {
    poisson: Poisson,
    min_sep: u64,
    warm: Option<WarmStart>,
    /// The round that a record joined, among the last b − 1.
    joined: HashMap<u64, u64>,
    order: VecDeque<(u64, u64)>,
}

impl MinSep {
    pub fn new(keys: &Keys, min_sep: u64, q: f64, warm_start: bool, count: u64) -> Self {
        let warm = warm_start.then(|| WarmStart { key: keys.derive("warm start"), q, min_sep });
        let poisson = Poisson::new(keys, q, count);
        Self { poisson, min_sep, warm, joined: HashMap::new(), order: VecDeque::new() }
    }

    /// Forgets records that may join again.
    fn forget(&mut self, round: u64) {
        while let Some(&(joined, record)) = self.order.front()
            && round - joined >= self.min_sep
        {
            self.order.pop_front();
            self.joined.remove(&record);
        }
    }
}

impl Source for MinSep {
    fn batch(&mut self, round: u64) -> Vec<u64> {
        self.forget(round);
        let warm = self.warm.as_ref().filter(|_| round < self.min_sep - 1);
        let free = |record: &u64| {
            !self.joined.contains_key(record) && warm.is_none_or(|warm| warm.rest(*record) <= round)
        };
        let batch: Vec<u64> = self.poisson.chosen(round).filter(free).collect();
        self.order.extend(batch.iter().map(|&record| (round, record)));
        self.joined.extend(batch.iter().map(|&record| (record, round)));
        batch
    }

    /// Draws every round before, as each depends on those before it.
    fn seek(&mut self, round: u64) {
        (0..round).for_each(|before| drop(self.batch(before)));
    }
}

/// The rest of each record when a run begins, drawn such that the process is stationary from round 0 on.
struct WarmStart {
    key: Key,
    q: f64,
    min_sep: u64,
}

impl WarmStart {
    /// Returns how many rounds the record still rests: c of 1 to b − 1 with probability q/(1 + q(b − 1)) each, else 0.
    fn rest(&self, record: u64) -> u64 {
        // With q = m·2⁻⁹², bits that every allowed q has, the probabilities are m/(2⁹² + m(b − 1)): exact.
        let one = 1_u128 << 92;
        let m = self.per_92();
        let resting = m * u128::from(self.min_sep - 1);
        let place = self.key.draws(record).below_wide(one + resting);
        if place < resting { (place / m) as u64 + 1 } else { 0 }
    }

    /// Returns q·2⁹².
    fn per_92(&self) -> u128 {
        if self.q == 1.0 { 1 << 92 } else { skips::fraction(self.q) >> 36 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rests_are_stationary() {
        let keys = Keys::new([6; 32].into(), [0; 32]);
        let b = 4;
        let total = 40_000;
        for q in [1.0, 0.5, 0.1] {
            let warm = WarmStart { key: keys.derive("test"), q, min_sep: b };
            let mut counts = [0_f64; 4];
            (0..total).for_each(|record| counts[warm.rest(record) as usize] += 1.0);
            let rate = q / (1.0 + q * (b - 1) as f64);
            for (rest, count) in counts.into_iter().enumerate() {
                let p = if rest == 0 { 1.0 - rate * (b - 1) as f64 } else { rate };
                let expected = total as f64 * p;
                assert!((count - expected).abs() < 5.0 * (expected * (1.0 - p)).sqrt(), "{q} {rest} {count}");
            }
        }
    }
}
