//! A figure and the grid that it was computed on.

/// The default accuracy: how much larger than the exact ε a figure aims to be at most, relatively.
pub const ACCURACY: f64 = 2e-5;

/// A figure, with the grid that it was computed on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    /// The figure itself: ε in nats, or δ.
    pub value: f64,
    /// The spacing of the losses, in nats; 0 where no grid was needed.
    pub spacing: f64,
    /// The number of places of the composed window.
    pub places: usize,
    /// True where the bound on memory made the grid coarser than the accuracy asked for. The value is then still an upper
    /// bound, but a looser one.
    pub coarsened: bool,
}
