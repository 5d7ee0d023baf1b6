//! A figure and the grid that it was computed on.

/// How much larger than exact an ε may be, relatively, unless asked otherwise.
pub const ACCURACY: f64 = 2e-5;

/// A number with the grid that it was computed on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Figure {
    pub value: f64,
    /// Spacing of the losses.
    pub spacing: f64,
    /// Places of the composed window.
    pub places: usize,
    /// True where memory's bound made the grid coarser than the accuracy asked for: the value is then still an
    /// upper bound, but a looser one.
    pub coarsened: bool,
}
