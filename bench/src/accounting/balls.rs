//! Balls-in-bins by Monte Carlo, on all processors, as the epochs grow: a sample's cost must not.

use std::time::Instant;

use accounting::monte_carlo::{BallsInBins, Pair, SampleBudget};
use serde::Serialize;
use strategy::{Blt, Strategy};

use reproduce::measure::Spread;

pub const EPOCHS: [u64; 4] = [1, 4, 16, 64];
pub const BATCHES: u64 = 128;
pub const SAMPLES: u64 = 1 << 20;
const EPSILON: f64 = 1.0;
/// Most seconds of δ in both orders.
pub const LIMIT: f64 = 1.5;
const REPEATS: usize = 3;

#[derive(Clone, Debug, Serialize)]
pub struct Epochs {
    pub epochs: u64,
    pub samples: u64,
    pub batches: u64,
    /// G and its factor, which grow with the rounds.
    pub gram_seconds: f64,
    /// δ at ε in both orders.
    pub seconds: Spread,
    pub noise_multiplier: f64,
    pub epsilon: f64,
    pub delta: f64,
    pub standard_error: f64,
}

pub fn name(epochs: u64) -> String {
    format!("balls-in-bins-{epochs}")
}

impl Epochs {
    pub fn measure(epochs: u64) -> anyhow::Result<Self> {
        let strategy = Strategy::Blt(Blt::new(vec![0.99, 0.6], vec![0.1, 0.2])?);
        let start = Instant::now();
        let mechanism = BallsInBins::new(&strategy, BATCHES * epochs, BATCHES)?;
        let gram_seconds = start.elapsed().as_secs_f64();
        let noise_multiplier = mechanism.sensitivity();
        let sampling = SampleBudget { samples: SAMPLES, seed: 7 };
        let mut times = Vec::with_capacity(REPEATS);
        let mut worse = None;
        for _ in 0..REPEATS {
            let start = Instant::now();
            worse = Some(mechanism.delta(noise_multiplier, EPSILON, sampling)?.worse());
            times.push(start.elapsed().as_secs_f64());
        }
        let (Some(worse), Some(seconds)) = (worse, Spread::of(&times)) else {
            anyhow::bail!("nothing was measured");
        };
        Ok(Self {
            epochs,
            samples: SAMPLES,
            batches: BATCHES,
            gram_seconds,
            seconds,
            noise_multiplier,
            epsilon: EPSILON,
            delta: worse.delta,
            standard_error: worse.standard_error,
        })
    }

    pub fn fault(&self) -> Option<String> {
        let median = self.seconds.median;
        (median > LIMIT).then(|| format!("{}: {median:.2} s, limit {LIMIT} s", name(self.epochs)))
    }
}
