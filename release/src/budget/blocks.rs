//! Blocks: parts of a data set that grows, each with a budget that bounds what the jobs that read it cost.
//!
//! Neighbouring data sets that differ within one block give the same distribution to every job that does not read it, whatever was
//! released before. So what is charged to a block holds for the part of a unit's data that lies in it, and for nothing else: a
//! unit whose data lies in several blocks is charged by every job that reads any of them, each once.

use ledger::{BlockRecord, DataSetRecord, DataSetState, Ledger, LedgerError};
use proto::BlockId;
use proto::model::{AddBlock, PrivacyBudget};

use super::bound::Bound;
use super::decision::decide;
use super::events::invalid;
use super::rounding::{ROUNDING, rounded_up};

/// Records a block. Its budget, by default the data set's, is at most that, and holds what counts in every block: jobs from
/// before the first block, which name none, and sweeps. A block that is there already has its own by default.
///
/// # Errors
/// [`LedgerError::Invalid`] for a budget above the data set's or below what is charged already, and where another block has one of
/// its days; [`LedgerError::AlreadyExists`] for another definition under its name; [`LedgerError::NotFound`].
pub fn add_block(ledger: &Ledger, request: &AddBlock) -> Result<(), LedgerError> {
    let AddBlock { data_set, block: name, from, until, budget } = request;
    decide(|| {
        let state = ledger.data_set(data_set)?;
        let own = state.record.blocks.get(name).map(|block| block.budget);
        let budget = budget.or(own).unwrap_or(state.record.budget);
        let block = BlockRecord { from: from.clone(), until: until.clone(), budget };
        if !state.record.blocks.contains_key(name) {
            state.record.check_new_block(name, &block)?;
            check_budget(&state, name, budget)?;
        }
        ledger.add_block(data_set, name, &block, state.head).map(drop)
    })
}

fn check_budget(state: &DataSetState, name: &BlockId, budget: PrivacyBudget) -> Result<(), LedgerError> {
    let DataSetRecord { data_set, budget: most, .. } = &state.record;
    let allowed = |of: f64| format!("at most {of}, as of data set {data_set}");
    if budget.epsilon > most.epsilon {
        return Err(invalid("epsilon", budget.epsilon, allowed(most.epsilon)));
    }
    if budget.delta > most.delta {
        return Err(invalid("delta", budget.delta, allowed(most.delta)));
    }
    let bound = Bound { tenant: None, block: Some(name.clone()), budget };
    let total = bound.epsilon(bound.charged(state, |_| true)?, &state.record)?;
    if total * (1.0 + ROUNDING) > budget.epsilon {
        let least = rounded_up(total * (1.0 + ROUNDING));
        let allowed = format!(
            "at least {least} at δ = {}: jobs that name no blocks, and sweeps, are charged in every block of data set {data_set}",
            budget.delta
        );
        return Err(invalid("epsilon", budget.epsilon, allowed));
    }
    Ok(())
}

/// Checks that no block's budget is above one that is to take the place of the data set's.
pub fn check_within(record: &DataSetRecord, budget: PrivacyBudget) -> Result<(), LedgerError> {
    for (name, block) in &record.blocks {
        let least = |of: f64| format!("at least {of}, the budget of block {name}");
        if block.budget.epsilon > budget.epsilon {
            return Err(invalid("epsilon", budget.epsilon, least(block.budget.epsilon)));
        }
        if block.budget.delta > budget.delta {
            return Err(invalid("delta", budget.delta, least(block.budget.delta)));
        }
    }
    Ok(())
}
