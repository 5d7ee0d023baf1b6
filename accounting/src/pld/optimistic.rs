//! Lower bounds of ε for losses that are known one by one: the other side of the pessimistic grid.
//!
//! The grid moves each loss up by less than one place or down by less than one, and by at most h²/8 upwards on average. So the
//! sum over R rounds, beyond R·h²/8, is s above the exact one with probability at most e^{−2s²/(R·h²)} (Hoeffding), and never
//! more than R·h. With p that probability, δ(ε) is at least what the grid has at ε + s, less p and less all that the window was
//! charged for.

use super::class::Class;
use super::composition::Composition;
use super::figure::ACCURACY;
use super::window::WindowAnswer;
use super::window_choice::Query;

/// Most grids that are tried, each four times as fine as the one before.
const MAX_GRIDS: usize = 8;

/// The part of δ that is set aside for what grid and window may have added.
const SPARE: f64 = 3e-4;
/// The part of ε by which the sum may wander on a grid that is fine enough.
const WANDER: f64 = 2e-5;

impl Composition {
    /// Returns a lower bound of ε at `delta`, 0 where none is found. Rounds must be losses that are known one by one.
    pub(crate) fn epsilon_at_least(&self, delta: f64) -> f64 {
        let known = |(classes, _): (&[(f64, Class)], u64)| {
            classes.iter().all(|(_, class)| matches!(class, Class::Losses(_)))
        };
        if self.parts.is_empty() || !self.parts().all(known) {
            return 0.0;
        }
        let mut best: f64 = 0.0;
        let mut fine = ACCURACY;
        for _ in 0..MAX_GRIDS {
            let query = Query::Epsilon { delta, guess: f64::INFINITY, steep: 1.0 / ACCURACY };
            let (window, figure, _) = self.window(query, fine);
            fine /= 16.0;
            let goal = delta * (1.0 + SPARE);
            let WindowAnswer::At(root) = window.epsilon(goal, 0.0) else {
                continue;
            };
            let spare = goal - delta - window.charged(root, goal);
            if spare <= 0.0 {
                continue;
            }
            let wander = self.wander(figure.spacing, spare);
            best = best.max(root - wander);
            if figure.coarsened || wander < WANDER * root {
                break;
            }
        }
        best
    }

    /// Returns the distance that the sum on a grid is above the exact one with probability at most `share`.
    fn wander(&self, spacing: f64, share: f64) -> f64 {
        let rounds = self.rounds();
        let likely = (rounds * -share.ln() / 2.0).sqrt() + rounds * spacing / 8.0;
        spacing * likely.min(rounds)
    }
}
