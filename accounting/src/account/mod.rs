//! The account of an event, and the mathematics that each of its figures comes from.
//!
//! `interpret` turns an event into `totals`; the figures here are read off these. Events know nothing of accounts.

mod concentrated;
mod curve;
mod divergences;
mod fixed_size;
mod interpret;
mod known;
mod run_count;
mod selection;
mod totals;
mod truncated;

pub use self::curve::RenyiCurve;
pub use self::run_count::RunCount;
use self::totals::Totals;
use crate::error::{AccountingError, Result, not_negative, probability};
use crate::event::Event;
use crate::failure;
use crate::neighbouring::Neighbouring;
use crate::pld::{ACCURACY, Figure, Pair, Profile};
use crate::{dominating, gaussian};

/// The privacy cost of an event under one neighbouring relation.
#[derive(Debug, Clone, PartialEq)]
pub struct Account {
    totals: Totals,
}

impl Account {
    /// Builds the account of an event under one neighbouring relation.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] naming a number and its range; [`AccountingError::Unsupported`] where no
    /// account of the event is known under this relation.
    pub fn new(event: &Event, neighbouring: Neighbouring) -> Result<Self> {
        Ok(Self { totals: interpret::interpret(event, neighbouring)? })
    }

    /// Returns the relation that every figure holds under.
    #[must_use]
    pub fn neighbouring(&self) -> Neighbouring {
        self.totals.neighbouring
    }

    /// Returns ρ of zero-concentrated DP, that of the mechanism where a run may leave it; `None` where any round is sampled.
    #[must_use]
    pub fn rho(&self) -> Option<f64> {
        (!self.totals.sampled && self.totals.selections.is_empty())
            .then_some(self.totals.rho + self.totals.mu_squared / 2.0)
    }

    /// Returns the privacy-loss distributions of both directions. Parts that are only known to be zCDP have that of the worst of
    /// all mechanisms with their ρ, or more.
    ///
    /// # Errors
    /// [`AccountingError::Unsupported`] where a part is the best of several runs, or may leave its mechanism.
    pub fn profile(&self) -> Result<Profile> {
        if self.totals.failure > 0.0 {
            let why =
                "a run that may leave its mechanism has no distribution of losses, but ε and δ".to_owned();
            return Err(AccountingError::Unsupported { event: "matrix-mechanism", why });
        }
        self.own_profile()
    }

    /// The distributions of the mechanism that nothing leaves.
    fn own_profile(&self) -> Result<Profile> {
        if !self.totals.selections.is_empty() {
            let why = "Rényi divergences bound its loss without giving a distribution".to_owned();
            return Err(AccountingError::Unsupported { event: "repeat-and-select", why });
        }
        let mut profile = Profile { remove: self.totals.remove.clone(), add: self.totals.add.clone() };
        if self.totals.mu_squared > 0.0 {
            let pair = Pair::gaussian(self.totals.mu_squared.sqrt())?;
            profile.remove.add(pair.clone().into(), 1)?;
            profile.add.add(pair.into(), 1)?;
        }
        if self.totals.rho > 0.0 {
            let losses = dominating::of_zcdp(self.totals.rho)?;
            profile.remove.add(losses.clone().into(), 1)?;
            profile.add.add(losses.into(), 1)?;
        }
        Ok(profile)
    }

    /// Returns ε at `delta`, never below the exact one. It is exact for Gaussian mechanisms; sampled rounds go through
    /// privacy-loss distributions, which aim at 0.002 % above the exact ε; so do parts that are only known to be zCDP, as
    /// the worst of all such mechanisms, unless their Rényi divergences say less.
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] unless 0 < δ < 1; [`AccountingError::OutOfReach`] where f64 can't hold ε.
    pub fn epsilon(&self, delta: f64) -> Result<f64> {
        Ok(self.epsilon_figure(delta, ACCURACY)?.value)
    }

    /// Returns ε at `delta` to a given relative accuracy, with the grid that was used. Where no grid was needed the
    /// spacing is 0.
    ///
    /// # Errors
    /// Those of [`Self::epsilon`].
    pub fn epsilon_figure(&self, delta: f64, accuracy: f64) -> Result<Figure> {
        probability("delta", delta)?;
        let own = |delta| self.own_figure(delta, accuracy);
        failure::at_delta(delta, self.totals.failure, own, |figure| figure.value)
    }

    /// ε of the mechanism that nothing leaves.
    fn own_figure(&self, delta: f64, accuracy: f64) -> Result<Figure> {
        if !self.totals.selections.is_empty() {
            let value = self.totals.selected_epsilon(delta)?;
            return Ok(Figure { value, spacing: 0.0, places: 0, coarsened: false });
        }
        if self.is_concentrated() {
            return self.concentrated_epsilon(delta, accuracy);
        }
        if self.totals.sampled {
            return self.sampled_epsilon(delta, accuracy);
        }
        let value = if self.totals.mu_squared > 0.0 {
            gaussian::epsilon(delta, self.totals.mu_squared.sqrt())?
        } else {
            0.0
        };
        Ok(Figure { value, spacing: 0.0, places: 0, coarsened: false })
    }

    /// ε by distributions of losses. Where their grid would be too large, a coarse one may say more than Rényi divergences.
    fn sampled_epsilon(&self, delta: f64, accuracy: f64) -> Result<Figure> {
        let figure = self.own_profile()?.epsilon_figure(delta, accuracy)?;
        if !figure.coarsened {
            return Ok(figure);
        }
        let by_orders = RenyiCurve::of_totals(&self.totals).and_then(|curve| curve.own_epsilon(delta));
        Ok(Figure { value: by_orders.map_or(figure.value, |value| value.min(figure.value)), ..figure })
    }

    /// Returns δ at `epsilon`, by the same mathematics as [`Self::epsilon`].
    ///
    /// # Errors
    /// [`AccountingError::Invalid`] unless ε ≥ 0 is finite.
    pub fn delta(&self, epsilon: f64) -> Result<f64> {
        not_negative("epsilon", epsilon)?;
        failure::delta(epsilon, self.totals.failure, self.own_delta(epsilon)?)
    }

    /// δ of the mechanism that nothing leaves.
    fn own_delta(&self, epsilon: f64) -> Result<f64> {
        if !self.totals.selections.is_empty() {
            return self.totals.selected_delta(epsilon);
        }
        if self.is_concentrated() {
            return self.concentrated_delta(epsilon);
        }
        if self.totals.sampled {
            return self.own_profile()?.delta(epsilon);
        }
        if self.totals.mu_squared > 0.0 {
            gaussian::delta(epsilon, self.totals.mu_squared.sqrt())
        } else {
            Ok(0.0)
        }
    }

    pub(crate) fn rough_epsilon(&self, delta: f64) -> Result<f64> {
        if self.totals.sampled && self.totals.rho == 0.0 && self.totals.selections.is_empty() {
            return Ok(self.own_profile()?.rough_epsilon(delta));
        }
        self.epsilon(delta)
    }
}

impl Event {
    /// Checks that the event has an account under this relation.
    ///
    /// # Errors
    /// [`AccountingError::Unsupported`] with the reason, or [`AccountingError::Invalid`] naming a number and its range.
    pub fn supports(&self, neighbouring: Neighbouring) -> Result<()> {
        Account::new(self, neighbouring).map(|_| ())
    }
}
