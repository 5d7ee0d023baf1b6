//! Where a pair of samples is centred.

/// The mean s·m_batch + λ·m̄ of a pair.
#[derive(Debug, Clone, Copy)]
pub(super) struct Centre {
    pub batch: usize,
    pub s: f64,
    pub lambda: f64,
}
