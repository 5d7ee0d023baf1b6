//! Scores of canaries, and the guesses that they are.

use super::binomial::{Chance, at_least};
use super::claim::{Bound, Claim, Method};
use super::one_run::{self, Guesses};
use super::populations;
use crate::error::{AccountingError, Result, invalid};

/// Fewest guesses of a family that abstains more and more.
const FEWEST_GUESSES: u64 = 16;

/// Probability below which the number of included canaries is taken for no result of fair coins.
const UNFAIR: f64 = 1e-9;

/// What an attack says of each canary, and the truth.
#[derive(Debug, Clone)]
pub struct Scores {
    scores: Vec<f64>,
    included: Vec<bool>,
}

impl Scores {
    /// Pairs scores, higher where a canary seems to be included, with whether it was.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] for lists of unlike lengths, and for a score that is no number.
    pub fn new(scores: Vec<f64>, included: Vec<bool>) -> Result<Self> {
        if scores.len() != included.len() {
            return Err(invalid("labels", included.len() as f64, "one for each score"));
        }
        if scores.iter().any(|score| score.is_nan()) {
            return Err(invalid("score", f64::NAN, "any number; infinite ones too"));
        }
        Ok(Self { scores, included })
    }

    /// Returns the scores of the canaries that were included, or of those that were not.
    fn of(&self, is_included: bool) -> Vec<f64> {
        let paired = self.scores.iter().zip(&self.included);
        paired.filter(|(_, included)| **included == is_included).map(|(score, _)| *score).collect()
    }

    /// Returns the lower bound of ε. `guesses`: of [`Method::OneRun`] alone, how many to make, half of them of either kind, a
    /// number chosen without regard to the scores; without it several numbers are tried and paid for.
    ///
    /// # Errors
    /// Those of [`Guesses::bound`]; [`AccountingError::Unsupported`] for guesses with another method, and for one run whose
    /// canaries were evidently not included by fair coins.
    pub fn bound(&self, claim: Claim, method: Method, guesses: Option<u64>) -> Result<Bound> {
        claim.check(method)?;
        match (method, guesses) {
            (Method::OneRun, _) => self.one_run(claim, guesses),
            (_, None) => populations::bound(&self.of(true), self.of(false), claim, method),
            (_, Some(_)) => Err(AccountingError::Unsupported {
                event: method.name(),
                why: "it takes no number of guesses; thresholds are its own".into(),
            }),
        }
    }

    fn one_run(&self, claim: Claim, guesses: Option<u64>) -> Result<Bound> {
        let canaries = self.scores.len() as u64;
        self.check_coins()?;
        if let Some(guesses) = guesses.filter(|&guesses| guesses > canaries) {
            return Err(invalid("guesses", guesses as f64, "at most the number of canaries"));
        }
        let family = guesses.map_or_else(|| family(canaries), |guesses| vec![guesses]);
        let alpha = claim.alpha() / family.len() as f64;
        // The first makes most guesses, but with δ > 0 fewer may show more.
        let can_refute = |&guesses: &u64| Guesses::all_right(guesses, canaries).refutes(claim, alpha);
        if !family.iter().any(can_refute) {
            let most = family.iter().copied().max().unwrap_or(0);
            return Err(claim.too_few(most, one_run::needed(claim, alpha)));
        }
        let made = family.iter().map(|&guesses| self.guess(guesses));
        let bounds: Vec<Bound> = made
            .map(|made| Bound {
                method: Method::OneRun,
                epsilon_lower: made.epsilon(claim, alpha),
                p_value: (made.p_value(claim.epsilon, claim.delta) * family.len() as f64).min(1.0),
                canaries,
                guesses: made.guesses,
                correct: made.correct,
            })
            .collect();
        let best = bounds
            .into_iter()
            .min_by(|a, b| b.epsilon_lower.total_cmp(&a.epsilon_lower).then(a.p_value.total_cmp(&b.p_value)));
        best.ok_or_else(|| claim.too_few(0, one_run::needed(claim, alpha)))
    }

    fn check_coins(&self) -> Result<()> {
        let canaries = self.included.len() as u64;
        let included = self.included.iter().filter(|&&included| included).count() as u64;
        let odd = at_least(included.max(canaries - included), canaries, Chance::new(0.5));
        if odd < UNFAIR {
            return Err(AccountingError::Unsupported {
                event: Method::OneRun.name(),
                why: format!(
                    "{included} of {canaries} canaries were included, which fair coins do not do; \
                     toss a coin for each, or use clopper-pearson where scores are independent"
                ),
            });
        }
        Ok(())
    }

    /// Guesses that the highest scores are of included canaries and the lowest of others. Of equal scores across the
    /// edge none is a guess: their order in a file may tell what they are. The number stays that intended.
    fn guess(&self, guesses: u64) -> Guesses {
        let canaries = self.scores.len() as u64;
        let guesses = guesses.min(canaries);
        let mut sorted = self.scores.clone();
        sorted.sort_by(f64::total_cmp);
        let low = (guesses / 2) as usize;
        let high = sorted.len() - (guesses - guesses / 2) as usize;
        // Above the score before the edge, below the score behind it.
        let is_high = |score: f64| high == 0 || score > sorted[high - 1];
        let is_low = |score: f64| low == sorted.len() || (low > 0 && score < sorted[low]);
        let right = |(score, included): (&f64, &bool)| {
            if *included { is_high(*score) } else { is_low(*score) && !is_high(*score) }
        };
        let correct = self.scores.iter().zip(&self.included).filter(|&pair| right(pair)).count() as u64;
        Guesses { canaries, guesses, correct }
    }
}

/// Returns the numbers of guesses that are tried: all canaries, half of them, and so on.
fn family(canaries: u64) -> Vec<u64> {
    let halves = std::iter::successors(Some(canaries), |guesses| Some(guesses / 2));
    let mut family: Vec<u64> = halves.take_while(|&guesses| guesses >= FEWEST_GUESSES).collect();
    if family.is_empty() {
        family.push(canaries);
    }
    family
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: Claim = Claim { epsilon: 0.0, delta: 0.0, confidence: 0.99 };

    fn labels(count: usize) -> Vec<bool> {
        (0..count as u32).map(|i| i.wrapping_mul(2_654_435_761) >> 31 == 0).collect()
    }

    #[test]
    fn the_order_of_equal_scores_tells_nothing() {
        let mut included = vec![true; 200];
        included.extend(vec![false; 200]);
        for score in [0.0, f64::INFINITY] {
            let scores = Scores::new(vec![score; 400], included.clone()).unwrap();
            for method in Method::ALL {
                let claim = Claim { delta: 1e-5, ..CLAIM };
                assert_eq!(scores.bound(claim, method, None).unwrap().epsilon_lower, 0.0, "{method:?}");
            }
        }
    }

    #[test]
    fn right_guesses_are_counted_on_both_sides() {
        let included = labels(400);
        let perfect: Vec<f64> = included.iter().map(|&is| f64::from(u8::from(is))).collect();
        let scores = Scores::new(perfect, included.clone()).unwrap();
        let in_all = included.iter().filter(|&&is| is).count() as u64;
        // Distinct scores would all be guessed; equal ones across an edge are not.
        assert!(scores.guess(2 * in_all.min(400 - in_all)).correct > 0);
        let spread: Vec<f64> =
            included.iter().zip(0..).map(|(&is, i)| f64::from(u8::from(is)) * 1e3 + f64::from(i)).collect();
        let scores = Scores::new(spread, included).unwrap();
        let made = scores.guess(100);
        assert_eq!((made.guesses, made.correct), (100, 100));
        let bound = scores.bound(CLAIM, Method::OneRun, None).unwrap();
        assert!(bound.epsilon_lower > 3.5, "{bound:?}");
    }

    #[test]
    fn coins_that_are_none_are_named() {
        let scores = Scores::new(vec![0.5; 400], vec![true; 400]).unwrap();
        let error = scores.bound(CLAIM, Method::OneRun, None).unwrap_err();
        assert!(error.to_string().contains("fair coins"), "{error}");
        assert!(Scores::new(vec![f64::NAN], vec![true]).is_err());
        assert!(Scores::new(vec![1.0], vec![]).is_err());
    }

    #[test]
    fn too_few_scores_are_refused_by_every_method() {
        for method in Method::ALL {
            let claim = Claim { delta: 1e-5, epsilon: 2.0, ..CLAIM };
            let scores = Scores::new((0..8).map(f64::from).collect(), labels(8)).unwrap();
            let error = scores.bound(claim, method, None).unwrap_err();
            let named = matches!(error, AccountingError::TooFewCanaries { given, needed: Some(n), .. } if given <= 8 && n > 8);
            assert!(named, "{method:?}: {error}");
        }
    }
}
