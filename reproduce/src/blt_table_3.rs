//! papers/000, Table 3: losses of the mechanisms compared on StackOverflow.

use strategy::optimize::Family;
use strategy::{Errors, Participation, Strategy, Tree};

use super::item::{Cell, Claim, Found, Item, Source, Table};
use super::tree_full;
use super::work::{Loss, Work};

pub const ITEM: Item = Item {
    name: "blt-table-3",
    source: Source::Blt,
    title: "Table 3: losses at n = 2052, b = 342, k = 6",
    shows: "MaxLoss and RmsLoss of banded matrix factorisation, of the tree with its full decoder, and of BLTs \
            optimised for MaxLoss with one participation (k = 1) or all six, beside test accuracies of a language \
            model. In the text that we have the two loss columns bear each other's heading; here they are right.",
    timed: false,
    make,
};

const N: u64 = 2052;
const RULE: Participation = Participation { min_sep: 342, max_participations: 6 };
/// Half of the last digit printed.
const ROUNDING: f64 = 0.005;

struct Row {
    name: String,
    /// MaxLoss, RmsLoss.
    published: Option<(f64, f64)>,
    ours: (f64, f64),
}

fn make(work: &Work) -> anyhow::Result<Found> {
    let mut rows = vec![
        of(work, "band-mf-342, for RmsLoss", Family::BandMf { bands: 342 }, RULE, Loss::Rms, (10.21, 8.60))?,
        tree("tree, full decoder", tree_full::errors(N as usize), Some((14.98, 12.47)))?,
        tree("tree, streaming", Tree::default().errors(N)?, None)?,
    ];
    rows.extend(blts(work)?);
    let header = ["mechanism", "MaxLoss, published", "MaxLoss, ours", "RmsLoss, published", "RmsLoss, ours"];
    let mut table = Table::new("Losses", header);
    table.rows.extend(rows.iter().map(|row| {
        vec![
            Cell::from(row.name.as_str()),
            Cell::maybe(row.published.map(|p| p.0), 2),
            Cell::number(row.ours.0, 4),
            Cell::maybe(row.published.map(|p| p.1), 2),
            Cell::number(row.ours.1, 4),
        ]
    }));
    Ok(Found {
        setting: "The same n, b and k. Band-mf is optimised for RmsLoss, as in the paper, over all 2052 × 342 numbers; \
                  the full decoder B = A·C⁺ is computed densely. Every loss is with the exact sensitivity."
            .into(),
        claims: rows.iter().filter_map(claim).collect(),
        tables: vec![table],
        remarks: remarks(),
        charts: Vec::new(),
    })
}

/// Made for one participation, for all six, and for all six by the other loss.
fn blts(work: &Work) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    let single = Participation::single();
    for (buffers, published) in [(2, (11.80, 11.15)), (5, (11.40, 10.87))] {
        let name = format!("blt-{buffers}, for MaxLoss at k = 1");
        rows.push(of(work, &name, Family::Blt { buffers }, single, Loss::Max, published)?);
    }
    for (buffers, published) in
        [(2, (10.81, 9.34)), (3, (10.79, 9.33)), (4, (10.79, 9.33)), (5, (10.79, 9.33))]
    {
        let name = format!("blt-{buffers}, for MaxLoss at k = 6");
        rows.push(of(work, &name, Family::Blt { buffers }, RULE, Loss::Max, published)?);
    }
    for buffers in [2, 3, 4, 5] {
        let found = work.optimised(Family::Blt { buffers }, N, RULE, Loss::Rms)?;
        let name = format!("blt-{buffers}, for RmsLoss at k = 6");
        rows.push(Row { name, published: None, ours: (found.max_loss, found.rms_loss) });
    }
    Ok(rows)
}

/// Made for one rule, used under that of the table.
fn of(
    work: &Work,
    name: &str,
    family: Family,
    rule: Participation,
    loss: Loss,
    published: (f64, f64),
) -> anyhow::Result<Row> {
    work.says(name);
    let found = work.optimised(family, N, rule, loss)?;
    let sensitivity = found.strategy.sensitivity(N, RULE)?.value;
    let ours = (found.max_error * sensitivity, found.rms_error * sensitivity);
    Ok(Row { name: name.into(), published: Some(published), ours })
}

fn tree(name: &str, errors: Errors, published: Option<(f64, f64)>) -> anyhow::Result<Row> {
    let sensitivity = Strategy::Tree(Tree::default()).sensitivity(N, RULE)?.value;
    Ok(Row { name: name.into(), published, ours: (errors.max * sensitivity, errors.rms * sensitivity) })
}

/// The loss that was optimised: within the last digit, or better.
fn claim(row: &Row) -> Option<Claim> {
    let (max, rms) = row.published?;
    let (what, published, ours) = if row.name.contains("for MaxLoss") {
        ("MaxLoss", max, row.ours.0)
    } else {
        ("RmsLoss", rms, row.ours.1)
    };
    let holds = ours <= published + ROUNDING;
    Some(Claim::new(
        format!("{}: {what} {published:.2}", row.name),
        format!("{ours:.4}{}", if ours < published - ROUNDING { ", better" } else { "" }),
        holds,
    ))
}

fn remarks() -> Vec<String> {
    [
        "BLTs with three buffers and more have less MaxLoss here than published: those optimisations stopped short of \
         the optimum. Nearer to it RmsLoss is higher, because it is not what is minimised; optimised for RmsLoss (the \
         last rows) it is below the published figures.",
        "The tree with its full decoder needs all nodes at once; what a server with a small state can run is the \
         streaming row.",
        "Test accuracies come from federated training on StackOverflow and are left out.",
    ]
    .map(String::from)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blts_reach_what_was_published() {
        let rows = blts(&Work::new(0)).unwrap();
        let claims: Vec<Claim> = rows.iter().filter_map(claim).collect();
        assert_eq!(claims.len(), 6);
        claims.iter().for_each(|claim| assert!(claim.holds, "{}: {}", claim.paper, claim.here));
        let at = |name: &str| rows.iter().find(|row| row.name == name).unwrap().ours;
        // Golden values: MaxLoss, RmsLoss.
        for (name, max, rms) in [
            ("blt-2, for MaxLoss at k = 1", 11.803, 11.147),
            ("blt-2, for MaxLoss at k = 6", 10.806, 9.344),
            ("blt-4, for MaxLoss at k = 6", 10.734, 9.625),
            ("blt-4, for RmsLoss at k = 6", 10.978, 9.171),
        ] {
            let ours = at(name);
            assert!((ours.0 - max).abs() < 1e-3 && (ours.1 - rms).abs() < 1e-3, "{name}: {ours:?}");
        }
    }
}
