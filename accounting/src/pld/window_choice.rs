//! The choice of the window that a query is answered in: tilt, range and spacing.

use super::cells::{Cut, cells};
use super::composition::Composition;
use super::cumulant::Cumulant;
use super::figure::Figure;
use super::saddle::{CumulantSum, Saddle};
use super::window::Window;

/// The mass of P that needn't be cut into cells, in units of δ: e^−21, below one part in 10⁹.
pub(super) const LN_UNCUT_SHARE: f64 = -21.0;

/// Smallest tail that a cut can leave in f64, as ln.
pub(super) const LN_SMALLEST_TAIL: f64 = -735.0;

/// Largest −d ln δ/d ln ε that a tilt for δ follows: beyond it f64 cannot tell the losses apart.
pub(super) const MAX_STEEPNESS: f64 = 1e10;

/// Step of the trapezoid rule for estimates; on unit Gaussians a step of 0.25 is exact to f64 already.
const STEP: f64 = 0.1;

/// The figure that a window is made for.
#[derive(Clone, Copy)]
pub(super) enum Query {
    /// ε at `delta`. The tilt is chosen for δ alone, the grid for the smaller of a first estimate and `guess`.
    /// −d ln δ/d ln ε is taken to be at most `steep`.
    Epsilon { delta: f64, guess: f64, steep: f64 },
    /// δ at `epsilon`. `bound` is an upper bound of δ from an earlier window; 1 where there was none.
    Delta { epsilon: f64, bound: f64 },
    /// The power of the best test at a false positive rate.
    FalsePositives { rate: f64 },
}

impl Composition {
    pub(super) fn cumulants(&self, ln_tail: f64) -> Vec<(Cumulant, u64)> {
        self.parts().map(|(classes, count)| (Cumulant::new(classes, ln_tail, STEP), count)).collect()
    }

    /// Composes the window for a query. Returns it with its grid and the ε that the grid was chosen for.
    pub(super) fn window(&self, query: Query, accuracy: f64) -> (Window, Figure, f64) {
        let ln_delta = self.ln_delta(query);
        let ln_tail = (ln_delta + LN_UNCUT_SHARE - self.rounds().ln()).max(LN_SMALLEST_TAIL);
        let parts = self.cumulants(ln_tail);
        let sum = CumulantSum { parts: &parts };
        let saddle = match query {
            Query::Epsilon { delta, steep, .. } => sum.for_delta(delta.ln(), steep),
            Query::Delta { epsilon, .. } => sum.for_epsilon(epsilon, MAX_STEEPNESS),
            Query::FalsePositives { rate } => sum.for_false_positives(rate.ln(), MAX_STEEPNESS),
        };
        let likely = match query {
            Query::Epsilon { guess, .. } => sum.likely_epsilon(saddle).min(guess),
            _ => f64::NAN,
        };
        let tolerance = match query {
            Query::Epsilon { .. } => accuracy * likely,
            // Spreading a loss makes δ grow, relatively, as a tilt does that is no smaller than the loss's own scale: where ε
            // is near 0, spreading widens the loss itself.
            _ => {
                let steep = saddle.theta + 1.0 / saddle.moments.variance.sqrt();
                100.0 * accuracy / steep * (saddle.theta + 1.0) / (steep + 1.0)
            }
        };
        let mut tilted = sum.relaxed(saddle, ln_delta);
        let (span, floors, spacing, coarsened) = loop {
            let span = sum.span(tilted);
            let floors = sum.floors(tilted.theta);
            let (spacing, coarsened) = sum.spacing(saddle, span, &floors, tolerance);
            let most = sum.most_tilt(spacing);
            if tilted.theta <= most {
                break (sum.widened(span, spacing), floors, spacing, coarsened);
            }
            tilted = sum.saddle(most.min(tilted.theta / 2.0));
        };
        let cut = |cumulant: &Cumulant, floor: f64| Cut {
            spacing,
            theta: tilted.theta,
            ln_scale: cumulant.at(tilted.theta).value,
            ln_tail,
            floor,
        };
        let cells: Vec<_> = self
            .parts()
            .zip(parts.iter().zip(floors))
            .map(|((classes, count), ((cumulant, _), floor))| (cells(classes, cut(cumulant, floor)), count))
            .collect();
        let window = Window::compose(&cells, spacing, tilted.theta, (span.low, span.high), span.reach);
        let figure = Figure { value: f64::NAN, spacing, places: window.length(), coarsened };
        (window, figure, likely)
    }

    /// Returns ln δ of the query, or an estimate of it where δ is what is queried.
    fn ln_delta(&self, query: Query) -> f64 {
        match query {
            Query::Epsilon { delta, .. } => delta.ln(),
            // A true positive rate is never less than the false one.
            Query::FalsePositives { rate } => rate.ln(),
            Query::Delta { epsilon, bound } => {
                let parts = self.cumulants(LN_SMALLEST_TAIL);
                let sum = CumulantSum { parts: &parts };
                let Saddle { theta, moments } = sum.for_epsilon(epsilon, MAX_STEEPNESS);
                let likely = (moments.value - theta * epsilon).min(0.0) - sum.prefactor(theta, moments);
                likely.min(bound.ln())
            }
        }
    }
}
