//! Losses of the mechanisms compared on StackOverflow: McMahan, Xu, Zhang (2024), Table 3.

use strategy::optimize::Family;
use strategy::{Errors, Participation, Strategy, Tree};

use crate::item::{Cell, Claim, Findings, Table};
use crate::tree_full;
use crate::work::{Loss, Work};

/// A row of Table 3.
struct Row {
    name: String,
    /// MaxLoss, RmsLoss.
    published: Option<(f64, f64)>,
    ours: (f64, f64),
}

/// The rounds and the rule of Table 3, and half of the last digit printed there.
const TABLE_N: u64 = 2052;
const TABLE_RULE: Participation = Participation { min_sep: 342, max_participations: 6 };
const ROUNDING: f64 = 0.005;

/// Table 3: losses of the mechanisms compared on StackOverflow.
pub fn stack_overflow(work: &Work) -> anyhow::Result<Findings> {
    let published = Some((10.21, 8.60));
    let band_mf = Family::BandMf { bands: 342 };
    let full = tree_full::errors(TABLE_N as usize);
    let mut rows = vec![
        row(work, "band-mf-342, for RmsLoss", band_mf, TABLE_RULE, Loss::Rms, published)?,
        tree("tree, full decoder", full, Some((14.98, 12.47)))?,
        tree("tree, streaming", Tree::default().errors(TABLE_N)?, None)?,
    ];
    rows.extend(blts(work)?);
    let header = ["mechanism", "MaxLoss, published", "MaxLoss, ours", "RmsLoss, published", "RmsLoss, ours"];
    let cells = |row: &Row| {
        let max = [Cell::maybe(row.published.map(|p| p.0), 2), Cell::number(row.ours.0, 4)];
        let rms = [Cell::maybe(row.published.map(|p| p.1), 2), Cell::number(row.ours.1, 4)];
        std::iter::once(Cell::from(row.name.as_str())).chain(max).chain(rms).collect()
    };
    let tables = vec![Table::new("Losses", header, rows.iter().map(cells))];
    Ok(Findings { claims: rows.iter().filter_map(claim).collect(), tables, ..Findings::default() })
}

/// Made for one participation, for all six, and for all six by the other loss.
fn blts(work: &Work) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (buffers, published) in [(2, (11.80, 11.15)), (5, (11.40, 10.87))] {
        let name = format!("blt-{buffers}, for MaxLoss at k = 1");
        let single = Participation::single();
        rows.push(row(work, &name, Family::Blt { buffers }, single, Loss::Max, Some(published))?);
    }
    for (buffers, published) in
        [(2, (10.81, 9.34)), (3, (10.79, 9.33)), (4, (10.79, 9.33)), (5, (10.79, 9.33))]
    {
        let name = format!("blt-{buffers}, for MaxLoss at k = 6");
        rows.push(row(work, &name, Family::Blt { buffers }, TABLE_RULE, Loss::Max, Some(published))?);
    }
    for buffers in [2, 3, 4, 5] {
        let name = format!("blt-{buffers}, for RmsLoss at k = 6");
        rows.push(row(work, &name, Family::Blt { buffers }, TABLE_RULE, Loss::Rms, None)?);
    }
    Ok(rows)
}

/// Made for one rule, used under that of the table.
fn row(
    work: &Work,
    name: &str,
    family: Family,
    rule: Participation,
    loss: Loss,
    published: Option<(f64, f64)>,
) -> anyhow::Result<Row> {
    work.report(name);
    let found = work.optimised(family, TABLE_N, rule, loss)?;
    let sensitivity = found.strategy.sensitivity(TABLE_N, TABLE_RULE)?.value;
    let ours = (found.max_error * sensitivity, found.rms_error * sensitivity);
    Ok(Row { name: name.into(), published, ours })
}

fn tree(name: &str, errors: Errors, published: Option<(f64, f64)>) -> anyhow::Result<Row> {
    let sensitivity = Strategy::Tree(Tree::default()).sensitivity(TABLE_N, TABLE_RULE)?.value;
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
    let paper = format!("{}: {what} {published:.2}", row.name);
    let better = if ours < published - ROUNDING { ", better" } else { "" };
    Some(Claim::new(paper, format!("{ours:.4}{better}"), ours <= published + ROUNDING))
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
