//! Toeplitz strategies: the pattern (0, b, 2b, …), when it is the worst one, and a bound where it is not.
//!
//! Moving a pattern to earlier rounds only adds rows to C u, so for every Toeplitz C some worst pattern begins
//! in round 0. For i < j, X_ij = Σ_{r<n−j} c_r c_{r+j−i}. Where c ≥ 0 and c_i does not rise **from i = b on**,
//! that grows as j falls and as j − i ≥ b shrinks; (0, b, 2b, …) has the earliest rounds and the smallest
//! differences, so it is the worst pattern. (McMahan, Xu, Zhang 2024, Theorem 3.1, requires that c not
//! rise from 0 on.)

use super::gram::Gram;
use super::worst::worst;
use super::{Bracket, CLOSE, chain};
use crate::participation::Participation;

/// The share of its largest entry by which the majorant may exceed c and still count as rounding.
const ROUNDING: f64 = 1e-13;
/// Most work of an autocorrelation, most numbers of a Gram matrix, and most work of a bound that is summed row by row.
const MAX_PRODUCTS: usize = 1 << 31;
const MAX_GRAM: usize = 1 << 25;
const MAX_SPACED: usize = 1 << 28;

/// Bounds of sens² for the Toeplitz column `c`, at most `rounds` long, whose columns overlap under `rule`.
pub(crate) fn toeplitz(c: &[f64], rounds: usize, rule: Participation) -> Bracket {
    let count = rule.in_rounds(rounds as u64) as usize;
    let gap = rule.min_sep.min(rounds as u64) as usize;
    let tail = majorant(c, gap);
    let excess = tail.iter().zip(c).map(|(m, c)| m - c).fold(0.0, f64::max);
    if excess <= ROUNDING * tail.iter().copied().fold(0.0, f64::max) {
        return Bracket::exactly(spaced_squared(&tail, rounds, gap, count));
    }
    // Entries that can't matter are cut off first: a decaying column is as long as the run, and mostly of them.
    let (kept, rest) = without_dust(c, count);
    let bound = (bound(kept, rounds, gap, count).sqrt() + rest).powi(2);
    let found =
        searched(kept, rounds, rule, gap, count).map_or(Bracket { lower: 0.0, upper: bound }, |found| {
            Bracket { upper: (found.upper.sqrt() + rest).powi(2), ..found }
        });
    Bracket { upper: bound.min(found.upper), ..found }
}

/// A bound of sens² for any column: [`spaced_bound`], or where that takes too long the squared norm of the pattern
/// (0, b, 2b, …) under the majorant of all of |c|. The majorant's matrix is nowhere smaller, and that pattern is its
/// worst. O(n).
fn bound(c: &[f64], rounds: usize, gap: usize, count: usize) -> f64 {
    if rounds.saturating_mul(c.len().div_ceil(gap).min(count)) > MAX_SPACED {
        return spaced_squared(&majorant(c, 0), rounds, gap, count);
    }
    spaced_bound(c, &majorant(c, gap), rounds, gap, count)
}

/// The bound Σ_a X_aa + 2Σ_{a<e} Σ_r |c_r| m_{r+(e−a)b} at rounds 0, b, 2b, …, where m is the majorant of |c|
/// from b on. It is the sensitivity itself where c = m. O(n·p/b).
pub(super) fn spaced_bound(c: &[f64], majorant: &[f64], rounds: usize, gap: usize, count: usize) -> f64 {
    let mut total = 0.0;
    for t in 0..rounds {
        let latest = (t / gap).min(count - 1);
        // Each row is summed by itself: a long run's total would round its smallest terms away.
        let mut row = 0.0;
        let mut earlier = 0.0;
        // Participations that still reach row t, from the oldest: distances t − a·gap below p.
        for a in (t + 1).saturating_sub(c.len()).div_ceil(gap)..=latest {
            let own = c[t - a * gap].abs();
            row += own * (own + 2.0 * earlier);
            earlier += majorant[t - a * gap];
        }
        total += row;
    }
    total
}

/// Bounds by the Gram matrix of `c`; `None` where it is too large or would take too long.
fn searched(c: &[f64], rounds: usize, rule: Participation, gap: usize, count: usize) -> Option<Bracket> {
    let reach = c.len();
    if reach <= gap {
        return Some(Bracket::exactly(spaced_squared(c, rounds, gap, count)));
    }
    // With room for gaps of `reach`, every arrangement of overlaps occurs with no column cut short.
    let roomy = (count - 1).checked_mul(reach)?.checked_add(reach)?;
    let stationary = roomy <= rounds;
    let (sites, length) = if stationary { (1, roomy) } else { (rounds, rounds) };
    // Without the chain each round's part of the Gram bound is taken from the columns that it meets.
    if !chain::fits(sites, reach, gap, count) && length.checked_mul(reach)? > MAX_SPACED {
        return None;
    }
    if stationary {
        let short = reach.checked_mul(reach)? <= MAX_PRODUCTS;
        short.then(|| worst(&Gram::stationary(c), roomy, rule, true).ok())?
    } else {
        let small = rounds.checked_mul(reach)? <= MAX_GRAM;
        small.then(|| worst(&Gram::toeplitz(c, rounds), rounds, rule, true).ok())?
    }
}

/// `c` without an end too small to matter, and the most that this end adds to a sensitivity.
fn without_dust(c: &[f64], count: usize) -> (&[f64], f64) {
    let total: f64 = c.iter().map(|c| c * c).sum();
    let allowed = (CLOSE * 1e-3 / count as f64).powi(2) * total;
    let mut end = c.len();
    let mut dust = 0.0;
    while end > 1 && dust + c[end - 1] * c[end - 1] <= allowed {
        end -= 1;
        dust += c[end] * c[end];
    }
    (&c[..end], count as f64 * dust.sqrt())
}

/// Returns |c| up to index `from`, and from there on the smallest sequence that never rises and is at least |c|.
#[must_use]
pub fn majorant(c: &[f64], from: usize) -> Vec<f64> {
    let mut out: Vec<f64> = c.iter().map(|c| c.abs()).collect();
    for i in (from.saturating_add(1)..out.len()).rev() {
        out[i - 1] = out[i - 1].max(out[i]);
    }
    out
}

/// ‖C u‖² for participations at 0, gap, 2·gap, … (`count` of them) in `rounds` rounds.
pub(crate) fn spaced_squared(c: &[f64], rounds: usize, gap: usize, count: usize) -> f64 {
    spaced_sum(c, rounds, gap, count).iter().map(|u| u * u).sum()
}

/// The vector C u itself, cut where it becomes zero.
pub(crate) fn spaced_sum(c: &[f64], rounds: usize, gap: usize, count: usize) -> Vec<f64> {
    let mut total = vec![0.0; rounds.min((count - 1).saturating_mul(gap).saturating_add(c.len()))];
    // u_t = u_{t−b} + c_t, less what the participation before the first of `count` would have left.
    for t in 0..total.len() {
        let own = c.get(t).copied().unwrap_or(0.0);
        let before = if t >= gap { total[t - gap] } else { 0.0 };
        let too_many = t.checked_sub(count * gap).and_then(|i| c.get(i)).copied().unwrap_or(0.0);
        total[t] = before + own - too_many;
    }
    total
}
