//! The data set that a job draws on, and what the job's account assumes.

use clap::Args;
use proto::model::{NeighbouringRelation, PrivacyUnit};
use proto::{BlockId, DataSetId, TenantId, pb};
use report::SamplingAssumption;

use crate::commands::report::sampling::SamplingArgs;
use crate::output::bad_use;

#[derive(Args, Clone, Debug)]
pub struct AccountArgs {
    /// Data set whose privacy budget pays for the job
    #[arg(long, value_name = "NAME")]
    data_set: Option<DataSetId>,
    /// Unit of privacy of the job's account, as of the data set: example, user or device [default: user]
    #[arg(long, value_name = "UNIT", requires = "data_set")]
    unit: Option<PrivacyUnit>,
    /// Relation of the job's account, as of the data set: zero-out, add-remove or replace [default: zero-out]
    #[arg(long, value_name = "RELATION", requires = "data_set")]
    neighbouring: Option<NeighbouringRelation>,
    /// Tenant whose share of the budget is charged [default: that of the caller's credentials, or none]
    #[arg(long, value_name = "TENANT", requires = "data_set")]
    tenant: Option<TenantId>,
    /// Blocks of the data set that the job reads, each of which is charged; separated by commas
    #[arg(long, value_name = "BLOCK,…", requires = "data_set", value_delimiter = ',')]
    blocks: Vec<BlockId>,
    #[command(flatten)]
    sampling: SamplingArgs,
}

impl AccountArgs {
    /// Returns the account; `None` for a job outside of every data set.
    pub fn account(self) -> anyhow::Result<Option<pb::BudgetedAccount>> {
        let sampling = self.sampling.assumption()?;
        let Some(data_set) = self.data_set else {
            return match sampling {
                SamplingAssumption::AnyOrder => Ok(None),
                _ => Err(bad_use("--sampling is given without --data-set; allowed: both, or neither")),
            };
        };
        let neighbouring = self.neighbouring.unwrap_or(NeighbouringRelation::ZeroOut);
        let account = pb::BudgetedAccount {
            tenant: self.tenant.map_or_else(String::new, String::from),
            blocks: self.blocks.into_iter().map(String::from).collect(),
            ..of(&data_set, self.unit.unwrap_or(PrivacyUnit::User), neighbouring)
        };
        match sampling {
            SamplingAssumption::AnyOrder => Ok(Some(account)),
            SamplingAssumption::CyclicPoisson { .. } => {
                Ok(Some(pb::BudgetedAccount { sampling: serde_json::to_string(&sampling)?, ..account }))
            }
            _ => Err(bad_use(
                "--sampling is none whose account composes with that of other jobs; allowed with --data-set: any-order, \
                 cyclic-poisson",
            )),
        }
    }
}

/// Returns the account of a job whose batches are in any order.
pub fn of(
    data_set: &DataSetId,
    unit: PrivacyUnit,
    neighbouring: NeighbouringRelation,
) -> pb::BudgetedAccount {
    pb::BudgetedAccount {
        data_set: data_set.to_string(),
        unit: unit.to_string(),
        neighbouring: neighbouring.to_string(),
        sampling: String::new(),
        tenant: String::new(),
        blocks: Vec::new(),
    }
}
