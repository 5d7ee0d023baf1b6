//! SGD with heavy-ball momentum, weight decay and learning rates as a workload.
//!
//! m_t = β·m_{t−1} + g_t and y_t = (1−λ)·y_{t−1} + η_t·m_t, so A = (I − (1−λ)N)⁻¹·diag(η)·(I − βN)⁻¹ with N the
//! shift by one round. The sign of a descent step doesn't matter to the error and is left out.

use std::sync::Arc;

use super::{InverseRow, Rounds};
use crate::error::{Result, invalid};

/// Heavy-ball momentum with weight decay and learning rates.
#[derive(Debug, Clone, PartialEq)]
pub struct Momentum {
    /// β in [0, 1): the share of the last step's velocity that is kept.
    pub momentum: f64,
    /// λ in [0, 1): the share of the model that a round takes away (decoupled from the learning rate).
    pub weight_decay: f64,
    /// η_t, all above zero.
    pub learning_rates: LearningRates,
}

/// Learning rates whose squares f64 holds.
const RATES: std::ops::RangeInclusive<f64> = 1e-100..=1e100;

/// The learning rate of each round, all above zero. Only their ratios matter when strategies are compared.
#[derive(Debug, Clone, PartialEq)]
pub enum LearningRates {
    /// 1 in every round.
    Constant,
    /// 1 until round `from`, then falling linearly to `last` in round n−1 (the cool-down of McKenna 2024).
    CoolDown {
        /// The last round with a rate of 1.
        from: u64,
        /// The rate of round n−1.
        last: f64,
        /// n, the rounds of the run.
        iterations: u64,
    },
    /// One rate for each round.
    Each(Arc<[f64]>),
}

impl LearningRates {
    /// Returns η_t.
    #[must_use]
    pub fn at(&self, t: usize) -> f64 {
        match self {
            Self::Constant => 1.0,
            Self::CoolDown { from, last, iterations } => {
                let t = t as u64;
                let start = *from;
                let end = iterations.saturating_sub(1);
                if t <= start || end <= start {
                    return 1.0;
                }
                let share = (t - start) as f64 / (end - start) as f64;
                1.0 - (1.0 - last) * share.min(1.0)
            }
            Self::Each(rates) => rates.get(t).copied().unwrap_or(f64::NAN),
        }
    }

    fn check(&self, n: u64) -> Result<()> {
        match self {
            Self::Constant => Ok(()),
            Self::CoolDown { from, last, iterations } => {
                if *iterations != n {
                    return Err(invalid(
                        "iterations of the cool-down",
                        iterations,
                        format!("{n}, the run's"),
                    ));
                }
                if *from >= n {
                    return Err(invalid(
                        "start of the cool-down",
                        from,
                        format!("0 to {}", n.saturating_sub(1)),
                    ));
                }
                if !RATES.contains(last) {
                    return Err(invalid("last learning rate", last, "1e-100 to 1e100"));
                }
                Ok(())
            }
            Self::Each(rates) => {
                if rates.len() as u64 != n {
                    return Err(invalid(
                        "number of learning rates",
                        rates.len(),
                        format!("{n}, one for each round"),
                    ));
                }
                match rates.iter().position(|rate| !RATES.contains(rate)) {
                    Some(t) => {
                        let found = format!("{} in round {t}", rates[t]);
                        Err(invalid("learning rate", found, "1e-100 to 1e100"))
                    }
                    None => Ok(()),
                }
            }
        }
    }
}

impl Momentum {
    /// Returns momentum β with constant learning rates and no weight decay.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for β outside [0, 1).
    pub fn new(momentum: f64) -> Result<Self> {
        let made = Self { momentum, weight_decay: 0.0, learning_rates: LearningRates::Constant };
        made.check(1)?;
        Ok(made)
    }

    pub(super) fn check(&self, n: u64) -> Result<()> {
        if !(0.0..1.0).contains(&self.momentum) {
            return Err(invalid("momentum", self.momentum, "0 ≤ momentum < 1"));
        }
        if !(0.0..1.0).contains(&self.weight_decay) {
            return Err(invalid("weight_decay", self.weight_decay, "0 ≤ weight_decay < 1"));
        }
        self.learning_rates.check(n)
    }

    /// Returns 1 − λ, the share of the model that a round keeps.
    #[must_use]
    pub fn kept(&self) -> f64 {
        1.0 - self.weight_decay
    }

    /// Returns whether every round has the same learning rate.
    #[must_use]
    pub fn is_toeplitz(&self) -> bool {
        self.learning_rates == LearningRates::Constant
    }

    /// 1−ρ of A's poles at a constant rate: the model's, and the velocity's where there is any.
    pub(crate) fn poles(&self) -> Vec<f64> {
        let velocity = (self.momentum > 0.0).then_some(1.0 - self.momentum);
        std::iter::once(self.weight_decay).chain(velocity).collect()
    }

    /// The first column of A where it is Toeplitz: Σ_{i≤t} β^i (1−λ)^{t−i}.
    pub(super) fn column(&self, n: usize) -> Option<Vec<f64>> {
        let mut rounds = self.rounds();
        self.is_toeplitz().then(|| (0..n).map(|t| rounds.next(if t == 0 { 1.0 } else { 0.0 })).collect())
    }

    /// Row i of D = (I − βN)·diag(1/η)·(I − (1−λ)N).
    pub(super) fn inverse_row(&self, i: usize) -> InverseRow {
        let own = self.learning_rates.at(i).recip();
        if i == 0 {
            return [own, 0.0, 0.0];
        }
        let before = self.learning_rates.at(i - 1).recip();
        let second = if i > 1 { self.momentum * self.kept() * before } else { 0.0 };
        [own, -self.kept() * own - self.momentum * before, second]
    }

    pub(super) fn rounds(&self) -> Steps<'_> {
        Steps { of: self, round: 0, velocity: 0.0, model: 0.0 }
    }
}

/// The optimizer's own steps.
pub(super) struct Steps<'a> {
    of: &'a Momentum,
    round: usize,
    velocity: f64,
    model: f64,
}

impl Rounds for Steps<'_> {
    fn next(&mut self, gradient: f64) -> f64 {
        self.velocity = self.of.momentum * self.velocity + gradient;
        self.model = self.of.kept() * self.model + self.of.learning_rates.at(self.round) * self.velocity;
        self.round += 1;
        self.model
    }
}
