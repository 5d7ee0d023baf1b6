//! Near-exact accounts by privacy-loss distributions, never optimistic beyond f64's rounding.
//!
//! The privacy loss of a round is L = ln P(x)/Q(x) for x drawn from P. Losses of independent rounds add up, and
//! δ(ε) = E\[(1 − e^{ε−L})₊\] of the sum. Each query is answered in a window of its own:
//!
//! ```text
//! figure(query):
//!   K_r(θ) = ln E[e^{θ·L_r}] of each round r            cumulant   quadrature over the line
//!   θ      = the tilt that moves the sum's mass to       saddle     e^{θL}·P instead of P
//!            where the answer lies
//!   h      = the spacing that meets the accuracy         saddle     grown where the grid would pass 2²⁰ places
//!   cells  = e^{θL}·P of each round on multiples of h    cells      connecting the dots: δ can only grow
//!   sum    = Π_r FFT(cells_r)^{count_r}, transformed     transform  with a bound of its rounding
//!            back
//!   answer = δ, ε or power, untilted by e^{−θL}          window     plus the mass outside and the rounding
//!   refuse an answer below what one test shows           lower_bound
//! ```
//!
//! So δ keeps its relative precision down to 1e−300, or, where it depends on a few large losses of many rounds, down to
//! about 1e−15 times the number of rounds. Memory stays bounded at any noise: where a grid would grow past 2²⁰ places its
//! spacing grows instead, which makes the answer larger, and [`Figure::coarsened`] reports it.
//!
//! ```
//! use accounting::Direction;
//! use accounting::pld::{ACCURACY, Composition, Pair};
//!
//! # fn main() -> accounting::Result<()> {
//! // A hundred Gaussian rounds of μ = 0.1 are one of μ = 1.
//! let rounds = Composition::repeated(Pair::gaussian(0.1)?, 100)?;
//! let epsilon = rounds.epsilon(1e-5, ACCURACY)?.value;
//! let exact = accounting::gaussian::epsilon(1e-5, 1.0)?;
//! assert!(exact <= epsilon && epsilon <= exact * (1.0 + 1e-4));
//!
//! // Sampling makes the two directions differ.
//! let mixture = [(0.9, 0.0), (0.1, 1.0)];
//! let remove = Composition::repeated(Pair::mixture(1.0, &mixture, Direction::Remove)?, 10)?;
//! let add = Composition::repeated(Pair::mixture(1.0, &mixture, Direction::Add)?, 10)?;
//! assert!(remove.epsilon(1e-5, ACCURACY)?.value > add.epsilon(1e-5, ACCURACY)?.value);
//! # Ok(())
//! # }
//! ```

mod cells;
mod class;
mod composition;
pub(crate) mod cumulant;
mod dots;
mod estimates;
mod figure;
mod joined;
mod losses;
mod lower_bound;
mod optimistic;
mod pair;
mod profile;
mod saddle;
mod stretches;
mod transform;
mod window;
mod window_choice;

pub use class::Class;
pub use composition::{Composition, MAX_ROUNDS, Round};
pub use figure::{ACCURACY, Figure};
pub(crate) use joined::joined;
pub use losses::{Loss, Losses, MAX_LOSSES};
pub(crate) use pair::sampling;
pub use pair::{MAX_COMPONENTS, Pair};
pub use profile::Profile;
pub(crate) use stretches::{Stretch, of_stretches};

use self::window::WindowAnswer;
use self::window_choice::Query;
use crate::error::{AccountingError, Result, probability};

/// Most grids on which ε is searched for: each starts from the ε of the one before, and two or three are the rule.
const MAX_GRIDS: usize = 8;

/// Fewest places between 0 and ε of a grid that is fine enough: the deviation, by which spacings are chosen, says little
/// about a loss that is nearly always the same.
const MIN_PLACES_TO_EPSILON: f64 = 100.0;
/// Most times that a grid for ε is made four times as fine.
const MAX_EPSILON_REFINEMENTS: usize = 2;

/// Most times that a grid for δ is made four times as fine.
const MAX_DELTA_REFINEMENTS: usize = 6;

impl Composition {
    /// Returns an ε ≥ 0 with δ(ε) ≤ `delta`, at most about `accuracy` (relative) above the smallest.
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
        // The rates of one test are known without any grid: an answer that they contradict is wrong.
        if self.delta_of_one_test(figure.value) > delta {
            let setting =
                format!("delta = {delta}: the grid's {} is below what one test shows", figure.value);
            return Err(AccountingError::OutOfReach { what: "epsilon", setting });
        }
        Ok(figure)
    }

    fn epsilon_by_grids(&self, delta: f64, accuracy: f64) -> Result<Figure> {
        // The first guess of ε, by which the grid is chosen, may be far too large where few rounds matter. Each grid
        // bounds ε from above, so the smallest answer is kept.
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
                // The answer lies above the window: δ falls more steeply than was assumed.
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

    /// Returns an upper bound of δ(ε), about a hundred times `accuracy` (relative) above the exact one; ε may be negative.
    /// The rounding of the transforms comes on top; it is large where a few large losses of many rounds matter and δ is
    /// tiny.
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
        // Few rounds of a skewed loss need a finer grid than its deviation suggests. Each grid bounds δ from above.
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
        // Where ε is beyond the losses that f64 has masses of, their grid says nothing.
        found.value = found.value.min(self.chernoff_ln_delta(epsilon).exp());
        if found.value < self.delta_of_one_test(epsilon) {
            let setting =
                format!("epsilon = {epsilon}: the grid's {} is below what one test shows", found.value);
            return Err(AccountingError::OutOfReach { what: "delta", setting });
        }
        Ok(found)
    }

    /// Returns an upper bound of the power of the best test at false positive rate `rate`: the largest mass that P has
    /// on a set where Q has `rate`.
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
