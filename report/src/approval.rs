//! The changes of a data set that two persons made, as its report shows them.

use serde::Serialize;

use crate::sections::Block;

/// A change that one person approved and another one made.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ApprovalLine {
    /// When it was made, in milliseconds since 1970.
    pub at_ms: u64,
    /// The change in words.
    pub change: String,
    /// The person who approved it.
    pub approver: String,
    /// The person who made it.
    pub operator: String,
    /// The credentials by which it was made.
    pub by: String,
}

/// Returns the rule, and the table of all changes that two persons made.
pub fn blocks(free_rewinds: u32, lines: &[ApprovalLine]) -> Vec<Block> {
    let text = format!(
        "Raising the budget or a share takes two persons, and so does each rewind of a job that costs privacy and opens a branch above \
         number {free_rewinds}. Who is which person is said by the coordinator's tokens file: anyone who writes that can be both."
    );
    let rule = Block::Point { label: "Rule", text };
    if lines.is_empty() {
        return vec![
            rule,
            Block::Point { label: "Approved", text: "No change was approved and made.".into() },
        ];
    }
    let row = |line: &ApprovalLine| {
        let ApprovalLine { at_ms, change, approver, operator, by } = line;
        vec![at_ms.to_string(), change.clone(), approver.clone(), operator.clone(), by.clone()]
    };
    let head = vec!["ms since 1970", "change", "approved by", "made by", "with"];
    vec![rule, Block::Table { head, rows: lines.iter().map(row).collect() }]
}
