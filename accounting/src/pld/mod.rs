//! Near-exact accounts by privacy-loss distributions, never optimistic beyond f64's rounding.
//!
//! Each question is answered in a window of its own: the rounds' losses are tilted by e^{θL} such that the
//! answer lies where the tilted mass is (`saddle`), cut to a grid of a spacing that fits the accuracy asked for
//! (`cells`), and composed by a power of their Fourier transform (`window`). So δ keeps its relative precision
//! down to 1e−300, and memory stays bounded at any noise: where a grid would grow past 2²⁰ places its spacing
//! grows instead, which makes the answer larger, and [`Figure::coarsened`] says so.

mod cells;
pub(crate) mod cumulant;
mod pair;
mod profile;
mod saddle;
mod window;

pub(crate) use pair::sampling;
pub use pair::{MAX_COMPONENTS, Pair};
pub use profile::Profile;

use self::cells::{Cut, cells};
use self::cumulant::Cumulant;
use self::saddle::{Saddle, Sum};
use self::window::{Found, Window};
use crate::error::{AccountingError, Result, probability};

/// How much larger than exact an ε may be, relatively, unless asked otherwise.
pub const ACCURACY: f64 = 2e-5;

/// P's mass that needn't be cut, in units of δ: e^−21.
const LN_SHARE: f64 = -21.0;

/// Smallest tail of f64 that a cut can leave.
const LN_LEAST: f64 = -735.0;

/// Most that −d ln δ/d ln ε is followed, where δ is asked for.
const STEEPEST: f64 = 1e10;

/// Most times that a grid for δ is made four times as fine.
const FINER: usize = 6;

/// Step of the trapezoid rule for estimates.
const STEP: f64 = 0.1;

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

/// What a window is made for.
#[derive(Clone, Copy)]
enum Question {
    /// The tilt is chosen for δ alone, the grid for the smaller of a first guess and this one.
    /// At most `steep` is −d ln δ/d ln ε taken to be.
    Epsilon {
        delta: f64,
        guess: f64,
        steep: f64,
    },
    Delta {
        epsilon: f64,
    },
    FalsePositives {
        rate: f64,
    },
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

    fn cumulants(&self, ln_tail: f64) -> Vec<(Cumulant, u64)> {
        self.parts().map(|(classes, count)| (Cumulant::new(classes, ln_tail, STEP), count)).collect()
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
        // The first guess of ε, by which the grid is chosen, may be far too large where few rounds matter.
        let (mut guess, mut steep) = (f64::INFINITY, 1.0 / accuracy);
        for _ in 0..6 {
            let question = Question::Epsilon { delta, guess, steep };
            let (window, figure, used) = self.window(question, accuracy);
            let value = match window.epsilon(delta, 0.0) {
                Found::At(value) if value.is_finite() => value,
                Found::Below => window.lowest().max(0.0),
                // The answer lies above the window: δ falls more steeply than was thought.
                _ => {
                    steep *= 1e3;
                    continue;
                }
            };
            if value == 0.0 || used <= 1.5 * value || figure.coarsened {
                return Ok(Figure { value, ..figure });
            }
            guess = value;
        }
        let setting = format!("delta = {delta}");
        Err(AccountingError::OutOfReach { what: "epsilon", setting })
    }

    /// An upper bound of δ(ε), about a hundred times `accuracy` (relative) above the exact one; ε may be negative.
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
        let on_grid = |accuracy| {
            let (window, figure, _) = self.window(Question::Delta { epsilon }, accuracy);
            Figure { value: window.delta(epsilon), ..figure }
        };
        // Few rounds of a skewed loss need a finer grid than its deviation says. Each bounds δ from above.
        let (mut found, mut finer) = (on_grid(accuracy), accuracy);
        for _ in 0..FINER {
            finer /= 16.0;
            let again = on_grid(finer);
            let is_settled = found.value <= again.value * (1.0 + 100.0 * accuracy);
            if again.value < found.value {
                found = again;
            }
            if is_settled || again.coarsened {
                break;
            }
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
        Ok(window.power(rate))
    }

    /// A window for a question, and the ε that its grid was chosen for.
    fn window(&self, question: Question, accuracy: f64) -> (Window, Figure, f64) {
        let ln_tail = (self.ln_delta(question) + LN_SHARE - self.rounds().ln()).max(LN_LEAST);
        let parts = self.cumulants(ln_tail);
        let sum = Sum { parts: &parts };
        let saddle = match question {
            Question::Epsilon { delta, steep, .. } => sum.for_delta(delta.ln(), steep),
            Question::Delta { epsilon } => sum.for_epsilon(epsilon, STEEPEST),
            Question::FalsePositives { rate } => sum.for_false_positives(rate.ln(), STEEPEST),
        };
        let likely = match question {
            Question::Epsilon { guess, .. } => sum.likely_epsilon(saddle).min(guess),
            _ => f64::NAN,
        };
        let tolerance = match question {
            Question::Epsilon { .. } => accuracy * likely,
            // δ's relative growth is that of a tilt no smaller than the loss's own scale: where ε is near none, spreading
            // widens the loss itself.
            _ => {
                let steep = saddle.theta + 1.0 / saddle.moments.variance.sqrt();
                100.0 * accuracy / steep * (saddle.theta + 1.0) / (steep + 1.0)
            }
        };
        let mut tilted = sum.relaxed(saddle);
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

    /// ln δ, or about that where δ is asked for.
    fn ln_delta(&self, question: Question) -> f64 {
        match question {
            Question::Epsilon { delta, .. } => delta.ln(),
            // A true positive rate is never less than the false one.
            Question::FalsePositives { rate } => rate.ln(),
            Question::Delta { epsilon } => {
                let parts = self.cumulants(LN_LEAST);
                let sum = Sum { parts: &parts };
                let Saddle { theta, moments } = sum.for_epsilon(epsilon, STEEPEST);
                (moments.value - theta * epsilon).min(0.0) - sum.prefactor(theta, moments)
            }
        }
    }

    /// An upper bound of ε at `delta`: (K(θ) − ln δ)/θ at one θ.
    fn chernoff_epsilon(&self, delta: f64) -> f64 {
        // Half of δ may lie where the quadrature doesn't reach.
        let goal = (0.5 * delta).ln();
        let ln_tail = (goal + LN_SHARE - self.rounds().ln()).max(LN_LEAST);
        let cumulants: Vec<_> = self
            .parts()
            .map(|(classes, count)| (Cumulant::new(classes, ln_tail, 0.2 * STEP), count))
            .collect();
        let Saddle { theta, moments } = Sum { parts: &cumulants }.for_delta(goal, 1e3);
        (moments.value - goal) / theta * (1.0 + 1e-9)
    }

    /// An upper bound of ln δ(ε): K(θ) − θε at one θ.
    fn chernoff_ln_delta(&self, epsilon: f64) -> f64 {
        let fine = |(classes, count)| (Cumulant::new(classes, LN_LEAST, 0.2 * STEP), count);
        let cumulants: Vec<_> = self.parts().map(fine).collect();
        let Saddle { theta, moments } = Sum { parts: &cumulants }.for_epsilon(epsilon, STEEPEST);
        moments.value - theta * epsilon
    }

    /// About ε at `delta`, by the saddle alone: off by a factor that changes slowly, and
    /// a hundred times as fast. Good to start a search with; no bound.
    pub(crate) fn rough_epsilon(&self, delta: f64) -> f64 {
        let ln_tail = (delta.ln() + LN_SHARE - self.rounds().ln()).max(LN_LEAST);
        let parts = self.cumulants(ln_tail);
        let sum = Sum { parts: &parts };
        sum.likely_epsilon(sum.for_delta(delta.ln(), 1e3))
    }
}
