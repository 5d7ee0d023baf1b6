//! The rule by which records join rounds.

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
}
