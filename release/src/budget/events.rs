//! The event that a job is charged for, and what the accountant says of a composition.

use accounting::{AccountingError, Event, MatrixMechanism, Neighbouring, Sampling};
use ledger::{ChargeState, ChargedJob, LedgerError, SweepRecord};
use plan::Plan;
use proto::model::{BudgetedAccount, NeighbouringRelation};
use proto::{JobId, Result, ServiceError};

/// Describes the whole run of a plan under the account that a job states.
///
/// # Errors
/// [`ServiceError::InvalidArgument`] for a plan without noise, for batches without an event, and where no account is known
/// under the relation, as none is for a plan on a grid under add-remove.
pub fn planned_event(plan: &Plan, account: &BudgetedAccount) -> Result<Event> {
    if plan.accounted_noise_multiplier() <= 0.0 {
        let allowed = "above 0: without noise no budget holds a job";
        return Err(ServiceError::invalid("noise_multiplier", plan.noise_multiplier(), allowed));
    }
    if account.neighbouring == NeighbouringRelation::AddRemove && plan.on_grid().is_some() {
        let allowed = "zero-out, replace for a plan on a grid, as a batch of one record fewer may change the bits of other gradients, \
                       which no summing error covers (docs/grid.md)";
        return Err(ServiceError::invalid("account.neighbouring", account.neighbouring, allowed));
    }
    let sampling = match account.sampling.as_str() {
        "" => Sampling::AnyOrder,
        text => serde_json::from_str(text).map_err(|error| {
            let allowed = format!("any-order or cyclic-poisson, whose events compose ({error})");
            ServiceError::invalid("account.sampling", text, allowed)
        })?,
    };
    let event = report::event::for_plan(plan, sampling)
        .map_err(|error| ServiceError::invalid("account.sampling", &account.sampling, error.to_string()))?;
    let relation = account.neighbouring;
    event
        .supports(of_relation(relation))
        .map_err(|error| ServiceError::invalid("account.neighbouring", relation, error.to_string()))?;
    Ok(event)
}

pub fn of_relation(relation: NeighbouringRelation) -> Neighbouring {
    match relation {
        NeighbouringRelation::ZeroOut => Neighbouring::ZeroOut,
        NeighbouringRelation::AddRemove => Neighbouring::AddRemove,
        NeighbouringRelation::Replace => Neighbouring::Replace,
    }
}

/// Returns the event's JSON, as it is charged and compared.
pub fn to_text(event: &Event) -> Result<String, LedgerError> {
    serde_json::to_string(event).map_err(|error| invalid("event", error, "numbers that JSON can hold"))
}

/// Reads a charge. Error: a newer build wrote it.
pub fn from_text(job: &JobId, text: &str) -> Result<Event, LedgerError> {
    read(format!("that of job {job}"), text)
}

fn read(whose: String, text: &str) -> Result<Event, LedgerError> {
    serde_json::from_str(text)
        .map_err(|error| invalid("charge", whose, format!("an event that this build reads ({error})")))
}

/// Returns whether the charge is its job's own, and not given back.
pub fn costs(charged: &ChargedJob) -> bool {
    charged.charge.state != ChargeState::GivenBack && charged.charge.sweep.is_none()
}

/// Reads the charge of a sweep. Error: a newer build wrote it.
pub fn of_sweep(sweep: &SweepRecord) -> Result<Event, LedgerError> {
    read(format!("that of sweep {}", sweep.sweep), &sweep.charge)
}

/// Returns the event without the digest of its plan, which no account depends on: runs may differ in their clip norm.
pub fn of_any_plan(event: &Event) -> Event {
    match event {
        Event::MatrixMechanism(run) => {
            Event::MatrixMechanism(MatrixMechanism { plan_digest: String::new(), ..run.clone() })
        }
        other => other.clone(),
    }
}

/// Returns the event with another noise multiplier.
pub fn with_noise(event: &Event, noise_multiplier: f64) -> Event {
    match event {
        Event::MatrixMechanism(run) => {
            Event::MatrixMechanism(MatrixMechanism { noise_multiplier, ..run.clone() })
        }
        Event::RepeatAndSelect { event, mean, shape } => {
            let event = Box::new(with_noise(event, noise_multiplier));
            Event::RepeatAndSelect { event, mean: *mean, shape: *shape }
        }
        other => other.clone(),
    }
}

pub fn unaccounted(error: AccountingError) -> LedgerError {
    invalid("account", "without a figure", error.to_string())
}

pub fn invalid(field: &'static str, value: impl ToString, allowed: impl Into<String>) -> LedgerError {
    LedgerError::Invalid { field, value: value.to_string(), allowed: allowed.into() }
}
