//! What of a budget is spent, reserved and left.

use ledger::{ChargeState, ChargedJob, DataSetState, LedgerError, SweepRecord};

use super::bound::Bound;
use super::events;

/// ε at the budget's δ: of what nothing gives back, of what else is charged, and of the rest. The three sum to the budget's
/// ε, unless an adoption of the ledger has charged more than that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Odometer {
    /// ε of the charges of all sweeps, and of all jobs that have bound a row, composed.
    pub spent: f64,
    /// By how much ε grows with the charges of jobs that have bound none.
    pub reserved: f64,
    /// What the budget holds beyond both.
    pub left: f64,
    /// Whether the figures also hold where the parameters of later jobs depended on what earlier ones released: for Gaussian
    /// mechanisms and zCDP alone, whose squares and ρ may be summed up to a bound fixed beforehand.
    pub adaptive: bool,
}

impl Odometer {
    /// Reads the odometer of a data set. Many sampled jobs take seconds.
    ///
    /// # Errors
    /// [`LedgerError::Invalid`] where the charges have no figure that f64 holds.
    pub fn of(state: &DataSetState) -> Result<Self, LedgerError> {
        Self::within(&Bound::whole(&state.record), state)
    }

    /// Reads the odometer of one bound, at its δ: `left` is what that bound holds beyond both, and the others may hold less.
    pub(super) fn within(bound: &Bound, state: &DataSetState) -> Result<Self, LedgerError> {
        let spent = bound.epsilon(bound.charged(state, is_spent)?, &state.record)?;
        let all = events::composed(bound.charged(state, |_| true)?, &state.record)?;
        let total = bound.epsilon_of(&all)?;
        Ok(Self {
            spent,
            reserved: (total - spent).max(0.0),
            left: (bound.budget.epsilon - total).max(0.0),
            adaptive: all.rho().is_some(),
        })
    }
}

/// Returns ε of one job's charge alone, at the budget's δ; 0 for what was given back, and for a run of a sweep.
///
/// # Errors
/// Those of [`Odometer::of`].
pub fn cost_alone(charged: &ChargedJob, state: &DataSetState) -> Result<f64, LedgerError> {
    if !events::costs(charged) {
        return Ok(0.0);
    }
    let event = events::from_text(&charged.job, &charged.charge.event)?;
    Bound::whole(&state.record).epsilon(vec![event], &state.record)
}

/// Returns ε of a sweep's charge alone, at the budget's δ.
///
/// # Errors
/// Those of [`Odometer::of`].
pub fn sweep_cost_alone(sweep: &SweepRecord, state: &DataSetState) -> Result<f64, LedgerError> {
    Bound::whole(&state.record).epsilon(vec![events::of_sweep(sweep)?], &state.record)
}

/// Returns whether nothing gives the charge back.
pub fn is_spent(charged: &ChargedJob) -> bool {
    charged.rows_bound > 0 || charged.charge.state == ChargeState::Final
}
