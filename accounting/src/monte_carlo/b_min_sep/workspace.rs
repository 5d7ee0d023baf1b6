//! Scratch memory of the draws.

use super::recursion::Buffers;

/// Scratch memory for drawing one pair.
pub struct Workspace {
    /// Noise or a mean, before it is multiplied with the columns.
    pub y: Vec<f64>,
    pub noise: Vec<f64>,
    pub centre: Vec<f64>,
    pub d: Vec<f64>,
    pub set: Vec<usize>,
    pub buffers: Buffers,
}

impl Workspace {
    pub fn new(n: usize) -> Self {
        let zeros = || vec![0.0; n];
        Self {
            y: zeros(),
            noise: zeros(),
            centre: zeros(),
            d: zeros(),
            set: Vec::new(),
            buffers: Buffers::new(n),
        }
    }
}
