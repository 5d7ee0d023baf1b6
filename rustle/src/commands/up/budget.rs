//! The data set that the job of `rustle up` draws on.

use clap::Args;
use client::Client;
use proto::model::{NeighbouringRelation, PrivacyUnit};
use proto::{DataSetId, pb};

use crate::commands::{budget, job};

#[derive(Args, Clone, Debug)]
pub struct UpBudgetArgs {
    /// Data set whose privacy budget pays for the job, of users under zeroing out; recorded with --epsilon and --delta
    #[arg(long, value_name = "NAME")]
    budget: Option<DataSetId>,
    /// ε of that budget [default: the data set is there]
    #[arg(long, value_name = "EPSILON", requires = "budget", requires = "delta")]
    epsilon: Option<f64>,
    /// δ of that budget
    #[arg(long, value_name = "DELTA", requires = "epsilon")]
    delta: Option<f64>,
}

impl UpBudgetArgs {
    /// Checks the budget's numbers, before anything is started.
    pub fn check(&self) -> anyhow::Result<()> {
        self.epsilon
            .zip(self.delta)
            .map_or(Ok(()), |(epsilon, delta)| budget::budget(epsilon, delta).map(drop))
    }

    /// Records the data set where that is requested, and returns the account of the job.
    pub async fn account(&self, client: &Client) -> anyhow::Result<Option<pb::BudgetedAccount>> {
        let Some(data_set) = &self.budget else { return Ok(None) };
        if let Some((epsilon, delta)) = self.epsilon.zip(self.delta) {
            let budget = budget::budget(epsilon, delta)?;
            client.budgets().create(budget::request(data_set, UNIT, RELATION, budget)).await?;
        }
        Ok(Some(job::account_of(data_set, UNIT, RELATION)))
    }
}

/// The unit of a data set of `rustle up`.
const UNIT: PrivacyUnit = PrivacyUnit::User;
/// The relation of a data set of `rustle up`.
const RELATION: NeighbouringRelation = NeighbouringRelation::ZeroOut;
