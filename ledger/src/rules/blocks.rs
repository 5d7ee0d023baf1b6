//! Blocks of data sets: recorded once, with a budget, and never changed.

use proto::{BlockId, DataSetId};

use super::charges;
use crate::{
    BlockRecord, Created, Head, Ledger, LedgerError, Result,
    chain::{data_set_event::DataSetEvent, data_sets as chains},
    store::Outcome,
    tables::{self, DATA_SETS, HEADS, data_sets_table::existing},
};

impl Ledger {
    /// Records a block, whose budget the caller found to hold what is charged to it already. The same definition again is no
    /// error.
    ///
    /// # Errors
    /// [`LedgerError::AlreadyExists`] where the name is in use with another definition; [`LedgerError::Invalid`] where another
    /// block has one of its days; [`LedgerError::DataSetChanged`] unless the end of the chain is still the expected one: decide
    /// again.
    pub fn add_block(
        &self,
        data_set: &DataSetId,
        name: &BlockId,
        block: &BlockRecord,
        expected: Head,
    ) -> Result<Created> {
        self.store.write("add_block", |transaction| {
            let mut data_sets = transaction.open_table(DATA_SETS)?;
            let mut record = existing(&data_sets, data_set)?;
            if let Some(existing) = record.blocks.get(name) {
                same_definition(name, existing, block)?;
                return Ok(Outcome::Nothing(Created::Existing));
            }
            record.check_new_block(name, block)?;
            charges::check_head(&transaction.open_table(HEADS)?, data_set, expected)?;
            self.copies.check()?;
            record.blocks.insert(name.clone(), block.clone());
            data_sets.insert(data_set.as_str(), tables::encode(&record)?.as_slice())?;
            let event = DataSetEvent::BlockAdded { name: name.clone(), block: block.clone() };
            chains::append(transaction, data_set, &event)?;
            Ok(Outcome::Commit(Created::New))
        })
    }
}

/// Checks that two records define the same block.
fn same_definition(name: &BlockId, existing: &BlockRecord, requested: &BlockRecord) -> Result<()> {
    let shown = |block: &BlockRecord| {
        let BlockRecord { from, until, budget } = block;
        format!("from {from} until {until} with ε = {} at δ = {}", budget.epsilon, budget.delta)
    };
    if existing == requested {
        return Ok(());
    }
    Err(LedgerError::AlreadyExists {
        what: "block",
        name: name.to_string(),
        difference: format!("it is {}, requested {}", shown(existing), shown(requested)),
    })
}
