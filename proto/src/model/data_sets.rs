//! Data sets, their budgets, and the account that a job's charge rests on.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

use super::approval_rule::ApprovalRule;
use super::named_blocks::named_blocks;
use crate::{BlockId, DataSetId, Result, ServiceError, TenantId, pb};

/// The unit of privacy: the holder of the contribution that is clipped to the clip norm in every round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PrivacyUnit {
    /// One record.
    Example,
    /// All data of one user.
    User,
    /// All data on one device.
    Device,
}

/// The relation between neighbouring data sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NeighbouringRelation {
    /// One unit counts as zero in one of them.
    ZeroOut,
    /// One of them lacks the unit.
    AddRemove,
    /// One unit is replaced by another.
    Replace,
}

macro_rules! words {
    ($name:ident, $field:literal, $($variant:ident = $word:literal),*) => {
        impl $name {
            /// Returns the word for it, as it is written in JSON.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $name {
            type Err = ServiceError;

            fn from_str(text: &str) -> Result<Self> {
                match text {
                    $($word => Ok(Self::$variant),)*
                    _ => Err(ServiceError::invalid($field, format!("{text:?}"), [$($word),*].join(", "))),
                }
            }
        }
    };
}

words!(PrivacyUnit, "unit", Example = "example", User = "user", Device = "device");
words!(
    NeighbouringRelation,
    "neighbouring",
    ZeroOut = "zero-out",
    AddRemove = "add-remove",
    Replace = "replace"
);

/// An amount of privacy: ε at δ. In JSON both are texts, which every reader takes for the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PrivacyBudget {
    /// ε, finite and above 0, in nats.
    #[serde(serialize_with = "write_number", deserialize_with = "read_number")]
    pub epsilon: f64,
    /// δ, strictly between 0 and 1.
    #[serde(serialize_with = "write_number", deserialize_with = "read_number")]
    pub delta: f64,
}

// The shortest text that std reads as the same number: serde_json may read a number's last digit differently.
fn write_number<S: Serializer>(number: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&format!("{number:?}"))
}

fn read_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(|_| D::Error::custom("a number is its decimal digits as a text"))
}

impl PrivacyBudget {
    /// Checks both numbers.
    ///
    /// # Errors
    /// [`ServiceError::InvalidArgument`] naming the number and its range.
    pub fn new(epsilon: f64, delta: f64) -> Result<Self> {
        if !(epsilon.is_finite() && epsilon > 0.0) {
            return Err(ServiceError::invalid("epsilon", epsilon, "finite and above 0"));
        }
        if !(delta > 0.0 && delta < 1.0) {
            return Err(ServiceError::invalid("delta", delta, "strictly between 0 and 1"));
        }
        Ok(Self { epsilon, delta })
    }
}

impl TryFrom<Option<pb::PrivacyAmount>> for PrivacyBudget {
    type Error = ServiceError;
    fn try_from(amount: Option<pb::PrivacyAmount>) -> Result<Self> {
        let pb::PrivacyAmount { epsilon, delta } = amount.ok_or_else(|| ServiceError::missing("budget"))?;
        Self::new(epsilon, delta)
    }
}

/// A request to record a data set.
#[derive(Clone, Debug, PartialEq)]
pub struct CreateDataSet {
    /// The data set's name.
    pub data_set: DataSetId,
    /// Whose data the budget protects.
    pub unit: PrivacyUnit,
    /// The relation that the budget holds under.
    pub neighbouring: NeighbouringRelation,
    /// The most that all jobs together may cost; where `per_block`, those that read any one block.
    pub budget: PrivacyBudget,
    /// Whether the budget is of each block of the data set, and none is of all blocks together.
    pub per_block: bool,
    /// Which changes take the consent of a second person; `None` for none.
    pub approval_rule: Option<ApprovalRule>,
}

impl TryFrom<pb::CreateDataSetRequest> for CreateDataSet {
    type Error = ServiceError;
    fn try_from(request: pb::CreateDataSetRequest) -> Result<Self> {
        Ok(Self {
            data_set: DataSetId::new(request.data_set)?,
            unit: request.unit.parse()?,
            neighbouring: request.neighbouring.parse()?,
            budget: request.budget.try_into()?,
            per_block: request.per_block,
            approval_rule: request.approval_rule.map(ApprovalRule::from),
        })
    }
}

/// A request to set a tenant's share of a data set's budget.
#[derive(Clone, Debug, PartialEq)]
pub struct SetShare {
    /// The data set.
    pub data_set: DataSetId,
    /// The tenant.
    pub tenant: TenantId,
    /// The most that all jobs of the tenant may cost together; `None` takes the share away.
    pub share: Option<PrivacyBudget>,
}

impl TryFrom<pb::SetShareRequest> for SetShare {
    type Error = ServiceError;
    fn try_from(request: pb::SetShareRequest) -> Result<Self> {
        Ok(Self {
            data_set: DataSetId::new(request.data_set)?,
            tenant: TenantId::new(request.tenant)?,
            share: request.share.map(|share| Some(share).try_into()).transpose()?,
        })
    }
}

/// The data set that a job draws on, and what the job's account assumes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetedAccount {
    /// The data set.
    pub data_set: DataSetId,
    /// Whose contribution to a round is clipped as a whole.
    pub unit: PrivacyUnit,
    /// The relation that the account holds under.
    pub neighbouring: NeighbouringRelation,
    /// JSON of the way in which the records of each round are chosen; empty for any order.
    pub sampling: String,
    /// The tenant whose share is charged; `None` for none.
    pub tenant: Option<TenantId>,
    /// The blocks that the job reads, each of which is charged; none where the data set has no blocks.
    pub blocks: BTreeSet<BlockId>,
}

impl TryFrom<pb::BudgetedAccount> for BudgetedAccount {
    type Error = ServiceError;
    fn try_from(account: pb::BudgetedAccount) -> Result<Self> {
        Ok(Self {
            data_set: DataSetId::new(account.data_set)?,
            unit: account.unit.parse()?,
            neighbouring: account.neighbouring.parse()?,
            sampling: account.sampling,
            tenant: Some(account.tenant)
                .filter(|tenant| !tenant.is_empty())
                .map(TenantId::new)
                .transpose()?,
            blocks: named_blocks(account.blocks)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_comes_back_to_the_last_bit() {
        for (epsilon, delta) in [(2.0, 1e-6), (0.1 + 0.2, 5e-324), (1.0 / 3.0, 1.0 - f64::EPSILON)] {
            let budget = PrivacyBudget::new(epsilon, delta).unwrap();
            let text = serde_json::to_string(&budget).unwrap();
            assert_eq!(serde_json::from_str::<PrivacyBudget>(&text).unwrap(), budget, "{text}");
        }
    }

    #[test]
    fn what_is_no_budget_unit_or_relation_is_refused() {
        for (epsilon, delta) in [(0.0, 0.1), (-1.0, 0.1), (f64::NAN, 0.1), (f64::INFINITY, 0.1)] {
            assert!(PrivacyBudget::new(epsilon, delta).unwrap_err().to_string().contains("epsilon"));
        }
        for delta in [0.0, 1.0, f64::NAN] {
            assert!(PrivacyBudget::new(1.0, delta).unwrap_err().to_string().contains("delta"));
        }
        let unit = "household".parse::<PrivacyUnit>().unwrap_err();
        assert!(unit.to_string().contains("example, user, device"), "{unit}");
        assert!("zero_out".parse::<NeighbouringRelation>().is_err());
    }
}
