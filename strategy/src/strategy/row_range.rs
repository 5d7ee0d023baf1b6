//! The sensitivity of a range of rows of C alone, for accounts that already cover the other rows.
//!
//! C[R, :] for R = a..e has the columns below e, and of p bands only those from a − p + 1 on. Its Gram matrix is
//! that of the columns cut to R, so the worst pattern is found as for a whole matrix where it fits in memory.
//! Two bounds hold always: the leading e rows have C[R, :] among them, and ‖C[R, :]u‖ ≤ Σ_{j∈π} ‖C[R, j]‖.

use std::ops::Range;

use super::Strategy;
use super::columns::Columns;
use crate::error::{Result, StrategyError, invalid};
use crate::participation::{Participation, Sensitivity};
use crate::patterns::best_by_count;
use crate::sensitivity::gram::Gram;
use crate::sensitivity::{Bracket, CLOSE, worst};
use crate::tree::Tree;

/// Most numbers of a Gram matrix, and most products for one.
const MAX_GRAM: usize = 1 << 24;
const MAX_PRODUCTS: usize = 1 << 31;

impl Strategy {
    /// Returns the sensitivity of C[rows, :] per unit clip norm in a run of `n` rounds: the largest ‖C[rows, :]u‖ over
    /// participations with j − i ≥ `min_sep`. Rows 0..r are the first r rounds of the run, as they are in it.
    ///
    /// # Errors
    /// [`crate::StrategyError::Invalid`] for unusable parameters, rule or rows, or beyond memory.
    pub fn sensitivity_of_rows(&self, n: u64, rows: Range<u64>, rule: Participation) -> Result<Sensitivity> {
        self.validate()?;
        rule.check()?;
        if rows.start >= rows.end || rows.end > n {
            let value = format!("{}..{}", rows.start, rows.end);
            return Err(invalid("rows", value, format!("a..b with a < b ≤ {n}")));
        }
        if let Self::Tree(tree) = self {
            return of_trees(tree, n, rows, rule);
        }
        // Only where columns are scaled to norm one does C depend on n; a shorter run then has larger columns.
        let scaled = match self {
            Self::BandToeplitz { column_normalised, .. } => *column_normalised,
            Self::Scaled(scaled) => scaled.is_normalised(),
            _ => false,
        };
        let leading = self.sensitivity(rows.end, rule);
        if rows.start == 0 && (rows.end == n || !scaled) {
            return leading;
        }
        let cut = of_columns(self, if scaled { n } else { rows.end }, &rows, rule);
        match (cut, leading) {
            (Ok(Some(cut)), Ok(leading)) => {
                let found = cut.sensitivity();
                let bound = Sensitivity { exact: false, ..leading };
                Ok(if found.value <= leading.value * (1.0 + CLOSE) { found } else { bound })
            }
            (Ok(Some(cut)), Err(_)) => Ok(cut.sensitivity()),
            (_, leading) => Ok(Sensitivity { exact: false, ..leading? }),
        }
    }
}

/// A bracket by the columns alone; `None` where even their norms take too long.
fn of_columns(
    strategy: &Strategy,
    n: u64,
    rows: &Range<u64>,
    rule: Participation,
) -> Result<Option<Bracket>> {
    let columns = Columns::of(strategy, n)?;
    let rows = rows.start as usize..rows.end as usize;
    let first = (rows.start + 1).saturating_sub(columns.reach());
    let width = rows.end - first;
    let reach = columns.reach().min(width);
    let count = rule.in_rounds(width as u64) as usize;
    let gap = rule.min_sep.min(width as u64) as usize;
    let height = rows.len().min(reach);
    if width.saturating_mul(height) > MAX_PRODUCTS || width.saturating_mul(count) > MAX_PRODUCTS {
        return Ok(None);
    }
    let overlap = |i: usize, j: usize| columns.overlap_within(&rows, first + i, first + j);
    let squares: Vec<f64> = (0..width).map(|j| overlap(j, j)).collect();
    let most = |weights: &[f64]| best_by_count(weights, gap, count).last().copied().unwrap_or_default();
    if reach <= gap || count == 1 {
        return Ok(Some(Bracket::exactly(most(&squares))));
    }
    let norms: Vec<f64> = squares.iter().map(|square| square.sqrt()).collect();
    let upper = most(&norms).powi(2);
    let numbers = width.saturating_mul(reach);
    if numbers > MAX_GRAM || numbers.saturating_mul(height) > MAX_PRODUCTS {
        return Ok(Some(Bracket { lower: 0.0, upper }));
    }
    match worst(&Gram::banded(width, reach, gap, overlap), width, rule, false) {
        Ok(found) => Ok(Some(Bracket { upper: found.upper.min(upper), ..found })),
        // Beyond memory for a pattern of so many rounds.
        Err(StrategyError::Invalid { .. }) => Ok(Some(Bracket { lower: 0.0, upper })),
        Err(other) => Err(other),
    }
}

/// The sensitivity of the nodes that can end in `rows`: those of the trees that the rows belong to, as far as these
/// have grown. It is an upper bound unless the rows are whole leading trees.
fn of_trees(tree: &Tree, n: u64, rows: Range<u64>, rule: Participation) -> Result<Sensitivity> {
    let start = tree.restarts().iter().copied().take_while(|restart| *restart <= rows.start).last();
    let start = start.unwrap_or(0);
    // A tree's last round already reads the virtual rounds behind it, which come with the round after.
    let filled = tree.completion() && rows.end < n && tree.restarts().contains(&rows.end);
    let end = if filled { rows.end + 1 } else { rows.end };
    let restarts = tree.restarts().iter().filter(|restart| (start + 1..end).contains(restart));
    let part = Tree::new(restarts.map(|restart| restart - start).collect(), tree.completion())?;
    let found = part.sensitivity(end - start, rule)?;
    Ok(Sensitivity { exact: found.exact && rows.start == 0 && !filled, ..found })
}
