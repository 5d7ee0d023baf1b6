//! Near-exact accounts by privacy-loss distributions, never optimistic beyond f64's rounding.
//!
//! Each question is answered in a window of its own: the rounds' losses are tilted by e^{θL} such that the
//! answer lies where the tilted mass is (`saddle`), cut to a grid of a spacing that fits the accuracy asked for
//! (`cells`), and composed by a power of their Fourier transform (`transform`, `window`). So δ keeps its relative precision
//! down to 1e−300, or, where it hangs on a few large losses of many rounds, down to about 1e−15 times the rounds; and
//! memory stays bounded at any noise: where a grid would grow past 2²⁰ places its spacing grows instead, which makes the
//! answer larger, and [`Figure::coarsened`] says so.

mod cells;
pub(crate) mod cumulant;
mod dots;
mod estimates;
mod pair;
mod profile;
mod question;
mod saddle;
mod transform;
mod window;
mod witness;

pub(crate) use pair::sampling;
pub use pair::{MAX_COMPONENTS, Pair};
pub use profile::Profile;

use self::question::Question;
use self::window::Found;
use crate::error::{AccountingError, Result, probability};

/// How much larger than exact an ε may be, relatively, unless asked otherwise.
pub const ACCURACY: f64 = 2e-5;

/// Most grids that ε is looked for on.
const MOST_GRIDS: usize = 8;

/// Fewest places between 0 and ε of a grid that is fine enough, and most times that one is made four times as fine
/// for that: a deviation says little of a loss that is all but always the same.
const FEWEST: f64 = 100.0;
const FINER_FOR_EPSILON: usize = 2;

/// Most times that a grid for δ is made four times as fine.
const FINER: usize = 6;

/// Most rounds of one composition.
pub const MAX_ROUNDS: u64 = 1 << 40;

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

/// One round: with public probabilities one of some pairs. Most rounds are one pair.
#[derive(Debug, Clone, PartialEq)]
pub struct Round {
    classes: Vec<(f64, Pair)>,
}

impl From<Pair> for Round {
    fn from(pair: Pair) -> Self {
        Self { classes: vec![(1.0, pair)] }
    }
}

impl Round {
    /// A round whose pair depends on something public and independent of the record, such as whether a batch
    /// was full. Classes of probability zero are left out.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] unless probabilities are in [0, 1] and sum to 1.
    pub fn of_classes(classes: Vec<(f64, Pair)>) -> Result<Self> {
        let total: f64 = classes.iter().map(|(weight, _)| weight).sum();
        let fits = |weight: &f64| (0.0..=1.0).contains(weight);
        if !classes.iter().all(|(weight, _)| fits(weight)) || (total - 1.0).abs() > 1e-9 {
            let what = "sum of a round's class probabilities";
            return Err(AccountingError::Invalid { what, value: total, allowed: "1, of parts in 0 to 1" });
        }
        Ok(Self { classes: classes.into_iter().filter(|(weight, _)| *weight > 0.0).collect() })
    }
}

/// Rounds composed, in one direction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Composition {
    parts: Vec<(Round, u64)>,
}

impl Composition {
    /// Adds a round `count` times; zero times is nothing.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] where the rounds are more than 2⁴⁰.
    pub fn add(&mut self, round: Round, count: u64) -> Result<()> {
        let total = self.parts.iter().map(|(_, count)| *count).fold(count, u64::saturating_add);
        if total > MAX_ROUNDS {
            let what = "number of rounds";
            return Err(AccountingError::Invalid { what, value: total as f64, allowed: "at most 2^40" });
        }
        if count == 0 {
            return Ok(());
        }
        match self.parts.iter_mut().find(|(other, _)| *other == round) {
            Some((_, times)) => *times += count,
            None => self.parts.push((round, count)),
        }
        Ok(())
    }

    /// A round composed with itself.
    ///
    /// # Errors
    /// As [`Self::add`].
    pub fn repeated(round: impl Into<Round>, count: u64) -> Result<Self> {
        let mut composition = Self::default();
        composition.add(round.into(), count)?;
        Ok(composition)
    }

    /// The rounds and how often each is composed.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&[(f64, Pair)], u64)> {
        self.parts.iter().map(|(round, count)| (round.classes.as_slice(), *count))
    }

    fn rounds(&self) -> f64 {
        self.parts.iter().map(|(_, count)| *count as f64).sum()
    }

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
        for _ in 0..MOST_GRIDS {
            let question = Question::Epsilon { delta, guess, steep };
            let (window, figure, used) = self.window(question, fine);
            let value = match window.epsilon(delta, 0.0) {
                Found::At(value) if value.is_finite() => value,
                Found::Below if window.lowest() > 0.0 && self.delta(0.0, accuracy)?.value <= delta => 0.0,
                Found::Below => window.lowest().max(0.0),
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
                if figure.spacing * FEWEST <= best.value || finer == FINER_FOR_EPSILON {
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
            let (window, figure, _) = self.window(Question::Delta { epsilon, bound }, accuracy);
            Figure { value: window.delta(epsilon), ..figure }
        };
        // Few rounds of a skewed loss need a finer grid than its deviation says. Each bounds δ from above.
        let mut found = on_grid(accuracy, 1.0);
        let mut finer = accuracy;
        for _ in 0..FINER {
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
        let (window, ..) = self.window(Question::FalsePositives { rate }, accuracy);
        let power = window.power(rate);
        if power < self.power_of_one_test(rate) {
            let setting =
                format!("false positive rate = {rate}: the grid's {power} is below what one test shows");
            return Err(AccountingError::OutOfReach { what: "true positive rate", setting });
        }
        Ok(power)
    }
}
