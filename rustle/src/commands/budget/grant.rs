//! `rustle budget grant`: another budget in the place of the last.

use clap::Args;
use client::{Budgets, Client};
use proto::model::PrivacyBudget;
use proto::pb;

use super::{DataSetArgs, budget};
use crate::access::CoordinatorArg;

#[derive(Args, Clone, Debug)]
pub struct GrantArgs {
    #[command(flatten)]
    of: DataSetArgs,
    /// ε that all jobs together may cost
    #[arg(long, value_name = "EPSILON")]
    epsilon: f64,
    /// δ at which ε is stated [default: the budget's own]
    #[arg(long, value_name = "DELTA")]
    delta: Option<f64>,
}

impl GrantArgs {
    pub fn coordinator(&self) -> &CoordinatorArg {
        &self.of.coordinator
    }

    /// Replaces the budget, and returns the data set.
    pub async fn grant(&self, client: &Client) -> anyhow::Result<pb::DataSet> {
        let budgets = client.budgets();
        let budget = self.budget(&budgets).await?;
        Ok(budgets.grant(&self.of.data_set, budget).await?)
    }

    /// Returns the request that replaces the budget.
    pub async fn request(&self, budgets: &Budgets) -> anyhow::Result<pb::GrantBudgetRequest> {
        let PrivacyBudget { epsilon, delta } = self.budget(budgets).await?;
        let budget = Some(pb::PrivacyAmount { epsilon, delta });
        Ok(pb::GrantBudgetRequest { data_set: self.of.data_set.to_string(), budget })
    }

    async fn budget(&self, budgets: &Budgets) -> anyhow::Result<PrivacyBudget> {
        let delta = match self.delta {
            Some(delta) => delta,
            None => budgets.get(&self.of.data_set).await?.budget.unwrap_or_default().delta,
        };
        budget(self.epsilon, delta)
    }
}
