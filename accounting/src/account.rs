//! The account of an event: what was composed, and by which mathematics its figures come.

use crate::error::{AccountingError, Result, not_negative, positive, probability};
use crate::event::{Event, lower};
use crate::gaussian;
use crate::neighbouring::{Direction, Neighbouring};
use crate::pld::{ACCURACY, Composition, Figure, Pair, Profile, Round};
use crate::{renyi, zcdp};

/// What events cost under one neighbouring relation.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    neighbouring: Neighbouring,
    /// Gaussian mechanisms compose to one, with the sum of their μ².
    mu_squared: f64,
    /// ρ of what is only known to be zCDP.
    rho: f64,
    remove: Composition,
    add: Composition,
    sampled: bool,
}

impl Account {
    /// Works out what an event is composed of.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] naming a number and its range; [`AccountingError::Unsupported`] where no
    /// account of the event is known under this relation.
    pub fn of(event: &Event, neighbouring: Neighbouring) -> Result<Self> {
        let mut account = Self {
            neighbouring,
            mu_squared: 0.0,
            rho: 0.0,
            remove: Composition::default(),
            add: Composition::default(),
            sampled: false,
        };
        lower::add(&mut account, event, 1, 0)?;
        Ok(account)
    }

    /// The relation that every figure holds under.
    #[must_use]
    pub fn neighbouring(&self) -> Neighbouring {
        self.neighbouring
    }

    pub(crate) fn gaussian(&mut self, sensitivity: f64, noise_multiplier: f64, count: u64) -> Result<()> {
        not_negative("sensitivity", sensitivity)?;
        let mu = self.neighbouring.factor() * sensitivity / positive("noise multiplier", noise_multiplier)?;
        if mu > 0.0 && count > 0 {
            let more = zcdp::squared(mu) * count as f64;
            self.mu_squared = not_negative("sum of mu²", self.mu_squared + more)?;
        }
        Ok(())
    }

    /// zCDP of a chain of two neighbours is that of one, times 2².
    pub(crate) fn zcdp(&mut self, rho: f64, count: u64) -> Result<()> {
        let factor = self.neighbouring.factor();
        self.rho = not_negative("rho", self.rho + factor * factor * rho * count as f64)?;
        Ok(())
    }

    pub(crate) fn rounds(&mut self, count: u64, round: impl Fn(Direction) -> Result<Round>) -> Result<()> {
        self.remove.add(round(Direction::Remove)?, count)?;
        self.add.add(round(Direction::Add)?, count)?;
        self.sampled |= count > 0;
        Ok(())
    }

    /// ρ where all of it is zCDP without anything sampled.
    #[must_use]
    pub fn rho(&self) -> Option<f64> {
        (!self.sampled).then_some(self.rho + self.mu_squared / 2.0)
    }

    /// Both directions as privacy-loss distributions.
    ///
    /// # Errors
    /// [`AccountingError::Unsupported`] where part of it is only known to be zCDP.
    pub fn profile(&self) -> Result<Profile> {
        if self.rho > 0.0 {
            let why = "ρ bounds a loss without giving its distribution".to_owned();
            return Err(AccountingError::Unsupported { event: "z-cdp", why });
        }
        let mut profile = Profile { remove: self.remove.clone(), add: self.add.clone() };
        if self.mu_squared > 0.0 {
            let pair = Pair::gaussian(self.mu_squared.sqrt())?;
            profile.remove.add(pair.clone().into(), 1)?;
            profile.add.add(pair.into(), 1)?;
        }
        Ok(profile)
    }

    /// ε at `delta`: exact for Gaussian mechanisms, by privacy-loss distributions where rounds are sampled (aimed
    /// at 0.002 % above the exact one), by Rényi divergences where part of it is only known to be zCDP. Never
    /// below the exact one.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] unless 0 < δ < 1; [`AccountingError::OutOfReach`] where f64 can't hold ε.
    pub fn epsilon(&self, delta: f64) -> Result<f64> {
        Ok(self.epsilon_figure(delta, ACCURACY)?.value)
    }

    /// As [`Self::epsilon`], with an accuracy and the grid that was used (none: spacing 0).
    ///
    /// # Errors
    /// As [`Self::epsilon`].
    pub fn epsilon_figure(&self, delta: f64, accuracy: f64) -> Result<Figure> {
        probability("delta", delta)?;
        if self.sampled && self.rho == 0.0 {
            return self.profile()?.epsilon_figure(delta, accuracy);
        }
        let value = if self.sampled {
            renyi::epsilon(&self.remove, self.zcdp_part(), delta)?.max(renyi::epsilon(
                &self.add,
                self.zcdp_part(),
                delta,
            )?)
        } else if self.rho > 0.0 {
            zcdp::generic_epsilon(self.zcdp_part(), delta)?
        } else if self.mu_squared > 0.0 {
            gaussian::epsilon(delta, self.mu_squared.sqrt())?
        } else {
            0.0
        };
        Ok(Figure { value, spacing: 0.0, places: 0, coarsened: false })
    }

    fn zcdp_part(&self) -> f64 {
        self.rho + self.mu_squared / 2.0
    }

    /// δ at ε, as [`Self::epsilon`].
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] unless ε ≥ 0 is finite.
    pub fn delta(&self, epsilon: f64) -> Result<f64> {
        not_negative("epsilon", epsilon)?;
        if self.sampled && self.rho == 0.0 {
            return self.profile()?.delta(epsilon);
        }
        if self.sampled {
            let remove = renyi::delta(&self.remove, self.zcdp_part(), epsilon)?;
            return Ok(remove.max(renyi::delta(&self.add, self.zcdp_part(), epsilon)?));
        }
        if self.rho > 0.0 {
            return zcdp::generic_delta(self.zcdp_part(), epsilon);
        }
        if self.mu_squared > 0.0 { gaussian::delta(epsilon, self.mu_squared.sqrt()) } else { Ok(0.0) }
    }

    pub(crate) fn rough_epsilon(&self, delta: f64) -> Result<f64> {
        if self.sampled && self.rho == 0.0 {
            return Ok(self.profile()?.rough_epsilon(delta));
        }
        self.epsilon(delta)
    }
}
