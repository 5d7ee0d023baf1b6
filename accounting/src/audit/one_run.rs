//! Many canaries in one run (Steinke, Nasr, Jagielski, "Privacy auditing with one training run", 2023, theorem 5.2).
//!
//! Each of m canaries is in the training by a fair coin of its own. An auditor that makes at most r guesses from
//! what an (ε, δ)-private training releases has v or more right with probability at most
//!
//! P[B ≥ v] + 2mδ·max_i P[v − i ≤ B < v]/i      B binomial of r trials at e^ε/(1 + e^ε), i from 1 to v

use super::binomial::{Chance, ROUNDING, at_least, ln_mass};
use super::claim::{Bound, Claim, Method, smallest};
use crate::error::{Result, invalid};
use crate::gaussian::bisect;

/// The ε beyond which f64 has no chance against a guess.
const MAX_EPSILON: f64 = 700.0;

/// An auditor's guesses about canaries of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Guesses {
    /// Canaries m, each included by a fair coin.
    pub canaries: u64,
    /// Guesses r, a number chosen before the scores were seen; the auditor abstains from the rest.
    pub guesses: u64,
    /// Guesses v that were right.
    pub correct: u64,
}

impl Guesses {
    /// Returns the lower bound of ε, and the p-value of the claim.
    ///
    /// # Errors
    /// [`Invalid`](crate::AccountingError::Invalid) for numbers outside their ranges;
    /// [`TooFewCanaries`](crate::AccountingError::TooFewCanaries) where the claim
    /// could not be refuted if every guess were right.
    pub fn bound(self, claim: Claim) -> Result<Bound> {
        self.check()?;
        claim.check(Method::OneRun)?;
        if self.guesses == 0 || !Self::all_right(self.guesses, self.canaries).refutes(claim, claim.alpha()) {
            return Err(claim.too_few(self.guesses, needed(claim, claim.alpha())));
        }
        Ok(Bound {
            method: Method::OneRun,
            epsilon_lower: self.epsilon(claim, claim.alpha()),
            p_value: self.p_value(claim.epsilon, claim.delta),
            canaries: self.canaries,
            guesses: self.guesses,
            correct: self.correct,
        })
    }

    fn check(self) -> Result<()> {
        if self.guesses > self.canaries {
            return Err(invalid("guesses", self.guesses as f64, "at most the number of canaries"));
        }
        if self.correct > self.guesses {
            return Err(invalid("correct guesses", self.correct as f64, "at most the number of guesses"));
        }
        Ok(())
    }

    pub(super) fn all_right(guesses: u64, canaries: u64) -> Self {
        Self { canaries, guesses, correct: guesses }
    }

    pub(super) fn refutes(self, claim: Claim, alpha: f64) -> bool {
        self.p_value(claim.epsilon, claim.delta) < alpha
    }

    /// Returns an ε whose p-value is below `alpha`, the largest that bisection finds. Every such ε is a lower bound: what is
    /// private at a smaller one is private at it too, and has its p-value.
    pub(super) fn epsilon(self, claim: Claim, alpha: f64) -> f64 {
        let holds = |epsilon: f64| self.p_value(epsilon, claim.delta) >= alpha;
        if holds(0.0) {
            return 0.0;
        }
        bisect(0.0, MAX_EPSILON, holds).0
    }

    /// Returns the probability, or a bound above it, of guesses as good as these under an (ε, δ)-private training.
    pub(super) fn p_value(self, epsilon: f64, delta: f64) -> f64 {
        let chance = Chance { of: 1.0 / (1.0 + (-epsilon).exp()), against: 1.0 / (1.0 + epsilon.exp()) };
        let pure = at_least(self.correct, self.guesses, chance);
        let excess = 2.0 * self.canaries as f64 * delta;
        let spread = if excess > 0.0 { excess * self.densest(chance, pure) } else { 0.0 };
        ((pure + spread) * (1.0 + ROUNDING)).min(1.0)
    }

    /// Returns max_i P[v − i ≤ B < v]/i.
    fn densest(self, chance: Chance, above: f64) -> f64 {
        if self.correct == 0 {
            return 0.0;
        }
        let ratio = (chance.against / chance.of).ln();
        let mut ln_term = ln_mass(self.correct - 1, self.guesses, chance);
        let mut sum = 0.0;
        let mut densest = 0.0f64;
        for i in 1..=self.correct {
            sum += ln_term.exp();
            densest = densest.max(sum / i as f64);
            // The sum can't pass what is not above v.
            if (1.0 - above) / (i as f64) < densest {
                break;
            }
            let k = (self.correct - i) as f64;
            ln_term += (k / (self.guesses as f64 - k + 1.0)).ln() + ratio;
        }
        densest
    }
}

/// Returns the fewest canaries, all guessed rightly, that refute a claim at `alpha`; none where δ is too large for any.
pub(super) fn needed(claim: Claim, alpha: f64) -> Option<u64> {
    smallest(|canaries| Guesses::all_right(canaries, canaries).refutes(claim, alpha))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AccountingError;

    const CLAIM: Claim = Claim { epsilon: 0.0, delta: 1e-5, confidence: 0.95 };

    #[test]
    fn figures_are_those_of_the_papers_program() {
        // The formula with scipy 1.17: binom.sf, a cumulative sum of binom.pmf, brentq.
        for (canaries, guesses, correct, delta, bound) in REFERENCE {
            let found = Guesses { canaries, guesses, correct };
            let epsilon = found.bound(Claim { delta, ..CLAIM }).unwrap().epsilon_lower;
            assert!(
                (epsilon - bound).abs() < 1e-5 && epsilon <= bound + 1e-8,
                "{found:?}: {epsilon} {bound}"
            );
        }
    }

    const REFERENCE: [(u64, u64, u64, f64, f64); 5] = [
        (1000, 600, 600, 1e-5, 5.270_399_463_514_615),
        (1000, 1000, 900, 1e-5, 2.020_645_595_865_433),
        (100, 100, 75, 0.0, 0.702_213_930_949_506_2),
        (5000, 200, 190, 1e-6, 2.395_752_526_993_368_4),
        (100_000, 20_000, 15_000, 1e-9, 1.071_657_341_483_129),
    ];

    /// Randomised response that gives the bit itself with probability δ: the chance of being right is known exactly.
    #[test]
    fn no_p_value_is_below_the_exact_probability() {
        for (epsilon, delta) in [(0.0f64, 0.0), (0.0, 0.01), (1.0, 0.0), (1.0, 1e-3), (3.0, 0.05)] {
            let q = delta + (1.0 - delta) / (1.0 + (-epsilon).exp());
            for m in [1, 5, 30, 200] {
                for v in 0..=m {
                    let exact = at_least(v, m, Chance::new(q));
                    let p = Guesses { canaries: m, guesses: m, correct: v }.p_value(epsilon, delta);
                    assert!(p >= exact * (1.0 - 1e-10), "{epsilon} {delta}: {v} of {m}: {p} {exact}");
                    assert!(delta > 0.0 || p <= (exact * (1.0 + 1e-6)).min(1.0), "not tight: {p} {exact}");
                }
            }
        }
    }

    #[test]
    fn too_few_canaries_are_refused_with_the_number_that_would_do() {
        let claim = Claim { delta: 0.0, confidence: 0.99, ..CLAIM };
        let error = Guesses::all_right(6, 6).bound(claim).unwrap_err();
        assert!(
            matches!(error, AccountingError::TooFewCanaries { given: 6, needed: Some(7), .. }),
            "{error}"
        );
        assert!(Guesses::all_right(7, 7).bound(claim).unwrap().epsilon_lower > 0.0);
        let strict = Claim { epsilon: 4.0, ..claim };
        let needed = needed(strict, strict.alpha()).unwrap();
        assert!(Guesses::all_right(needed, needed).bound(strict).unwrap().epsilon_lower > 4.0);
        assert!(Guesses::all_right(needed - 1, needed - 1).bound(strict).is_err());
    }

    #[test]
    fn a_delta_that_hides_everything_is_named() {
        let claim = Claim { delta: 0.5, ..CLAIM };
        let error = Guesses::all_right(100, 100).bound(claim).unwrap_err();
        assert!(matches!(error, AccountingError::TooFewCanaries { needed: None, .. }), "{error}");
    }

    #[test]
    fn impossible_counts_are_refused() {
        for guesses in [
            Guesses { canaries: 10, guesses: 11, correct: 3 },
            Guesses { canaries: 10, guesses: 9, correct: 10 },
        ] {
            assert!(matches!(guesses.bound(CLAIM), Err(AccountingError::Invalid { .. })), "{guesses:?}");
        }
    }
}
