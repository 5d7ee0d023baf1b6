//! Near-exact accounts by privacy-loss distributions, never optimistic beyond f64's rounding.
//!
//! Each query is answered in a window of its own: the rounds' losses are tilted by e^{θL} such that the
//! answer lies where the tilted mass is (`saddle`), cut to a grid of a spacing that fits the accuracy asked for
//! (`cells`), and composed by a power of their Fourier transform (`transform`, `window`). So δ keeps its relative precision
//! down to 1e−300, or, where it hangs on a few large losses of many rounds, down to about 1e−15 times the rounds; and
//! memory stays bounded at any noise: where a grid would grow past 2²⁰ places its spacing grows instead, which makes the
//! answer larger, and [`Figure::coarsened`] says so.

mod cells;
mod composition;
pub(crate) mod cumulant;
mod dots;
mod estimates;
mod figure;
mod lower_bound;
mod pair;
mod profile;
mod saddle;
mod transform;
mod window;
mod window_choice;

pub use composition::{Composition, MAX_ROUNDS, Round};
pub use figure::{ACCURACY, Figure};
pub(crate) use pair::sampling;
pub use pair::{MAX_COMPONENTS, Pair};
pub use profile::Profile;

use self::window::WindowAnswer;
use self::window_choice::Query;
use crate::error::{AccountingError, Result, probability};

/// Most grids that ε is looked for on.
const MAX_GRIDS: usize = 8;

/// Fewest places between 0 and ε of a grid that is fine enough, and most times that one is made four times as fine
/// for that: a deviation says little of a loss that is all but always the same.
const MIN_PLACES_TO_EPSILON: f64 = 100.0;
const MAX_EPSILON_REFINEMENTS: usize = 2;

/// Most times that a grid for δ is made four times as fine.
const MAX_DELTA_REFINEMENTS: usize = 6;

impl Composition {
    /// An ε ≥ 0 with δ(ε) ≤ `delta`, at most about `accuracy` (relative) above the smallest.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] unless 0 < δ < 1; [`AccountingError::OutOfReach`] where f64 can't hold the
    /// answer.
    pub fn epsilon(&self, delta: f64, accuracy: f64) -> Result<Figure> {
        probability("delta", delta)?;
        if self.parts.is_empty() {
            return Ok(Figure { value: 0.0, spacing: 0.0, places: 0, coarsened: false });
        }
        let figure = self.epsilon_by_grids(delta, accuracy)?;
        // One test's rates are known without any grid: an answer that they contradict is none.
        if self.delta_of_one_test(figure.value) > delta {
            let setting =
                format!("delta = {delta}: the grid's {} is below what one test shows", figure.value);
            return Err(AccountingError::OutOfReach { what: "epsilon", setting });
        }
        Ok(figure)
    }

    fn epsilon_by_grids(&self, delta: f64, accuracy: f64) -> Result<Figure> {
        // The first guess of ε, by which the grid is chosen, may be far too large where few rounds matter. Each grid
        // bounds ε from above, so the least found is kept.
        let mut guess = f64::INFINITY;
        let mut steep = 1.0 / accuracy;
        let mut best: Option<Figure> = None;
        let mut fine: f64 = accuracy;
        let mut finer: usize = 0;
        for _ in 0..MAX_GRIDS {
            let query = Query::Epsilon { delta, guess, steep };
            let (window, figure, used) = self.window(query, fine);
            let value = match window.epsilon(delta, 0.0) {
                WindowAnswer::At(value) if value.is_finite() => value,
                WindowAnswer::Below if window.lowest() > 0.0 && self.delta(0.0, accuracy)?.value <= delta => {
                    0.0
                }
                WindowAnswer::Below => window.lowest().max(0.0),
                // The answer lies above the window: δ falls more steeply than was thought.
                _ => {
                    steep *= 1e3;
                    continue;
                }
            };
            let best =
                best.insert(best.filter(|best| best.value <= value).unwrap_or(Figure { value, ..figure }));
            if best.value == 0.0 || figure.coarsened {
                return Ok(*best);
            }
            if used <= 1.5 * best.value {
                if figure.spacing * MIN_PLACES_TO_EPSILON <= best.value || finer == MAX_EPSILON_REFINEMENTS {
                    return Ok(*best);
                }
                fine /= 16.0;
                finer += 1;
            }
            guess = best.value;
        }
        best.ok_or_else(|| AccountingError::OutOfReach {
            what: "epsilon",
            setting: format!("delta = {delta}"),
        })
    }

    /// An upper bound of δ(ε), about a hundred times `accuracy` (relative) above the exact one; ε may be negative. What
    /// transforms may have rounded comes on top: much where few large losses of many rounds matter and δ is tiny.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] unless ε is finite.
    pub fn delta(&self, epsilon: f64, accuracy: f64) -> Result<Figure> {
        if !epsilon.is_finite() {
            return Err(AccountingError::Invalid { what: "epsilon", value: epsilon, allowed: "finite" });
        }
        if self.parts.is_empty() {
            let value = (-epsilon.exp_m1()).max(0.0);
            return Ok(Figure { value, spacing: 0.0, places: 0, coarsened: false });
        }
        let on_grid = |accuracy, bound: f64| {
            let (window, figure, _) = self.window(Query::Delta { epsilon, bound }, accuracy);
            Figure { value: window.delta(epsilon), ..figure }
        };
        // Few rounds of a skewed loss need a finer grid than its deviation says. Each bounds δ from above.
        let mut found = on_grid(accuracy, 1.0);
        let mut finer = accuracy;
        for _ in 0..MAX_DELTA_REFINEMENTS {
            finer /= 16.0;
            let again = on_grid(finer, found.value);
            let is_settled = found.value <= again.value * (1.0 + 100.0 * accuracy);
            if again.value < found.value {
                found = again;
            }
            if is_settled || again.coarsened {
                break;
            }
        }
        if found.value < self.delta_of_one_test(epsilon) {
            let setting =
                format!("epsilon = {epsilon}: the grid's {} is below what one test shows", found.value);
            return Err(AccountingError::OutOfReach { what: "delta", setting });
        }
        Ok(found)
    }

    /// An upper bound of P's mass where Q's is `rate`, for the best choice of where: the power of the best test.
    pub(crate) fn true_positive_rate(&self, rate: f64, accuracy: f64) -> Result<f64> {
        probability("false positive rate", rate)?;
        if self.parts.is_empty() {
            return Ok(rate);
        }
        let (window, ..) = self.window(Query::FalsePositives { rate }, accuracy);
        let power = window.power(rate);
        if power < self.power_of_one_test(rate) {
            let setting =
                format!("false positive rate = {rate}: the grid's {power} is below what one test shows");
            return Err(AccountingError::OutOfReach { what: "true positive rate", setting });
        }
        Ok(power)
    }
}
