//! The tenants of a data set, as its report shows them.

use serde::Serialize;

use crate::amount::{Amount, down, up};
use crate::sections::Block;

/// What one tenant may spend of a budget, and is charged for: figures at the share's δ.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ShareLine {
    /// The tenant.
    pub tenant: String,
    /// The most that its jobs together may cost. `None` for a tenant without a share, whose figures are at the budget's δ.
    pub share: Option<Amount>,
    /// The cost of what nothing gives back, composed.
    pub spent: Amount,
    /// By how much ε grows with what is only reserved.
    pub reserved: Amount,
    /// What the share holds beyond both; the whole budget may hold less.
    pub left: Option<Amount>,
}

/// Returns the table of all tenants, and what it holds for.
pub fn blocks(shares: &[ShareLine]) -> Vec<Block> {
    let row = |line: &ShareLine| {
        let most = line.share.map_or_else(|| "no share".to_owned(), |share| share.epsilon.to_string());
        let left = line.left.map_or_else(|| "–".to_owned(), |left| down(left.epsilon));
        vec![
            line.tenant.clone(),
            most,
            up(line.spent.epsilon),
            up(line.reserved.epsilon),
            left,
            line.spent.delta.to_string(),
        ]
    };
    let head = vec!["tenant", "share ε", "spent", "reserved", "left", "δ"];
    let text = "Each tenant's charges are composed by themselves. Shares may sum to more than the budget, which holds beside \
                them, and the ε of several tenants do not add up to what they cost together.";
    vec![
        Block::Table { head, rows: shares.iter().map(row).collect() },
        Block::Point { label: "Shares", text: text.into() },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cost_of_a_tenant_looks_smaller_and_no_rest_larger() {
        let at = |epsilon| Amount { epsilon, delta: 1e-7 };
        let line = |share: Option<f64>| ShareLine {
            tenant: "ads".into(),
            share: share.map(at),
            spent: at(0.300_001),
            reserved: at(0.2),
            left: share.map(|share| at(share - 0.500_001)),
        };
        let blocks = blocks(&[line(Some(1.0)), line(None)]);
        let Block::Table { rows, .. } = &blocks[0] else { panic!("no table") };
        assert_eq!(rows[0], ["ads", "1", "0.30001", "0.20000", "0.49999", "0.0000001"]);
        assert_eq!(rows[1], ["ads", "no share", "0.30001", "0.20000", "–", "0.0000001"]);
    }
}
