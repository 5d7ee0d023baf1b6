//! Where batches come from, before they are cut to a cap.

/// Where batches, not yet cut, come from. Rounds are asked for in order, after one `seek`.
pub(crate) trait Source {
    fn batch(&mut self, round: u64) -> Vec<u64>;

    /// Makes `round` the next one. Most sources need nothing for that.
    fn seek(&mut self, _round: u64) {}
}
