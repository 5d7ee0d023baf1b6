//! Fetching memory into the caches while other work is done.

use crate::simd::Simd;

/// Values of the next block's state fetched ahead: half of the smallest first level cache. Sums fetch the rest.
pub(crate) const NEXT_STATE_VALUES: usize = 4_096;

/// Memory that will be needed after the normals. It is fetched in parts of a few lines while they are made, each no
/// larger than a processor can wait for without holding up later loads.
#[derive(Default)]
pub(crate) struct Prefetch<'a> {
    lines: &'a [[f32; 16]],
    at_once: usize,
}

impl<'a> Prefetch<'a> {
    /// Splits `values` into about `times` parts.
    #[inline(always)]
    pub fn new(values: &'a [f32], times: usize) -> Self {
        let (lines, _) = values.as_chunks();
        Self { lines, at_once: lines.len().div_ceil(times) }
    }

    /// Fetches the next part.
    #[inline(always)]
    pub fn fetch<S: Simd>(&mut self, s: S) {
        let (now, later) = self.lines.split_at(self.at_once.min(self.lines.len()));
        for line in now {
            s.prefetch(line);
        }
        self.lines = later;
    }
}
