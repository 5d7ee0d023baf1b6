//! Calibration: the noise, rounds, sampling or participations that meet an (ε, δ).

use strategy::{Participation, Strategy};

use crate::account::Account;
use crate::error::{Result, positive, probability};
use crate::event::Event;
use crate::gaussian;
use crate::neighbouring::Neighbouring;
use crate::pld::{ACCURACY, MAX_ROUNDS};
use crate::search::{self, Range};

/// The guarantee to meet: ε at most `epsilon` at `delta`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    /// Above 0, in nats.
    pub epsilon: f64,
    /// Strictly between 0 and 1.
    pub delta: f64,
    /// The relation under which the guarantee holds.
    pub neighbouring: Neighbouring,
}

impl Target {
    fn check(&self) -> Result<()> {
        positive("epsilon", self.epsilon)?;
        probability("delta", self.delta).map(|_| ())
    }

    fn account(&self, event: Result<Event>) -> Result<Account> {
        Account::new(&event?, self.neighbouring)
    }

    fn exact(&self, event: Result<Event>) -> Result<f64> {
        Ok(self.account(event)?.epsilon_figure(self.delta, ACCURACY)?.value)
    }

    /// Searches with an estimate first, which is a thousand times as fast, then near-exactly from there.
    fn search(
        &self,
        range: Range,
        find: impl Fn(Range, f64, &mut dyn FnMut(f64) -> Result<f64>) -> Result<f64>,
        event: impl Fn(f64) -> Result<Event>,
    ) -> Result<f64> {
        self.check()?;
        let mut rough = |x| self.account(event(x))?.rough_epsilon(self.delta);
        // An estimate is no bound, so its failure refuses nothing.
        let start = find(range, self.epsilon, &mut rough).unwrap_or(range.start);
        find(Range { start, ..range }, self.epsilon, &mut |x| self.exact(event(x)))
    }
}

/// Returns the smallest noise multiplier, from 1e−3 to 1e9 and within 0.02 % of ε, for an event that depends on it.
///
/// # Errors
/// The errors of `event`; [`crate::AccountingError::OutOfReach`] naming the range tried.
pub fn noise_multiplier(target: Target, event: impl Fn(f64) -> Result<Event>) -> Result<f64> {
    let range = Range { what: "noise multiplier", start: 1.0, least: 1e-3, most: 1e9 };
    target.search(range, |range, epsilon, at| search::smallest(range, epsilon, at), event)
}

/// Returns the largest sampling probability, from 1e−12 to 1, for an event that depends on it.
///
/// # Errors
/// Those of [`noise_multiplier`].
pub fn sampling_probability(target: Target, event: impl Fn(f64) -> Result<Event>) -> Result<f64> {
    let range = Range { what: "sampling probability", start: 0.01, least: 1e-12, most: 1.0 };
    target.search(range, |range, epsilon, at| search::largest(range, epsilon, at), event)
}

/// Returns the largest number of rounds, up to 2⁴⁰, for an event that depends on it.
///
/// # Errors
/// Those of [`noise_multiplier`]; [`crate::AccountingError::OutOfReach`] where one round is too many.
pub fn iterations(target: Target, event: impl Fn(u64) -> Result<Event>) -> Result<u64> {
    target.check()?;
    let exact = |rounds| target.exact(event(rounds));
    search::largest_count("number of iterations", MAX_ROUNDS, target.epsilon, exact)
}

/// Returns the largest number of participations, at most ⌈n/min_sep⌉, of one user in `n` rounds of a strategy with noise
/// multiplier σ.
///
/// # Errors
/// Those of [`iterations`], and those of the strategy.
pub fn participations(
    target: Target,
    strategy: &Strategy,
    n: u64,
    min_sep: u64,
    noise_multiplier: f64,
) -> Result<u64> {
    target.check()?;
    positive("noise multiplier", noise_multiplier)?;
    let most = Participation::new(min_sep, u64::MAX)?.in_rounds(n).max(1);
    let factor = target.neighbouring.factor();
    search::largest_count("number of participations", most, target.epsilon, |k| {
        let sensitivity = strategy.sensitivity(n, Participation::new(min_sep, k)?)?.value;
        if sensitivity == 0.0 {
            return Ok(0.0);
        }
        gaussian::epsilon(target.delta, factor * sensitivity / noise_multiplier)
    })
}

impl From<(f64, f64)> for Target {
    /// Reads (ε, δ) as a target under zeroing out.
    fn from((epsilon, delta): (f64, f64)) -> Self {
        Self { epsilon, delta, neighbouring: Neighbouring::ZeroOut }
    }
}
