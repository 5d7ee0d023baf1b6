//! Shares: what each tenant may spend of a data set's budget.

use ledger::{ChargedJob, DataSetRecord, DataSetState, Ledger, LedgerError};
use proto::TenantId;
use proto::model::{PrivacyBudget, SetShare};

use super::bound::Bound;
use super::decision::decide;
use super::events::{costs, invalid};
use super::rounding::{ROUNDING, rounded_up};

/// Sets a tenant's share, which must hold what the tenant is charged for and be within the budget, or takes it away. The shares
/// of a data set may sum to more than its budget, which holds beside them.
///
/// # Errors
/// [`LedgerError::Invalid`] for a share above the whole, for one below what the tenant is charged for, and where a share is to
/// be taken away from a tenant that is charged for something, or is the last of a data set that is charged for anything;
/// [`LedgerError::NotFound`] for an unknown data set, and for a
/// share that is to be taken away and not there.
pub fn set_share(ledger: &Ledger, request: &SetShare) -> Result<(), LedgerError> {
    let SetShare { data_set, tenant, share } = request;
    decide(|| {
        let state = ledger.data_set(data_set)?;
        match share {
            Some(share) => check_share(&state, tenant, *share)?,
            None => {
                check_uncharged(&state, tenant)?;
                check_not_last(&state, tenant)?;
            }
        }
        ledger.set_share(data_set, tenant, *share, state.head)
    })
}

fn check_share(state: &DataSetState, tenant: &TenantId, share: PrivacyBudget) -> Result<(), LedgerError> {
    let DataSetRecord { data_set, budget, .. } = &state.record;
    let most = |of: f64| format!("at most {of}, as of the whole budget of data set {data_set}");
    if share.epsilon > budget.epsilon {
        return Err(invalid("share.epsilon", share.epsilon, most(budget.epsilon)));
    }
    if share.delta > budget.delta {
        return Err(invalid("share.delta", share.delta, most(budget.delta)));
    }
    for bound in Bound::of_budget(&state.record, Some(tenant), share) {
        let total = bound.epsilon(bound.charged(state, |_| true)?, &state.record)?;
        if total * (1.0 + ROUNDING) > share.epsilon {
            let least = rounded_up(total * (1.0 + ROUNDING));
            let place = bound.place(data_set);
            let allowed = format!(
                "at least {least}, which tenant {tenant} is charged for in {place} at δ = {}",
                share.delta
            );
            return Err(invalid("share.epsilon", share.epsilon, allowed));
        }
    }
    Ok(())
}

/// A tenant without a share may spend nothing, or, where no other has one, anything: its charges would have no bound.
fn check_uncharged(state: &DataSetState, tenant: &TenantId) -> Result<(), LedgerError> {
    let is_own = |charged: &&ChargedJob| costs(charged) && charged.charge.tenant.as_ref() == Some(tenant);
    match state.charges.iter().filter(is_own).count() {
        0 => Ok(()),
        jobs => Err(invalid(
            "share",
            "none",
            format!("a share that holds what the {jobs} jobs of tenant {tenant} are charged for"),
        )),
    }
}

/// A data set without shares is open to all callers, who would spend beside what is charged to it.
fn check_not_last(state: &DataSetState, tenant: &TenantId) -> Result<(), LedgerError> {
    let DataSetRecord { data_set, shares, .. } = &state.record;
    let jobs = state.charges.iter().filter(|charged| costs(charged)).count();
    let sweeps = state.sweeps.len();
    let is_last = shares.len() == 1 && shares.contains_key(tenant);
    if !is_last || jobs + sweeps == 0 {
        return Ok(());
    }
    let allowed = format!(
        "a share, the last of data set {data_set}, for which {jobs} jobs and {sweeps} sweeps are charged: without it all callers may \
         spend; lower it, or set another tenant's share first"
    );
    Err(invalid("share", "none", allowed))
}

/// Checks that no share is above a budget that is to take the place of the last.
pub fn check_within(record: &DataSetRecord, budget: PrivacyBudget) -> Result<(), LedgerError> {
    for (tenant, share) in &record.shares {
        let least = |of: f64| format!("at least {of}, the share of tenant {tenant}; or lower that first");
        if share.epsilon > budget.epsilon {
            return Err(invalid("epsilon", budget.epsilon, least(share.epsilon)));
        }
        if share.delta > budget.delta {
            return Err(invalid("delta", budget.delta, least(share.delta)));
        }
    }
    Ok(())
}
