//! The worst pattern under min-sep, where columns overlap: every method that fits, and the best of them.

use super::gram::Gram;
use super::overlaps::Overlaps;
use super::{Bracket, chain, search};
use crate::error::{Result, invalid};
use crate::participation::Participation;
use crate::patterns::{MAX_TABLE, gram_bound};

/// Bounds of sens² over `n` rounds under `rule`, for columns that overlap by Gram matrix. `anchored` where the
/// worst pattern is known to begin in round 0, as for every Toeplitz matrix.
///
/// Exact dynamic programming over Σ|X| where it is short enough, else the Gram bound; where signs do not agree
/// or it is a bound alone, branch and bound is tried too.
///
/// # Errors
/// [`crate::StrategyError::Invalid`] for n·k beyond memory.
pub(crate) fn worst(gram: &Gram, n: usize, rule: Participation, anchored: bool) -> Result<Bracket> {
    let count = rule.in_rounds(n as u64) as usize;
    let gap = rule.min_sep.min(n as u64) as usize;
    let (upper, pattern) = match chain::heaviest(gram, n, gap, count) {
        Some(found) => found,
        None if (count + 1).saturating_mul(n + 1) > MAX_TABLE => {
            let value = n.saturating_mul(count);
            return Err(invalid("iterations × max_participations", value, format!("up to {MAX_TABLE}")));
        }
        None => gram_bound(n, gram.reach(), rule, |i, j| gram.at(i, j)),
    };
    let tried = Overlaps::new(&pattern, gram.reach(), |i, j| gram.at(i, j)).bracket();
    let first = Bracket { lower: tried.lower, upper };
    if first.is_exact() {
        return Ok(first);
    }
    Ok(match search::branch_and_bound(gram, n, gap, count, anchored, search::BUDGET) {
        Some(more) => Bracket { lower: first.lower.max(more.lower), upper: upper.min(more.upper) },
        None => first,
    })
}
