//! Pairs of mixtures of unit Gaussians whose privacy loss rises along the line.

use crate::error::{AccountingError, Result, positive};
use crate::neighbouring::{Direction, Neighbouring};

/// Most components of one mixture: each point of a grid evaluates all of them.
pub const MAX_COMPONENTS: usize = 4096;

/// Largest exponent that is evaluated directly. Above it e^x is near the end of f64, and the largest term is factored
/// out.
const MAX_EXPONENT: f64 = 600.0;
/// Smallest Σ w_k(e^… − 1) that is evaluated directly. Below it 1 + Σ would cancel, and the largest term is factored out.
const MIN_EXCESS: f64 = -0.5;

/// ln Σ_k w_k N(x; s_k, 1) relative to N(x; 0, 1), which is ln Σ_k w_k exp(s_k x − s_k²/2).
#[derive(Debug, Clone, PartialEq)]
struct Side {
    terms: Vec<Term>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct Term {
    weight: f64,
    ln_weight: f64,
    shift: f64,
    /// ln w − s²/2.
    level: f64,
}

impl Side {
    fn new(components: impl Iterator<Item = (f64, f64)>) -> Self {
        let term = |(weight, shift): (f64, f64)| {
            let ln_weight = weight.ln();
            Term { weight, ln_weight, shift, level: ln_weight - 0.5 * shift * shift }
        };
        Self { terms: components.map(term).collect() }
    }

    fn nothing() -> Self {
        Self::new([(1.0, 0.0)].into_iter())
    }

    /// Returns the logarithm and its slope at x. Weights sum to 1, so the sum is 1 + Σ w_k(e^{s_k x − s_k²/2} − 1), to which
    /// components that don't move add nothing: losses far below 1e−16 keep their digits.
    fn at(&self, x: f64) -> (f64, f64) {
        if let [term] = self.terms[..] {
            return (term.level + term.shift * x, term.shift);
        }
        let mut excess = 0.0;
        let mut moment = 0.0;
        for term in self.terms.iter().filter(|term| term.shift != 0.0) {
            let exponent = term.level + term.shift * x;
            if exponent > MAX_EXPONENT {
                return self.at_from_the_largest(x);
            }
            let now = exponent.exp();
            excess += now - term.weight;
            moment += now * term.shift;
        }
        if excess < MIN_EXCESS {
            return self.at_from_the_largest(x);
        }
        (excess.ln_1p(), moment / (1.0 + excess))
    }

    fn at_from_the_largest(&self, x: f64) -> (f64, f64) {
        let exponents = || self.terms.iter().map(|term| term.level + term.shift * x);
        let top = exponents().fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        let mut moment = 0.0;
        for (term, exponent) in self.terms.iter().zip(exponents()) {
            let now = (exponent - top).exp();
            sum += now;
            moment += now * term.shift;
        }
        (top + sum.ln(), moment / sum)
    }
}

/// The output of one round under two neighbouring data sets: P = Σ w_k N(s_k, 1) with all s_k ≥ 0 against
/// Q = Σ w_k N(s_k, 1) with all s_k ≤ 0, so that the loss ln P/Q never falls along the line.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    upper: Side,
    lower: Side,
}

/// The pair at one point.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Point {
    /// ln P(x)/Q(x).
    pub loss: f64,
    /// Its slope.
    pub slope: f64,
    /// ln of P's density.
    pub ln_density: f64,
}

impl Pair {
    /// Builds the pair of one Gaussian mechanism, N(μ, 1) against N(0, 1), which is the same in both directions.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] unless μ is finite and positive.
    pub fn gaussian(mu: f64) -> Result<Self> {
        positive("sensitivity / noise multiplier", mu)?;
        Ok(Self { upper: Side::new([(1.0, mu)].into_iter()), lower: Side::nothing() })
    }

    /// Builds the pair of a round that a record moves by s_k with probability w_k, under noise σ: Σ w_k N(s_k, σ²) against
    /// N(0, σ²) when the record is removed, the two exchanged when it is added. `mixture` holds the (w_k, s_k).
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] unless σ > 0, all s_k ≥ 0, all w_k ≥ 0 and Σ w_k = 1 up to rounding.
    pub fn mixture(noise_multiplier: f64, mixture: &[(f64, f64)], direction: Direction) -> Result<Self> {
        let kept = checked(noise_multiplier, mixture)?;
        let parts = kept.iter().map(|(w, s)| (*w, s / noise_multiplier));
        Ok(match direction {
            Direction::Remove => Self { upper: Side::new(parts), lower: Side::nothing() },
            Direction::Add => Self { upper: Side::nothing(), lower: Side::new(parts.map(|(w, s)| (w, -s))) },
        })
    }

    /// Builds the pair of one Poisson-sampled round, in which the record takes part with probability q.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] unless σ > 0 and 0 < q ≤ 1.
    pub fn poisson(
        noise_multiplier: f64,
        sampling_probability: f64,
        neighbouring: Neighbouring,
        direction: Direction,
    ) -> Result<Self> {
        let (up, down) = match (neighbouring, direction) {
            (Neighbouring::Replace, _) => (1.0, 1.0),
            (_, Direction::Remove) => (1.0, 0.0),
            (_, Direction::Add) => (0.0, 1.0),
        };
        Self::sampled(noise_multiplier, sampling_probability, up, down)
    }

    /// Builds the pair (1−q)N(0)+qN(a) against (1−q)N(0)+qN(−b), in units of σ: with probability q the sum is at most a
    /// from its value without the record under P, at most b under Q, and the two are at most a + b apart.
    ///
    /// No pair of that kind is worse, in any dimension: by advanced joint convexity δ(P‖Q) is
    /// q·δ'(N(u) ‖ (1−β)N(0)+βN(v)), and of all sets of one probability under N(u) the half-space along u has at
    /// once the least probability under N(0) and, where v points away from u, under N(v), which for |u| ≤ a and
    /// |u − v| ≤ a + b is least at u = a, v = −b. The same with P and Q exchanged gives δ at negative ε.
    ///
    /// # Errors
    /// Those of [`Self::poisson`].
    pub(crate) fn sampled(noise_multiplier: f64, probability: f64, a: f64, b: f64) -> Result<Self> {
        let q = sampling("sampling probability", probability)?;
        let side = |shift: f64, sign: f64| -> Result<Side> {
            let parts = checked(noise_multiplier, &[(1.0 - q, 0.0), (q, shift)])?;
            Ok(match shift {
                0.0 => Side::nothing(),
                _ => Side::new(parts.into_iter().map(|(w, s)| (w, sign * s / noise_multiplier))),
            })
        };
        Ok(Self { upper: side(a, 1.0)?, lower: side(b, -1.0)? })
    }

    /// Evaluates the pair at one point of the line.
    pub(crate) fn at(&self, x: f64) -> Point {
        let (upper, rise) = self.upper.at(x);
        let (lower, fall) = self.lower.at(x);
        let ln_density = upper + crate::normal::ln_density(x);
        Point { loss: upper - lower, slope: rise - fall, ln_density }
    }

    /// Iterates over the (ln w_k, s_k) of P.
    pub(crate) fn upper(&self) -> impl Iterator<Item = (f64, f64)> {
        self.upper.terms.iter().map(|term| (term.ln_weight, term.shift))
    }

    /// Iterates over the (ln w_k, s_k) of Q.
    pub(crate) fn lower(&self) -> impl Iterator<Item = (f64, f64)> {
        self.lower.terms.iter().map(|term| (term.ln_weight, term.shift))
    }

    /// Returns the largest |s_k|, which bounds how fast anything changes along the line.
    pub(crate) fn steepest(&self) -> f64 {
        let shifts = self.upper.terms.iter().chain(&self.lower.terms).map(|term| term.shift.abs());
        shifts.fold(0.0, f64::max)
    }
}

/// Accepts 0 < q ≤ 1.
pub(crate) fn sampling(what: &'static str, value: f64) -> Result<f64> {
    if value > 0.0 && value <= 1.0 {
        Ok(value)
    } else {
        Err(AccountingError::Invalid { what, value, allowed: "above 0 and at most 1" })
    }
}

/// Returns the components of positive weight, with weights divided by their sum.
fn checked(noise_multiplier: f64, mixture: &[(f64, f64)]) -> Result<Vec<(f64, f64)>> {
    positive("noise multiplier", noise_multiplier)?;
    let invalid = |what, value, allowed| AccountingError::Invalid { what, value, allowed };
    if mixture.is_empty() || mixture.len() > MAX_COMPONENTS {
        return Err(invalid("number of sensitivities", mixture.len() as f64, "1 to 4096"));
    }
    for (weight, shift) in mixture {
        if !(0.0..=1.0).contains(weight) {
            return Err(invalid("probability of a sensitivity", *weight, "0 to 1"));
        }
        if !(shift.is_finite() && *shift >= 0.0) {
            return Err(invalid("sensitivity", *shift, "finite and at least zero"));
        }
        if shift / noise_multiplier > 1e6 {
            return Err(invalid("sensitivity / noise multiplier", shift / noise_multiplier, "at most 1e6"));
        }
    }
    let total: f64 = mixture.iter().map(|(weight, _)| weight).sum();
    if (total - 1.0).abs() > 1e-9 {
        return Err(invalid("sum of the sensitivities' probabilities", total, "1"));
    }
    Ok(mixture.iter().filter(|(w, _)| *w > 0.0).map(|(w, s)| (w / total, *s)).collect())
}
