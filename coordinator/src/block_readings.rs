//! What the meter says of a data set's blocks: how many there are, and how full the fullest one is. A series for each block would
//! be a thousand series.

use ledger::{DataSetState, LedgerError};
use proto::BlockId;
use release::budget::Odometer;
use serde_json::{Value, json};

/// A block is used up where no more than this part of its budget is left.
const NOTHING: f64 = 1e-3;

/// The blocks of one data set.
#[derive(Clone, Debug, PartialEq)]
pub struct BlocksReading {
    /// How many there are.
    pub count: usize,
    /// How many are used up.
    pub used_up: usize,
    /// The one of whose own budget the largest part is spent or reserved: of several, the first by name.
    pub fullest: BlockId,
    /// That part, at most 1.
    pub used: f64,
}

impl BlocksReading {
    /// Reads all blocks; `None` where there are none. Many sampled jobs take seconds.
    ///
    /// # Errors
    /// Those of [`Odometer::of`].
    pub fn of(state: &DataSetState) -> Result<Option<Self>, LedgerError> {
        let odometers = Odometer::of_blocks(state)?;
        let blocks = state.record.blocks.iter().zip(odometers);
        let used: Vec<(&BlockId, f64)> =
            blocks.map(|((name, block), odometer)| (name, odometer.used(block.budget.epsilon))).collect();
        let fuller = |most: (_, f64), next: (_, f64)| if next.1 > most.1 { next } else { most };
        let fullest = used.iter().copied().reduce(fuller);
        Ok(fullest.map(|(fullest, part)| Self {
            count: used.len(),
            used_up: used.iter().filter(|(_, used)| *used >= 1.0 - NOTHING).count(),
            fullest: fullest.clone(),
            used: part,
        }))
    }

    /// Returns the reading as the status shows it.
    pub fn to_json(&self) -> Value {
        let Self { count, used_up, fullest, used } = self;
        json!({ "count": count, "used_up": used_up, "fullest": fullest, "used": used })
    }
}
