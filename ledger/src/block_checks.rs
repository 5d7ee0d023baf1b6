//! What blocks a data set may get, and which of them a job may name.

use std::collections::BTreeSet;

use proto::BlockId;

use crate::{BlockRecord, LedgerError, Result, data_set::DataSetRecord};

/// The most blocks of a data set: those of 80 years of months.
const MAX_BLOCKS: usize = 1_000;

impl DataSetRecord {
    /// Checks that a block may be added: it has a day, and no day of another block.
    ///
    /// # Errors
    /// [`LedgerError::Invalid`] naming the other block.
    pub fn check_new_block(&self, name: &BlockId, block: &BlockRecord) -> Result<()> {
        let BlockRecord { from, until, .. } = block;
        if until <= from {
            let allowed = format!("a day after {from}, the first day of block {name}");
            return Err(LedgerError::invalid("until", until, allowed));
        }
        if self.blocks.len() >= MAX_BLOCKS {
            let allowed = format!("at most {MAX_BLOCKS} in data set {}", self.data_set);
            return Err(LedgerError::invalid("blocks", self.blocks.len() + 1, allowed));
        }
        match self.blocks.iter().find(|(_, other)| other.overlaps(block)) {
            None => Ok(()),
            Some((other, BlockRecord { from: first, until: end, .. })) => {
                let allowed = format!(
                    "days of no other block: block {other} of data set {} has those from {first} until {end}",
                    self.data_set
                );
                Err(LedgerError::invalid("block", format!("{name}, from {from} until {until}"), allowed))
            }
        }
    }

    /// Checks the blocks that a job names: those of this data set, and some if it has any.
    ///
    /// # Errors
    /// [`LedgerError::Invalid`], or [`LedgerError::NotFound`] for a block that is not there.
    pub fn check_blocks(&self, named: &BTreeSet<BlockId>) -> Result<()> {
        let Self { data_set, blocks, per_block, .. } = self;
        if let Some(unknown) = named.iter().find(|block| !blocks.contains_key(*block)) {
            if blocks.is_empty() {
                let allowed = format!("none: data set {data_set} has no blocks");
                return Err(LedgerError::invalid("account.blocks", listed(named), allowed));
            }
            return Err(LedgerError::NotFound {
                what: "block",
                name: format!("{unknown} in data set {data_set}"),
            });
        }
        if named.is_empty() && (*per_block || !blocks.is_empty()) {
            let allowed = match blocks.len() {
                0 => format!(
                    "a block of data set {data_set}, which has none yet: \
                     rustle budget block add {data_set} BLOCK --from DAY --until DAY"
                ),
                _ => format!(
                    "the blocks of data set {data_set} that the job reads, of {}",
                    listed(blocks.keys())
                ),
            };
            return Err(LedgerError::invalid("account.blocks", "missing", allowed));
        }
        Ok(())
    }
}

/// Returns at most ten names, and how many more there are.
fn listed<'a>(names: impl IntoIterator<Item = &'a BlockId>) -> String {
    const SHOWN: usize = 10;
    let names: Vec<&str> = names.into_iter().map(BlockId::as_str).collect();
    let shown = names[..names.len().min(SHOWN)].join(", ");
    if names.len() > SHOWN { format!("{shown} and {} more", names.len() - SHOWN) } else { shown }
}
