//! The sources of batches, before these are cut to a cap.

/// A source of batches that are not yet cut. Rounds are read in order, after one `seek`.
pub(crate) trait Source {
    /// Returns the batch of the next round, ascending.
    fn batch(&mut self, round: u64) -> Vec<u64>;

    /// Makes `round` the next one. Most sources need to do nothing.
    fn seek(&mut self, _round: u64) {}
}
