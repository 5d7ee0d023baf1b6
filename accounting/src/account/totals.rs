//! The sums that figures are read off.

use super::selection::Selection;
use crate::error::{Result, not_negative, positive};
use crate::neighbouring::{Direction, Neighbouring};
use crate::pld::{Composition, Round};
use crate::zcdp;

/// The parts of an event, added up by kind under one neighbouring relation.
#[derive(Debug, Clone, PartialEq)]
pub struct Totals {
    pub neighbouring: Neighbouring,
    /// Gaussian mechanisms compose to one, with the sum of their μ².
    pub mu_squared: f64,
    /// ρ of the parts that are only known to be zCDP.
    pub rho: f64,
    /// The sampled rounds, with the record against without it.
    pub remove: Composition,
    /// The sampled rounds, without the record against with it.
    pub add: Composition,
    /// True where any round is sampled.
    pub sampled: bool,
    /// The best of several runs, of which only Rényi divergences are known, and how often.
    pub selections: Vec<(Selection, u64)>,
    /// The probability with which any part leaves its mechanism, whichever the data.
    pub failure: f64,
}

impl Totals {
    pub fn new(neighbouring: Neighbouring) -> Self {
        Self {
            neighbouring,
            mu_squared: 0.0,
            rho: 0.0,
            remove: Composition::default(),
            add: Composition::default(),
            sampled: false,
            selections: Vec::new(),
            failure: 0.0,
        }
    }

    /// Adds `count` Gaussian mechanisms, exactly.
    pub fn add_gaussian(&mut self, sensitivity: f64, noise_multiplier: f64, count: u64) -> Result<()> {
        not_negative("sensitivity", sensitivity)?;
        let mu = self.neighbouring.factor() * sensitivity / positive("noise multiplier", noise_multiplier)?;
        if mu > 0.0 && count > 0 {
            let more = zcdp::squared(mu) * count as f64;
            self.mu_squared = not_negative("sum of mu²", self.mu_squared + more)?;
        }
        Ok(())
    }

    /// Adds `count` ρ-zCDP mechanisms. zCDP of a chain of two neighbours is that of one, times 2².
    pub fn add_zcdp(&mut self, rho: f64, count: u64) -> Result<()> {
        let factor = self.neighbouring.factor();
        self.rho = not_negative("rho", self.rho + factor * factor * rho * count as f64)?;
        Ok(())
    }

    /// Adds the probability with which each of `count` parts leaves its mechanism.
    pub fn add_failure(&mut self, failure: f64, count: u64) -> Result<()> {
        let failure = not_negative("failure probability", failure)?;
        self.failure = not_negative("failure probability", self.failure + failure * count as f64)?;
        Ok(())
    }

    /// Adds `count` selections among runs.
    pub fn add_selection(&mut self, selection: Selection, count: u64) {
        if count > 0 {
            self.selections.push((selection, count));
        }
    }

    /// Adds `count` sampled rounds; `round` is evaluated once for each direction.
    pub fn add_rounds(&mut self, count: u64, round: impl Fn(Direction) -> Result<Round>) -> Result<()> {
        self.remove.add(round(Direction::Remove)?, count)?;
        self.add.add(round(Direction::Add)?, count)?;
        self.sampled |= count > 0;
        Ok(())
    }
}
