//! When a record may join a batch.

/// How a record takes rounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct JoinRule {
    pub min_sep: usize,
    /// Probability of a free record to join.
    pub q: f64,
    /// Stationary from round 0 on, instead of everybody being free there.
    pub warm: bool,
}

impl JoinRule {
    /// Probability to rest for c more rounds when the run begins, for each c of 1 to min_sep − 1.
    pub fn resting(&self) -> f64 {
        if self.warm { self.q / (1.0 + self.q * (self.min_sep - 1) as f64) } else { 0.0 }
    }

    /// Probability to be free when the run begins.
    pub fn free(&self) -> f64 {
        1.0 - self.resting() * (self.min_sep - 1) as f64
    }
}
