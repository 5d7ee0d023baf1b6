//! Draws that a seed repeats.

/// The state of the draws.
pub struct Dice(pub u64);

impl Dice {
    /// Draws a number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}
