//! The error of a BLT and the rows it counts, as both ways of computing it return it.

/// The rows of a Toeplitz decoder that are counted; every row holds the one before, so the last is the worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    Last,
    Mean,
}

/// A squared error with its derivatives in φ and φ̂.
#[derive(Debug, Clone)]
pub(crate) struct ErrorSlopes {
    pub squared: f64,
    pub phi: Vec<f64>,
    pub phi_hat: Vec<f64>,
}
