//! The blocks of a data set as they are shown.

use ledger::{BlockRecord, DataSetState, LedgerError};
use proto::{BlockId, pb};
use report::{Amount, BlockLine};

use super::odometer::Odometer;

/// Returns the odometers of all blocks, by name.
pub fn blocks_of(state: &DataSetState) -> Result<Vec<pb::BlockBudget>, LedgerError> {
    let odometers = Odometer::of_blocks(state)?;
    let blocks = state.record.blocks.iter().zip(odometers);
    Ok(blocks.map(|((name, block), odometer)| block_of(name, block, odometer)).collect())
}

fn block_of(name: &BlockId, block: &BlockRecord, odometer: Odometer) -> pb::BlockBudget {
    let Odometer { spent, reserved, left, adaptive } = odometer;
    let BlockRecord { from, until, budget } = block;
    let amount = |epsilon| Some(pb::PrivacyAmount { epsilon, delta: budget.delta });
    pb::BlockBudget {
        block: name.to_string(),
        from: from.to_string(),
        until: until.to_string(),
        budget: amount(budget.epsilon),
        spent: amount(spent),
        reserved: amount(reserved),
        left: amount(left),
        adaptive,
    }
}

/// Returns the lines of a report on the blocks.
pub fn block_lines(data_set: &pb::DataSet) -> Vec<BlockLine> {
    let line = |block: &pb::BlockBudget| BlockLine {
        block: block.block.clone(),
        from: block.from.clone(),
        until: block.until.clone(),
        budget: amount(block.budget),
        spent: amount(block.spent),
        reserved: amount(block.reserved),
        left: amount(block.left),
    };
    data_set.blocks.iter().map(line).collect()
}

/// Returns an amount as reports have it.
pub fn amount(amount: Option<pb::PrivacyAmount>) -> Amount {
    let pb::PrivacyAmount { epsilon, delta } = amount.unwrap_or_default();
    Amount { epsilon, delta }
}
