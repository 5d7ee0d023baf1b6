//! What of a budget is spent, reserved and left.

use ledger::{BlockRecord, ChargeState, ChargedJob, DataSetState, LedgerError, SweepRecord};
use proto::TenantId;
use proto::model::PrivacyBudget;

use super::bound::Bound;
use super::counted::Counted;
use super::events;
use super::readings::Readings;

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
    /// Reads the odometer of a data set; where budgets are per block, at the data set's δ, that of the block of which most is spent and
    /// reserved, which bounds the others. Many sampled jobs take seconds.
    ///
    /// # Errors
    /// [`LedgerError::Invalid`] where the charges have no figure that f64 holds.
    pub fn of(state: &DataSetState) -> Result<Self, LedgerError> {
        Self::of_budget(state, None, state.record.budget)
    }

    /// Reads the odometers of all blocks, in order of their names.
    ///
    /// # Errors
    /// Those of [`Odometer::of`].
    pub fn of_blocks(state: &DataSetState) -> Result<Vec<Self>, LedgerError> {
        let mut readings = Readings::default();
        let blocks = state.record.blocks.iter().map(|(name, BlockRecord { budget, .. })| {
            let bound = Bound { tenant: None, block: Some(name.clone()), budget: *budget };
            Self::within(&bound, state, &mut readings)
        });
        blocks.collect()
    }

    /// Returns the part of a budget of `epsilon` that is spent or reserved, at most 1.
    #[must_use]
    pub fn used(&self, epsilon: f64) -> f64 {
        1.0 - self.left / epsilon
    }

    /// Reads the odometer of the data set's budget, or of a tenant's share of it. Where they are per block it is that of the block of
    /// which most is spent and reserved.
    pub(super) fn of_budget(
        state: &DataSetState,
        tenant: Option<&TenantId>,
        budget: PrivacyBudget,
    ) -> Result<Self, LedgerError> {
        let mut fullest: Option<Self> = None;
        let mut adaptive = true;
        let mut readings = Readings::default();
        for bound in Bound::of_budget(&state.record, tenant, budget) {
            let read = Self::within(&bound, state, &mut readings)?;
            adaptive &= read.adaptive;
            if fullest.is_none_or(|fullest| fullest.spent + fullest.reserved < read.spent + read.reserved) {
                fullest = Some(read);
            }
        }
        let none = Self { spent: 0.0, reserved: 0.0, left: budget.epsilon, adaptive };
        Ok(Self { adaptive, ..fullest.unwrap_or(none) })
    }

    /// Reads the odometer of one bound, at its δ: `left` is what that bound holds beyond both, and the others may hold less.
    fn within(bound: &Bound, state: &DataSetState, readings: &mut Readings) -> Result<Self, LedgerError> {
        let (spent, _) = readings.read(bound, bound.charged(state, is_spent)?, &state.record)?;
        let (total, adaptive) = readings.read(bound, bound.charged(state, |_| true)?, &state.record)?;
        Ok(Self {
            spent,
            reserved: (total - spent).max(0.0),
            left: (bound.budget.epsilon - total).max(0.0),
            adaptive,
        })
    }
}

/// Returns ε, at the budget's δ, of all charges together, each once: for a unit whose data lies in every block.
///
/// # Errors
/// Those of [`Odometer::of`].
pub fn cost_of_all(state: &DataSetState) -> Result<f64, LedgerError> {
    let whole = Bound::whole(&state.record);
    whole.epsilon(whole.charged(state, |_| true)?, &state.record)
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
    Bound::whole(&state.record).epsilon(vec![Counted::whole(event)], &state.record)
}

/// Returns ε of a sweep's charge alone, at the budget's δ.
///
/// # Errors
/// Those of [`Odometer::of`].
pub fn sweep_cost_alone(sweep: &SweepRecord, state: &DataSetState) -> Result<f64, LedgerError> {
    let event = Counted::whole(events::of_sweep(sweep)?);
    Bound::whole(&state.record).epsilon(vec![event], &state.record)
}

/// Returns whether nothing gives the charge back.
pub fn is_spent(charged: &ChargedJob) -> bool {
    charged.rows_bound > 0 || charged.charge.state == ChargeState::Final
}
