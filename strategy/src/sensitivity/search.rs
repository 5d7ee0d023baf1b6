//! Branch and bound over participation patterns, where dynamic programming (`chain`) would take too long.
//!
//! Every full pattern is bounded from both sides by [`Overlaps::bracket`]. A part of the tree is left out where
//! Σ|X_ij| can't exceed, there, the largest upper bound of a pattern already tried, so that bound holds for all
//! patterns. The budget counts work, never time, so that the same call returns the same answer everywhere.

use super::gram::Gram;
use super::overlaps::{MAX_DUAL, Overlaps};
use super::{Bracket, CLOSE};
use crate::patterns::{best_by_count, fitting};

/// Work (numbers touched) after which the patterns not yet tried are only bounded.
pub(crate) const BUDGET: usize = 1 << 25;
/// Most work and memory that goes into the bounds beforehand.
const MAX_TABLE: usize = 1 << 22;
const MAX_PREPARATION: usize = 1 << 27;

struct Search<'a> {
    gram: &'a Gram,
    n: usize,
    gap: usize,
    /// ahead[m][j]: X_jj and twice the most that m later participations can share with round j.
    ahead: Vec<Vec<f64>>,
    budget: usize,
    found: Bracket,
    /// The largest Σ|X_ij| possible in what the budget left unseen.
    unseen: f64,
}

/// Bounds of sens² over patterns of at most `count` rounds below `n`, gaps ≥ `gap`; `None` where even preparing
/// takes too long. With `anchored` the first participation is in round 0. `budget` is [`BUDGET`] but in tests.
pub(crate) fn branch_and_bound(
    gram: &Gram,
    n: usize,
    gap: usize,
    count: usize,
    anchored: bool,
    budget: usize,
) -> Option<Bracket> {
    let reach = gram.reach().min(n);
    let scanned = if gram.is_stationary() { 1 } else { n };
    if n.checked_mul(count)? > MAX_TABLE || scanned.checked_mul(reach)?.checked_mul(count)? > MAX_PREPARATION
    {
        return None;
    }
    let ahead = ahead(gram, n, gap, count);
    let found = Bracket { lower: 0.0, upper: 0.0 };
    let mut search = Search { gram, n, gap, ahead, budget, found, unseen: 0.0 };
    let nothing = vec![0.0; n];
    if anchored {
        let shared = search.with(&nothing, 0);
        search.below(&mut vec![0], gram.back(0, 0), &shared, count - 1);
    } else {
        search.branch(&mut Vec::new(), 0.0, &nothing, 0, count);
    }
    Some(Bracket { upper: search.found.upper.max(search.unseen), ..search.found })
}

fn ahead(gram: &Gram, n: usize, gap: usize, count: usize) -> Vec<Vec<f64>> {
    let mut out = vec![vec![0.0; n]; count];
    let mut last: Option<(usize, Vec<f64>)> = None;
    for j in 0..n {
        let end = n.min(j + gram.reach());
        let shared = end.saturating_sub(j + gap);
        let known = last.take().filter(|(length, _)| gram.is_stationary() && *length == shared);
        let best = known.map_or_else(
            || {
                let later: Vec<f64> = (j + gap..end).map(|l| gram.at(j, l).abs()).collect();
                best_by_count(&later, gap, fitting(shared, gap, count - 1))
            },
            |k| k.1,
        );
        for (m, row) in out.iter_mut().enumerate() {
            row[j] = gram.back(j, 0) + 2.0 * best[m.min(best.len() - 1)];
        }
        last = Some((shared, best));
    }
    out
}

impl Search<'_> {
    /// Extends `pattern`, whose Σ|X| is `value`; `shared[j]` is twice what round j shares with it.
    fn below(&mut self, pattern: &mut Vec<usize>, value: f64, shared: &[f64], left: usize) {
        let from = pattern.last().map_or(0, |t| t + self.gap);
        if left == 0 || from >= self.n {
            self.try_pattern(pattern);
        } else {
            self.branch(pattern, value, shared, from, left);
        }
    }

    fn try_pattern(&mut self, pattern: &[usize]) {
        let k = pattern.len();
        let bracket = Overlaps::new(pattern, self.gram.reach(), |i, j| self.gram.at(i, j)).bracket();
        let dual = bracket.upper - bracket.lower > CLOSE * bracket.upper && k <= MAX_DUAL;
        self.budget = self.budget.saturating_sub(k * k + if dual { 20 * k * k * k } else { 0 });
        self.found.lower = self.found.lower.max(bracket.lower);
        self.found.upper = self.found.upper.max(bracket.upper);
    }

    /// Tries every next round, the most promising first.
    fn branch(&mut self, pattern: &mut Vec<usize>, value: f64, shared: &[f64], from: usize, left: usize) {
        let mut next = self.bounds(value, shared, from, left);
        next.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (bound, j) in next {
            if bound <= self.found.upper * (1.0 + CLOSE / 2.0) {
                break;
            }
            if self.budget == 0 {
                self.unseen = self.unseen.max(bound);
                break;
            }
            let more = self.with(shared, j);
            self.budget = self.budget.saturating_sub(self.n);
            pattern.push(j);
            self.below(pattern, value + shared[j] + self.gram.back(j, 0), &more, left - 1);
            pattern.pop();
        }
    }

    /// `shared`, and what each later round shares with round `j`.
    fn with(&self, shared: &[f64], j: usize) -> Vec<f64> {
        let mut more = shared.to_vec();
        let end = self.n.min(j + self.gram.reach());
        (j + self.gap..end).for_each(|l| more[l] += 2.0 * self.gram.at(j, l).abs());
        more
    }

    /// (bound of Σ|X| over patterns continued with j, j) for every next round j from `from` on.
    fn bounds(&mut self, value: f64, shared: &[f64], from: usize, left: usize) -> Vec<(f64, usize)> {
        let length = self.n - from;
        self.budget = self.budget.saturating_sub(length * left);
        // best[i]: the most that at most m participations from round from+i on can add.
        let mut best = vec![0.0; length + 1];
        let mut out = Vec::new();
        for m in 0..left {
            let mut row = vec![0.0; length + 1];
            for i in (0..length).rev() {
                let j = from + i;
                let own = shared[j] + self.ahead[m][j] + best[(i + self.gap).min(length)];
                row[i] = f64::max(row[i + 1], own);
                if m + 1 == left {
                    out.push((value + own, j));
                }
            }
            best = row;
        }
        out
    }
}
