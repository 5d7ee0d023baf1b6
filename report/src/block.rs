//! The blocks of a data set, as its report shows them.

use serde::Serialize;

use crate::amount::{Amount, down, up};
use crate::sections::Block;

/// One block: days of records, with a budget of their own.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BlockLine {
    /// The block.
    pub block: String,
    /// The first day of its records, in UTC.
    pub from: String,
    /// The first day after them.
    pub until: String,
    /// The most that the jobs that read it may cost.
    pub budget: Amount,
    /// The cost of what nothing gives back of it, composed.
    pub spent: Amount,
    /// By how much ε grows with what is only reserved.
    pub reserved: Amount,
    /// What its budget holds beyond both.
    pub left: Amount,
}

/// Returns the table of all blocks, and what it holds for.
pub fn blocks(lines: &[BlockLine], unit: &str) -> Vec<Block> {
    let row = |line: &BlockLine| {
        vec![
            line.block.clone(),
            line.from.clone(),
            line.until.clone(),
            line.budget.epsilon.to_string(),
            up(line.spent.epsilon),
            up(line.reserved.epsilon),
            down(line.left.epsilon),
            line.budget.delta.to_string(),
        ]
    };
    let head = vec!["block", "from", "until before", "budget ε", "spent", "reserved", "left", "δ"];
    let text = format!(
        "The figures of a block hold for the part of the data of one {unit} that lies in that block. For one {unit} whose data lies \
         in several blocks none of these figures holds, nor does the largest: every job that reads any of them counts, once.{}",
        shared(unit)
    );
    vec![Block::Table { head, rows: lines.iter().map(row).collect() }, Block::Point { label: "Blocks", text }]
}

/// Returns what a job of several blocks counts for, where a unit may have data in several.
fn shared(unit: &str) -> String {
    if unit == "example" {
        return String::new();
    }
    format!(
        " A job of several blocks, or of none that it names, counts in each as if all data of one {unit} were replaced: without what lies in          the block, the rest may contribute anything within the clip norm."
    )
}

/// Returns what is assumed of blocks.
pub fn assumption(unit: &str) -> Block {
    let text = format!(
        "That each record is in the block of its day and in no other, whatever the other records are, and that a job reads \
         no block but those it names and clips what one {unit} contributes over all of these as a whole. Neighbouring data sets \
         that differ in a block differ in its records alone: one that is replaced is replaced within its block."
    );
    Block::Point { label: "Blocks, not checked", text }
}
