//! Admission: a charge is taken on only where the budget holds it beside all others.

use std::collections::BTreeSet;

use accounting::Event;
use accounting::calibration::{Target, noise_multiplier};
use ledger::{ChargedJob, Created, DataSetRecord, DataSetState, Head, Ledger, LedgerError, Reservation};
use proto::model::{BudgetedAccount, PrivacyBudget};
use proto::{BlockId, BudgetShortfall, DataSetId, JobId};

use super::bound::{Bound, ChargeKind};
use super::counted::{Counted, together};
use super::decision::decide;
use super::events::{self, invalid};
use super::odometer::is_spent;
use super::rounding::{ROUNDING, rounded_up};
use super::{blocks, quick, shares};
use crate::job::JobDefinition;

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
        None => {
            state.record.check_blocks(&account.blocks)?;
            Some(admitted(&state, event, ChargeKind::Job(account.tenant.as_ref()), &account.blocks)?)
        }
    };
    let BudgetedAccount { data_set, tenant, blocks, .. } = account.clone();
    Ok(Admission(Reservation { data_set, event: text, expected, sweep: None, tenant, blocks }))
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

/// Returns the end of the chain on which the event was found to fit, in the tenant's share, in the whole and in each block.
pub fn admitted(
    state: &DataSetState,
    event: &Event,
    kind: ChargeKind<'_>,
    blocks: &BTreeSet<BlockId>,
) -> Result<Head, LedgerError> {
    let bounds = Bound::of_charge(&state.record, kind, blocks)?;
    let all = |_: &ChargedJob| true;
    let fits = || least_noise(state, &bounds, event, blocks);
    for bound in &bounds {
        let asked = bound.counted(event.clone(), blocks, &state.record);
        check_fits(state, bound, all, &asked, fits)?;
    }
    Ok(state.head)
}

/// Checks that the bound holds `asked` beside those of its charges that `others` selects: quickly where it clearly does. `fits`
/// is the noise multiplier that it would hold, if any.
pub fn check_fits(
    state: &DataSetState,
    bound: &Bound,
    others: impl Fn(&ChargedJob) -> bool,
    asked: &Counted,
    fits: impl FnOnce() -> Option<f64>,
) -> Result<(), LedgerError> {
    let PrivacyBudget { epsilon: budget, delta } = bound.budget;
    if quick::clearly_holds(state, bound, &others, asked) {
        return Ok(());
    }
    let others = bound.charged(state, others)?;
    let all = [others, vec![asked.clone()]].concat();
    let total = quick::epsilon_to_decide(bound, &bound.account(all, &state.record)?)?;
    if total * (1.0 + ROUNDING) <= budget {
        return Ok(());
    }
    // Those of the whole data set, a rewound job's former charge among them: they sum to the budget.
    let charged = bound.epsilon(bound.charged(state, |_| true)?, &state.record)?;
    let spent = bound.epsilon(bound.charged(state, is_spent)?, &state.record)?;
    let digits = |epsilon: f64| format!("{epsilon:.6}");
    Err(LedgerError::BudgetExceeded(Box::new(BudgetShortfall {
        data_set: state.record.data_set.to_string(),
        tenant: bound.tenant.as_ref().map_or_else(String::new, ToString::to_string),
        block: bound.block.as_ref().map_or_else(String::new, ToString::to_string),
        delta: delta.to_string(),
        budget: budget.to_string(),
        spent: digits(spent),
        reserved: digits((charged - spent).max(0.0)),
        left: format!("{:.6}", ((budget - charged).max(0.0) * 1e6).floor() / 1e6),
        asked: digits(bound.epsilon(vec![asked.clone()], &state.record)?),
        total: digits(total),
        fits: fits().map(rounded_up).unwrap_or_default(),
    })))
}

/// Returns the least noise multiplier with which all bounds would hold the event beside their charges; `None` where no noise
/// up to 10⁹ is enough.
fn least_noise(
    state: &DataSetState,
    bounds: &[Bound],
    event: &Event,
    blocks: &BTreeSet<BlockId>,
) -> Option<f64> {
    let least = bounds.iter().map(|bound| {
        let asked = bound.counted(event.clone(), blocks, &state.record);
        least_noise_within(state, bound, &asked)
    });
    least.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
}

fn least_noise_within(state: &DataSetState, bound: &Bound, asked: &Counted) -> Option<f64> {
    let PrivacyBudget { epsilon, delta } = bound.budget;
    let others = bound.charged(state, |_| true).ok()?;
    let with = |noise: f64| {
        let asked = Counted { event: events::with_noise(&asked.event, noise), ..*asked };
        together([others.clone(), vec![asked]].concat(), &state.record)
    };
    // The relation does not depend on the noise.
    let (_, neighbouring) = with(1.0).ok()?;
    // Noise runs as f32, which may be that much less than the plan says.
    let target = Target { epsilon: epsilon * (1.0 - 1e-6), delta, neighbouring };
    noise_multiplier(target, |noise| with(noise).map(|(event, _)| event)).ok()
}

/// Replaces a data set's budget by one that holds all charges and every share.
///
/// # Errors
/// [`LedgerError::Invalid`] for a budget below what is spent and reserved, or below a share; [`LedgerError::NotFound`].
pub fn grant(ledger: &Ledger, data_set: &DataSetId, budget: PrivacyBudget) -> Result<(), LedgerError> {
    decide(|| {
        let state = ledger.data_set(data_set)?;
        shares::check_within(&state.record, budget)?;
        blocks::check_within(&state.record, budget)?;
        for bound in Bound::of_budget(&state.record, None, budget) {
            let total = bound.epsilon(bound.charged(&state, |_| true)?, &state.record)?;
            if total * (1.0 + ROUNDING) > budget.epsilon {
                let least = rounded_up(total * (1.0 + ROUNDING));
                let place = bound.place(data_set);
                let allowed = format!(
                    "at least {least}, which is spent and reserved in {place} at δ = {}",
                    budget.delta
                );
                return Err(invalid("epsilon", budget.epsilon, allowed));
            }
        }
        ledger.grant_budget(data_set, budget, state.head)
    })
}
