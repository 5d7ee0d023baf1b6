//! Figures of sums with parts that are only known to be zCDP, by losses that dominate them or by Rényi divergences, whichever says
//! less.

use super::Account;
use crate::error::Result;
use crate::pld::Figure;
use crate::{renyi, zcdp};

impl Account {
    /// Returns true where ρ bounds a part, and nothing else is known of it.
    pub(super) fn is_concentrated(&self) -> bool {
        self.totals.rho > 0.0
    }

    /// Returns ε at δ.
    pub(super) fn concentrated_epsilon(&self, delta: f64, accuracy: f64) -> Result<Figure> {
        let rho = self.whole_rho();
        let by_orders = if self.totals.sampled {
            let remove = renyi::epsilon(&self.totals.remove, rho, delta);
            remove.and_then(|remove| Ok(remove.max(renyi::epsilon(&self.totals.add, rho, delta)?)))
        } else {
            zcdp::generic_epsilon(rho, delta)
        };
        let by_orders = by_orders.map(|value| Figure { value, spacing: 0.0, places: 0, coarsened: false });
        if self.is_alone() {
            return by_orders;
        }
        let by_losses = self.own_profile().and_then(|profile| profile.epsilon_figure(delta, accuracy));
        smaller(by_orders, by_losses, |figure| figure.value)
    }

    /// Returns δ at ε.
    pub(super) fn concentrated_delta(&self, epsilon: f64) -> Result<f64> {
        let rho = self.whole_rho();
        let by_orders = if self.totals.sampled {
            let remove = renyi::delta(&self.totals.remove, rho, epsilon);
            remove.and_then(|remove| Ok(remove.max(renyi::delta(&self.totals.add, rho, epsilon)?)))
        } else {
            zcdp::generic_delta(rho, epsilon)
        };
        if self.is_alone() {
            return by_orders;
        }
        smaller(by_orders, self.own_profile().and_then(|profile| profile.delta(epsilon)), |delta| *delta)
    }

    /// Returns true where there is nothing but parts that ρ bounds, whose ρ add up.
    fn is_alone(&self) -> bool {
        !self.totals.sampled && self.totals.mu_squared == 0.0
    }

    fn whole_rho(&self) -> f64 {
        self.totals.rho + self.totals.mu_squared / 2.0
    }
}

/// Returns the smaller of two upper bounds; one of them is enough.
fn smaller<T>(one: Result<T>, other: Result<T>, value: impl Fn(&T) -> f64) -> Result<T> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok(if value(&other) < value(&one) { other } else { one }),
        (Ok(found), Err(_)) | (Err(_), Ok(found)) => Ok(found),
        (Err(error), Err(_)) => Err(error),
    }
}
