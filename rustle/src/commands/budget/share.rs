//! `rustle budget share`: what one tenant may spend of a data set's budget.

use clap::Args;
use client::{Budgets, Client};
use proto::model::PrivacyBudget;
use proto::{DataSetId, TenantId, pb};
use serde_json::{Value, json};

use super::{amount, budget};
use crate::access::CoordinatorArg;
use crate::figures::{rounded_down, rounded_up};
use crate::output;

#[derive(Args, Clone, Debug)]
pub struct ShareArgs {
    #[command(flatten)]
    coordinator: CoordinatorArg,
    /// Name of the data set
    #[arg(value_name = "NAME")]
    data_set: DataSetId,
    /// Tenant, as tokens (--tenant) and certificates (operator/TENANT) name it
    #[arg(long, value_name = "TENANT")]
    tenant: TenantId,
    /// ε that all jobs of the tenant together may cost, at most that of the budget
    #[arg(long, value_name = "EPSILON", required_unless_present = "remove")]
    epsilon: Option<f64>,
    /// δ at which ε is stated, at most that of the budget [default: the budget's own]
    #[arg(long, value_name = "DELTA", requires = "epsilon")]
    delta: Option<f64>,
    /// Take the share away from a tenant that is charged for nothing
    #[arg(long, conflicts_with = "epsilon")]
    remove: bool,
}

impl ShareArgs {
    pub fn coordinator(&self) -> &CoordinatorArg {
        &self.coordinator
    }

    /// Sets the share, and returns the data set.
    pub async fn set(&self, client: &Client) -> anyhow::Result<pb::DataSet> {
        let budgets = client.budgets();
        let share = self.share(&budgets).await?;
        Ok(budgets.set_share(&self.data_set, &self.tenant, share).await?)
    }

    /// Returns the request that sets the share.
    pub async fn request(&self, budgets: &Budgets) -> anyhow::Result<pb::SetShareRequest> {
        let share = self.share(budgets).await?;
        Ok(pb::SetShareRequest {
            data_set: self.data_set.to_string(),
            tenant: self.tenant.to_string(),
            share: share.map(|PrivacyBudget { epsilon, delta }| pb::PrivacyAmount { epsilon, delta }),
        })
    }

    /// Returns the share, at the budget's δ where none is given; `None` where it is taken away.
    async fn share(&self, budgets: &Budgets) -> anyhow::Result<Option<PrivacyBudget>> {
        Ok(match (self.epsilon, self.delta) {
            (None, _) => None,
            (Some(epsilon), Some(delta)) => Some(budget(epsilon, delta)?),
            (Some(epsilon), None) => {
                let own = budgets.get(&self.data_set).await?.budget.unwrap_or_default().delta;
                Some(budget(epsilon, own)?)
            }
        })
    }
}

/// Returns a tenant's share as JSON shows it.
pub fn json_of(share: &pb::TenantShare) -> Value {
    json!({
        "tenant": share.tenant,
        "share": amount(share.share.as_ref()),
        "spent": amount(share.spent.as_ref()),
        "reserved": amount(share.reserved.as_ref()),
        "left": amount(share.left.as_ref()),
    })
}

/// Returns the table of all tenants.
pub fn table(shares: &[pb::TenantShare]) -> comfy_table::Table {
    let mut table = output::table(&["tenant", "δ", "ε share", "ε spent", "ε reserved", "ε left"]);
    for share in shares {
        let spent = share.spent.unwrap_or_default();
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        table.add_row([
            share.tenant.clone(),
            spent.delta.to_string(),
            or_none(share.share.map(|share| share.epsilon.to_string())),
            rounded_up(spent.epsilon),
            rounded_up(share.reserved.unwrap_or_default().epsilon),
            or_none(share.left.map(|left| rounded_down(left.epsilon))),
        ]);
    }
    table
}
