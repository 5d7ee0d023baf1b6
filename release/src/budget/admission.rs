//! Admission: a charge is taken on only where the budget holds it beside all others.

use accounting::Event;
use accounting::calibration::{Target, noise_multiplier};
use ledger::{Created, DataSetRecord, DataSetState, Head, Ledger, LedgerError, Reservation};
use proto::model::{BudgetedAccount, PrivacyBudget};
use proto::{BudgetShortfall, DataSetId, JobId};

use super::decision::decide;
use super::events::{self, invalid};
use super::odometer::is_spent;
use crate::job::JobDefinition;

/// The part of ε by which a composition may come out lower when its parts are in another order, or read again from JSON.
const ROUNDING: f64 = 1e-12;

/// Creates a job whose whole plan, `event`, its data set's budget holds. A job that exists under the same definition and
/// account reserves nothing more.
///
/// # Errors
/// [`LedgerError::BudgetExceeded`] where the budget does not hold it, with the least noise multiplier that would fit;
/// [`LedgerError::NotFound`] for an unknown data set; [`LedgerError::Invalid`] for an account of another unit or relation
/// than the data set's; and those of [`Ledger::create_job`].
pub fn create_job(
    ledger: &Ledger,
    job: &JobDefinition,
    account: &BudgetedAccount,
    event: &Event,
) -> Result<Created, LedgerError> {
    decide(|| create_admitted(ledger, job, &admit(ledger, &job.record.job, account, event)?))
}

/// The admission of a job by the budget of a data set as it was.
#[derive(Clone, Debug)]
pub struct Admission(Reservation);

/// Decides whether the budget holds a job, and writes nothing: what takes time of [`create_job`], for callers who then hold a
/// lock while they create the job.
///
/// # Errors
/// Those of [`create_job`].
pub fn admit(
    ledger: &Ledger,
    job: &JobId,
    account: &BudgetedAccount,
    event: &Event,
) -> Result<Admission, LedgerError> {
    let text = events::to_text(event)?;
    let state = ledger.data_set(&account.data_set)?;
    check_same_neighbours(&state.record, account)?;
    let expected = match ledger.job(job)? {
        Some(_) => None,
        None => Some(admitted(&state, event)?),
    };
    let data_set = account.data_set.clone();
    Ok(Admission(Reservation { data_set, event: text, expected, sweep: None }))
}

/// Creates the job that was admitted.
///
/// # Errors
/// [`LedgerError::DataSetChanged`] where the data set has changed since: admit it again. Else those of
/// [`Ledger::create_job`].
pub fn create_admitted(
    ledger: &Ledger,
    job: &JobDefinition,
    admission: &Admission,
) -> Result<Created, LedgerError> {
    ledger.create_charged_job(&job.record, &job.shards, Some(&admission.0))
}

/// Compares the account's unit and relation with the data set's: those of a job that exists too, whose event does not have
/// the unit.
pub fn check_same_neighbours(record: &DataSetRecord, account: &BudgetedAccount) -> Result<(), LedgerError> {
    let DataSetRecord { unit, neighbouring, .. } = *record;
    let of_data_set = |word: &str| format!("{word}, as that of data set {}", account.data_set);
    if account.unit != unit {
        return Err(invalid("account.unit", account.unit, of_data_set(unit.name())));
    }
    if account.neighbouring != neighbouring {
        return Err(invalid("account.neighbouring", account.neighbouring, of_data_set(neighbouring.name())));
    }
    Ok(())
}

/// Returns the end of the chain on which the event was found to fit.
pub fn admitted(state: &DataSetState, event: &Event) -> Result<Head, LedgerError> {
    let others = events::charged(state, |_| true)?;
    check_fits(state, others, event, || least_noise(state, event))?;
    Ok(state.head)
}

/// Checks that the budget holds `asked` beside `others`. `fits` is the noise multiplier that it would hold, if any.
pub fn check_fits(
    state: &DataSetState,
    others: Vec<Event>,
    asked: &Event,
    fits: impl FnOnce() -> Option<f64>,
) -> Result<(), LedgerError> {
    let PrivacyBudget { epsilon: budget, delta } = state.record.budget;
    let before = events::epsilon(others.clone(), &state.record)?;
    let all = [others, vec![asked.clone()]].concat();
    let total = events::epsilon(all, &state.record)?;
    if total * (1.0 + ROUNDING) <= budget {
        return Ok(());
    }
    let spent = events::epsilon(events::charged(state, is_spent)?, &state.record)?;
    let digits = |epsilon: f64| format!("{epsilon:.6}");
    Err(LedgerError::BudgetExceeded(Box::new(BudgetShortfall {
        data_set: state.record.data_set.to_string(),
        delta: delta.to_string(),
        budget: budget.to_string(),
        spent: digits(spent),
        reserved: digits((before - spent).max(0.0)),
        asked: digits(events::epsilon(vec![asked.clone()], &state.record)?),
        total: digits(total),
        fits: fits().map(rounded_up).unwrap_or_default(),
    })))
}

/// Returns the least noise multiplier with which the budget would hold the event beside all charges; `None` where no noise
/// up to 10⁹ is enough.
fn least_noise(state: &DataSetState, event: &Event) -> Option<f64> {
    let PrivacyBudget { epsilon, delta } = state.record.budget;
    let others = events::charged(state, |_| true).ok()?;
    let neighbouring = events::of_relation(state.record.neighbouring);
    // Noise runs as f32, which may be that much less than the plan says.
    let target = Target { epsilon: epsilon * (1.0 - 1e-6), delta, neighbouring };
    let with = |noise: f64| {
        let asked = events::with_noise(event, noise);
        Ok(Event::Composed { events: [others.clone(), vec![asked]].concat() })
    };
    noise_multiplier(target, with).ok()
}

/// Writes a number with five significant digits, rounded up.
fn rounded_up(number: f64) -> String {
    let decimals = (4 - number.log10().floor() as i32).max(0);
    let scale = 10_f64.powi(decimals);
    format!("{:.*}", decimals as usize, (number * scale).ceil() / scale)
}

/// Replaces a data set's budget by one that holds all charges.
///
/// # Errors
/// [`LedgerError::Invalid`] for a budget below what is spent and reserved; [`LedgerError::NotFound`].
pub fn grant(ledger: &Ledger, data_set: &DataSetId, budget: PrivacyBudget) -> Result<(), LedgerError> {
    decide(|| {
        let state = ledger.data_set(data_set)?;
        let record = DataSetRecord { budget, ..state.record.clone() };
        let total = events::epsilon(events::charged(&state, |_| true)?, &record)?;
        if total * (1.0 + ROUNDING) > budget.epsilon {
            let least = rounded_up(total * (1.0 + ROUNDING));
            let allowed = format!(
                "at least {least}, which is spent and reserved in data set {data_set} at δ = {}",
                budget.delta
            );
            return Err(invalid("epsilon", budget.epsilon, allowed));
        }
        ledger.grant_budget(data_set, budget, state.head)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_up() {
        for (number, text) in
            [(5.12341, "5.1235"), (5.0, "5.0000"), (0.012_345_61, "0.012346"), (123_456.1, "123457")]
        {
            assert_eq!(rounded_up(number), text);
        }
    }
}
