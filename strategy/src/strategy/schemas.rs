//! Sensitivities under schemas that name a user's rounds: every set is tried.

use super::Strategy;
use super::columns::Columns;
use crate::error::Result;
use crate::participation::{Participation, Sensitivity};
use crate::sensitivity::tree_counts::Blocks;
use crate::sensitivity::{Bracket, spaced_squared};
use crate::tree::Tree;

/// Most participations of all sets of a fixed-epoch schema together that are tried one by one.
const MAX_LISTED: u64 = 1 << 27;
/// Most products of Toeplitz entries that go into one set.
const MAX_PRODUCTS: u64 = 1 << 32;

/// The worst of the given sets, each ascending and below `n`.
pub(crate) fn sets(strategy: &Strategy, n: u64, sets: &[Vec<u64>]) -> Result<Sensitivity> {
    if let Strategy::Tree(tree) = strategy {
        let blocks = Blocks::of(tree, n)?;
        let squared = sets.iter().map(|set| blocks.squared(set)).max().unwrap_or(0);
        return Ok(Sensitivity::exact_squared(squared as f64));
    }
    let columns = Columns::of(strategy, n)?;
    let brackets = sets.iter().map(|set| {
        let rounds: Vec<usize> = set.iter().map(|r| *r as usize).collect();
        columns.overlaps(&rounds).bracket()
    });
    Ok(brackets.fold(Bracket::exactly(0.0), Bracket::worse).sensitivity())
}

/// The worst offset i of rounds i, i + period, … below `n`, at most `epochs` of them.
pub(crate) fn fixed_epoch(strategy: &Strategy, n: u64, period: u64, epochs: u64) -> Result<Sensitivity> {
    let rule = Participation { min_sep: period, max_participations: epochs };
    let known = match strategy {
        // Its worst pattern under min-sep is 0, b, 2b, …, which this schema allows.
        Strategy::Blt(blt) => return blt.sensitivity(n, rule),
        Strategy::Tree(tree) => tree_offsets(tree, n, rule)?,
        _ => offsets(&Columns::of(strategy, n)?, n, rule),
    };
    // Min-sep allows all that this schema does, so where trying it would take too long that is a bound.
    match known {
        Some(known) => Ok(known),
        None => Ok(Sensitivity { exact: false, ..strategy.sensitivity(n, rule)? }),
    }
}

fn tree_offsets(tree: &Tree, n: u64, rule: Participation) -> Result<Option<Sensitivity>> {
    let blocks = Blocks::of(tree, n)?;
    let offsets = rule.min_sep.min(n);
    if rule.in_rounds(n).saturating_mul(offsets) > MAX_LISTED {
        return Ok(None);
    }
    let squared = (0..offsets).map(|i| blocks.squared(&rounds_from(i, rule, n))).max();
    Ok(squared.map(|s| Sensitivity::exact_squared(s as f64)))
}

/// The worst offset by columns; `None` where it would take too long.
fn offsets(columns: &Columns, n: u64, rule: Participation) -> Option<Sensitivity> {
    let rounds = |i: u64| -> Vec<usize> { rounds_from(i, rule, n).iter().map(|r| *r as usize).collect() };
    let Some(c) = columns.first_of_toeplitz() else {
        let brackets = (0..rule.min_sep.min(n)).map(|i| columns.overlaps(&rounds(i)).bracket());
        return Some(brackets.fold(Bracket::exactly(0.0), Bracket::worse).sensitivity());
    };
    // Moving a pattern to earlier rounds only adds rows to C u, so offset 0 is the worst.
    let count = rule.in_rounds(n);
    if c.iter().all(|c| *c >= 0.0) {
        let gap = rule.min_sep.min(n) as usize;
        return Some(Sensitivity::exact_squared(spaced_squared(c, n as usize, gap, count as usize)));
    }
    let length = c.len() as u64;
    let products = count.saturating_mul(count.min(length / rule.min_sep + 1)).saturating_mul(length);
    (products <= MAX_PRODUCTS).then(|| columns.overlaps(&rounds(0)).bracket().sensitivity())
}

/// Rounds `offset`, offset + b, … below `n`, at most k of them.
fn rounds_from(offset: u64, rule: Participation, n: u64) -> Vec<u64> {
    let step = usize::try_from(rule.min_sep).unwrap_or(usize::MAX);
    let most = usize::try_from(rule.max_participations).unwrap_or(usize::MAX);
    (offset..n).step_by(step).take(most).collect()
}
