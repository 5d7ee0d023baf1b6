//! The rule by which records join rounds.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use crate::monte_carlo::stream::uniform;

/// The rule by which one record joins rounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct JoinRule {
    /// The least distance of two rounds of a record.
    pub min_sep: usize,
    /// The probability that a free record joins a round.
    pub q: f64,
    /// True where the process is stationary from round 0 on; otherwise every record is free at first.
    pub warm: bool,
}

impl JoinRule {
    /// Returns the probability that a record rests for c more rounds when the run begins; the same for each c of 1 to
    /// min_sep − 1.
    pub fn resting(&self) -> f64 {
        if self.warm { self.q / (1.0 + self.q * (self.min_sep - 1) as f64) } else { 0.0 }
    }

    /// Returns the probability that a record is free when the run begins.
    pub fn free(&self) -> f64 {
        1.0 - self.resting() * (self.min_sep - 1) as f64
    }

    /// Draws the rounds that one record takes, of n, into `set`.
    pub fn draw_set(self, n: usize, random: &mut ChaCha8Rng, set: &mut Vec<usize>) {
        set.clear();
        let mut t = 0;
        if self.warm {
            let place = uniform(random.next_u64());
            let resting = self.resting() * (self.min_sep - 1) as f64;
            if place < resting {
                t = ((place / self.resting()) as usize + 1).min(self.min_sep - 1);
            }
        }
        while t < n {
            // The number of rounds skipped before the next is geometric. 1 − u is above zero.
            let left = (1.0 - uniform(random.next_u64())).ln() / (-self.q).ln_1p();
            t = t.saturating_add(left as usize);
            if t < n {
                set.push(t);
                t = t.saturating_add(self.min_sep);
            }
        }
    }
}
