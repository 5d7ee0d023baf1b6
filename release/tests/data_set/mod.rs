//! A ledger with one data set and its budget, for tests of what it is charged.

use std::path::Path;

use ledger::{DataSetRecord, Ledger};
use proto::model::{BudgetedAccount, NeighbouringRelation, PrivacyBudget, PrivacyUnit};
use proto::{DataSetId, Nonce};

/// δ of the budget.
pub const DELTA: f64 = 1e-6;

/// The account of a job of the data set, whose batches are in any order.
pub fn account() -> BudgetedAccount {
    BudgetedAccount {
        data_set: DataSetId::new("mails").unwrap(),
        unit: PrivacyUnit::User,
        neighbouring: NeighbouringRelation::ZeroOut,
        sampling: String::new(),
        tenant: None,
        blocks: Default::default(),
    }
}

/// Begins a ledger whose data set is that of the account and has this budget, of each of its blocks where `per_block`.
pub fn begun(path: &Path, account: &BudgetedAccount, epsilon: f64, per_block: bool) -> Ledger {
    Ledger::init(path, Nonce::from_bytes([1; 32])).unwrap();
    let ledger = Ledger::open(path).unwrap();
    let BudgetedAccount { data_set, unit, neighbouring, .. } = account.clone();
    let budget = PrivacyBudget::new(epsilon, DELTA).unwrap();
    let shares = Default::default();
    let blocks = Default::default();
    let record =
        DataSetRecord { data_set, unit, neighbouring, budget, shares, blocks, per_block, approvals: None };
    ledger.create_data_set(&record).unwrap();
    ledger
}
