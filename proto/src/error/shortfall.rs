//! What a budget lacks for a request.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A request that a data set's budget does not hold beside all that is spent and reserved: ε at the budget's δ, in decimal
/// digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetShortfall {
    /// The data set.
    pub data_set: String,
    /// The tenant whose share does not hold the request; empty where it is the whole budget that does not.
    #[serde(default)]
    pub tenant: String,
    /// The block whose budget does not hold the request; empty where it is that of the data set.
    #[serde(default)]
    pub block: String,
    /// δ of the budget or share.
    pub delta: String,
    /// ε of the budget or share.
    pub budget: String,
    /// ε of the charges that nothing gives back.
    pub spent: String,
    /// By how much ε grows with the other charges.
    pub reserved: String,
    /// What the budget or share holds beyond both; empty in what an older coordinator answers.
    #[serde(default)]
    pub left: String,
    /// ε of the request alone.
    pub asked: String,
    /// ε of all charges and the request together.
    pub total: String,
    /// The least noise multiplier of the plan that fits; empty where none does.
    pub fits: String,
}

impl fmt::Display for BudgetShortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data_set, tenant, block, delta, budget, spent, reserved, left, asked, total, fits } = self;
        let place = match block.as_str() {
            "" => format!("data set {data_set}"),
            block => format!("block {block} of data set {data_set}"),
        };
        match tenant.as_str() {
            "" => write!(f, "{place} has a budget")?,
            tenant => write!(f, "tenant {tenant} has a share in {place}")?,
        }
        write!(f, " of ε = {budget} at δ = {delta}: spent is {spent}, reserved {reserved} more")?;
        if !left.is_empty() {
            write!(f, ", left {left}")?;
        }
        write!(f, "; the request alone costs {asked}, and all together {total}. Allowed: ")?;
        if !fits.is_empty() {
            write!(f, "noise_multiplier at least {fits}, or ")?;
        }
        let amount = format!("--epsilon EPSILON --delta {delta}");
        match (tenant.as_str(), block.as_str()) {
            ("", "") => write!(f, "a larger budget (rustle budget grant {data_set} {amount})"),
            ("", _) => f.write_str("other blocks"),
            _ => write!(f, "a larger share (rustle budget share {data_set} --tenant {tenant} {amount})"),
        }
    }
}
