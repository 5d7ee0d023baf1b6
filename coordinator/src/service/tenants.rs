//! What a caller whose credentials name a tenant may do: it creates jobs in the tenant's shares, and changes no other tenant's.

use ledger::Ledger;
use node::auth::caller;
use proto::model::BudgetedAccount;
use proto::{JobId, Result, ServiceError, TenantId};

use crate::coordinator::Coordinator;

/// Returns the tenant of the caller's credentials; `None` for a caller without one.
fn own_tenant() -> Option<TenantId> {
    caller()?.tenant().cloned()
}

/// Checks that the caller is of no tenant: no tenant makes data sets, or decides what tenants may spend.
pub fn check_is_of_no_tenant() -> Result<()> {
    own_tenant().map_or(Ok(()), |_| Err(ServiceError::PermissionDenied))
}

/// Returns the account of a job that the caller creates, with the tenant that is charged: that of its credentials, and no other.
/// A caller without one may state any.
///
/// # Errors
/// [`ServiceError::InvalidArgument`] where a caller of a tenant states another, and where it names no data set: such a job would
/// be in no budget.
pub fn charged_account(account: Option<BudgetedAccount>) -> Result<Option<BudgetedAccount>> {
    let Some(own) = own_tenant() else { return Ok(account) };
    let Some(account) = account else {
        let allowed = format!("a data set, whose budget pays for the jobs of tenant {own}");
        return Err(ServiceError::invalid("account.data_set", "missing", allowed));
    };
    match account.tenant.as_ref().filter(|stated| **stated != own) {
        Some(stated) => {
            let allowed = format!("{own}, the tenant of this caller's credentials");
            Err(ServiceError::invalid("account.tenant", stated, allowed))
        }
        None => Ok(Some(BudgetedAccount { tenant: Some(own), ..account })),
    }
}

impl Coordinator {
    /// Checks that the caller, if it is of a tenant, changes a job that is charged to that tenant: a rewind of another
    /// tenant's job would spend that tenant's share.
    pub async fn check_tenant(&self, job: &JobId) -> Result<()> {
        let Some(own) = own_tenant() else { return Ok(()) };
        let name = job.clone();
        let charge = self.with_ledger(move |ledger| ledger.charge(&name)).await?;
        match charge.and_then(|charge| charge.tenant) {
            Some(tenant) if tenant == own => Ok(()),
            _ => Err(ServiceError::PermissionDenied),
        }
    }

    /// Checks that a trainer of all jobs, `is_of_all_jobs`, names the tenant whose share a rewind of this job would spend, where its
    /// data set has shares: without a tenant it could spend that of every tenant.
    pub async fn check_spender(&self, job: &JobId, is_of_all_jobs: bool) -> Result<()> {
        if own_tenant().is_some() {
            return self.check_tenant(job).await;
        }
        if !is_of_all_jobs {
            return Ok(());
        }
        let name = job.clone();
        let has_shares = move |ledger: &Ledger| {
            let Some(charge) = ledger.charge(&name)? else { return Ok(false) };
            Ok(!ledger.data_set(&charge.data_set)?.record.shares.is_empty())
        };
        if self.with_ledger(has_shares).await? { Err(ServiceError::PermissionDenied) } else { Ok(()) }
    }
}
