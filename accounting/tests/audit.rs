//! Lower bounds of honest mechanisms, over many simulated audits: above the true ε no more often than the confidence says.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used)]

use accounting::audit::{Claim, Guesses, Method, Scores};
use accounting::gaussian;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use rand_distr::{Distribution, StandardNormal, Uniform};

const CONFIDENCE: f64 = 0.9;

/// The most of `runs` bounds that may be above the truth: the expected share, and five deviations more.
fn most(runs: u32) -> u32 {
    let mean = f64::from(runs) * (1.0 - CONFIDENCE);
    (mean + 5.0 * (mean * CONFIDENCE).sqrt()) as u32
}

struct Dice(ChaCha8Rng);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    fn happens(&mut self, chance: f64) -> bool {
        Uniform::new(0.0, 1.0).unwrap().sample(&mut self.0) < chance
    }

    fn normal(&mut self) -> f64 {
        StandardNormal.sample(&mut self.0)
    }
}

/// Each canary's bit by randomised response, given as it is with probability δ.
#[test]
fn randomised_response_is_seldom_above_its_epsilon_and_often_near() {
    const CANARIES: u64 = 400;
    const RUNS: u32 = 1000;
    let mut dice = Dice::new(1);
    for (epsilon, delta) in [(0.5f64, 0.0), (2.0, 0.0), (1.0, 1e-4), (1.0, 0.01)] {
        let right = delta + (1.0 - delta) / (1.0 + (-epsilon).exp());
        let claim = Claim { epsilon: 0.0, delta, confidence: CONFIDENCE };
        let mut above = 0;
        let mut total = 0.0;
        for _ in 0..RUNS {
            let correct = (0..CANARIES).filter(|_| dice.happens(right)).count() as u64;
            let bound = Guesses { canaries: CANARIES, guesses: CANARIES, correct }.bound(claim).unwrap();
            above += u32::from(bound.epsilon_lower > epsilon);
            total += bound.epsilon_lower;
        }
        assert!(above <= most(RUNS), "{epsilon} {delta}: {above} of {RUNS} above");
        // Without δ the count is all there is to know: the bound is as tight as its confidence allows.
        assert!(delta > 0.0 || above > RUNS / 20, "{epsilon}: {above} of {RUNS} above; the bound is loose");
        assert!(delta > 1e-3 || total / f64::from(RUNS) > 0.5 * epsilon, "{epsilon}: mean {total}");
    }
}

/// Scores with Gaussian noise: the mechanism's ε is exact.
fn gaussian_scores(dice: &mut Dice, canaries: u32, mu: f64) -> Scores {
    let included: Vec<bool> = (0..canaries).map(|_| dice.happens(0.5)).collect();
    let scores = included.iter().map(|&is| dice.normal() + if is { mu } else { 0.0 }).collect();
    Scores::new(scores, included).unwrap()
}

#[test]
fn gaussian_noise_is_seldom_above_its_epsilon() {
    const RUNS: u32 = 60;
    const DELTA: f64 = 1e-5;
    let mut dice = Dice::new(2);
    for mu in [0.3, 1.0, 3.0] {
        let epsilon = gaussian::epsilon(DELTA, mu).unwrap();
        let claim = Claim { epsilon, delta: DELTA, confidence: CONFIDENCE };
        let mut above = [0u32; 3];
        let mut refuted = 0;
        let mut total = 0.0;
        for _ in 0..RUNS {
            let scores = gaussian_scores(&mut dice, 1200, mu);
            for (method, above) in Method::ALL.iter().zip(&mut above) {
                let unclaimed = Claim { epsilon: 0.0, ..claim };
                let bound = scores.bound(unclaimed, *method, None).unwrap();
                *above += u32::from(bound.epsilon_lower > epsilon);
                total += if *method == Method::Gaussian { bound.epsilon_lower } else { 0.0 };
            }
            match scores.bound(claim, Method::ClopperPearson, None) {
                Ok(claimed) => refuted += u32::from(claimed.p_value < 1.0 - CONFIDENCE),
                // ε = 16.7 is beyond what rates of so small a δ could refute, however many canaries there were.
                Err(error) => assert!(mu > 1.0, "{mu}: {error}"),
            }
        }
        assert!(above.iter().all(|&above| above <= most(RUNS)), "{mu}: {above:?} of {RUNS} above");
        assert!(refuted <= most(RUNS), "{mu}: {refuted} of {RUNS} claims refuted");
        assert!(mu < 1.0 || total / f64::from(RUNS) > 0.6 * epsilon, "{mu}: loose: {total}");
    }
}

/// Ties, and a threshold between a few values, must not make a bound too high.
#[test]
fn rounded_scores_are_seldom_above_their_epsilon() {
    const RUNS: u32 = 60;
    let mut dice = Dice::new(3);
    // One bit by randomised response of ε = 1, as a score.
    let epsilon = 1.0f64;
    let claim = Claim { epsilon: 0.0, delta: 0.0, confidence: CONFIDENCE };
    let right = 1.0 / (1.0 + (-epsilon).exp());
    for method in [Method::OneRun, Method::ClopperPearson] {
        let mut above = 0;
        for _ in 0..RUNS {
            let mut pairs: Vec<(f64, bool)> = (0..600)
                .map(|_| {
                    let is_in = dice.happens(0.5);
                    (f64::from(u8::from(is_in == dice.happens(right))), is_in)
                })
                .collect();
            // The worst order of a file: included ones first.
            pairs.sort_by_key(|pair| !pair.1);
            let (scores, included) = pairs.into_iter().unzip();
            let bound = Scores::new(scores, included).unwrap().bound(claim, method, None).unwrap();
            above += u32::from(bound.epsilon_lower > epsilon);
        }
        assert!(above <= most(RUNS), "{method:?}: {above} of {RUNS} above");
    }
}

#[test]
fn a_claim_too_small_is_refuted_and_its_p_value_agrees() {
    let mut dice = Dice::new(4);
    let scores = gaussian_scores(&mut dice, 4000, 2.0);
    for method in Method::ALL {
        for epsilon in [0.5, 1.0, 2.0, 3.0] {
            let claim = Claim { epsilon, delta: 1e-5, confidence: 0.99 };
            let bound = scores.bound(claim, method, None).unwrap();
            // The p-value is rounded up, so that the two may differ within a hair.
            assert!(bound.refutes(claim) || bound.p_value > 0.0099, "{method:?} {epsilon}: {bound:?}");
            assert!(!bound.refutes(claim) || bound.p_value < 0.0101, "{method:?} {epsilon}: {bound:?}");
        }
    }
}
