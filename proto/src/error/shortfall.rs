//! What a budget lacks for a request.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A request that a data set's budget does not hold beside all that is spent and reserved: ε at the budget's δ, in decimal
/// digits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetShortfall {
    /// The data set.
    pub data_set: String,
    /// The budget's δ.
    pub delta: String,
    /// The budget's ε.
    pub budget: String,
    /// ε of the charges that nothing gives back.
    pub spent: String,
    /// By how much ε grows with the other charges.
    pub reserved: String,
    /// ε of the request alone.
    pub asked: String,
    /// ε of all charges and the request together.
    pub total: String,
    /// The least noise multiplier of the plan that fits; empty where none does.
    pub fits: String,
}

impl fmt::Display for BudgetShortfall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { data_set, delta, budget, spent, reserved, asked, total, fits } = self;
        write!(
            f,
            "data set {data_set} has a budget of ε = {budget} at δ = {delta}: spent is {spent}, reserved {reserved} more; \
             the request alone costs {asked}, and all together {total}. Allowed: "
        )?;
        if !fits.is_empty() {
            write!(f, "noise_multiplier at least {fits}, or ")?;
        }
        f.write_str("a larger budget (rustle budget grant)")
    }
}
