//! The worst participation pattern: dynamic programming over rounds, and the bound it gives for any matrix.

use crate::participation::Participation;

/// best[c] = the largest Σ_{j∈π} weights[j] over patterns of at most c rounds, gaps ≥ `gap`, for c ≤ `count`.
/// Weights are non-negative; O(len·count).
pub(crate) fn best_by_count(weights: &[f64], gap: usize, count: usize) -> Vec<f64> {
    let mut previous = vec![0.0; weights.len() + 1];
    let mut best = vec![0.0];
    for _ in 0..count {
        let mut row = vec![0.0; weights.len() + 1];
        for j in 0..weights.len() {
            row[j + 1] = f64::max(row[j], weights[j] + previous[(j + 1).saturating_sub(gap)]);
        }
        best.push(row[weights.len()]);
        previous = row;
    }
    best
}

/// A pattern that attains `best_by_count(weights, gap, count)[count]`, its rounds ascending, with the value.
pub(crate) fn worst_pattern(weights: &[f64], gap: usize, count: usize) -> (f64, Vec<usize>) {
    let n = weights.len();
    let mut table = vec![vec![0.0; n + 1]];
    for c in 0..count {
        let mut row = vec![0.0; n + 1];
        for j in 0..n {
            row[j + 1] = f64::max(row[j], weights[j] + table[c][(j + 1).saturating_sub(gap)]);
        }
        table.push(row);
    }
    let (mut c, mut end) = (count, n);
    let mut pattern = Vec::new();
    while c > 0 && end > 0 {
        if table[c][end] == table[c][end - 1] {
            end -= 1;
        } else {
            pattern.push(end - 1);
            end = end.saturating_sub(gap);
            c -= 1;
        }
    }
    pattern.reverse();
    (table[count][n], pattern)
}

/// Largest table, in numbers, that [`worst_pattern`] may hold (1 GiB).
pub(crate) const MAX_TABLE: usize = 1 << 27;

/// A bound of sens(C)² from the Gram matrix X = CᵀC, whose entries vanish for |i−j| ≥ `reach`, and the pattern
/// that it comes from.
///
/// v_i is the most that one pattern through round i collects of |X_ij|, and sens² ≤ max_π Σ_{i∈π} v_i.
pub(crate) fn gram_bound(
    n: usize,
    reach: usize,
    rule: Participation,
    gram: impl Fn(usize, usize) -> f64,
) -> (f64, Vec<usize>) {
    let count = rule.in_rounds(n as u64) as usize;
    let gap = rule.min_sep.min(n as u64) as usize;
    let v: Vec<f64> = (0..n).map(|i| collected(i, n, reach, gap, count, &gram)).collect();
    worst_pattern(&v, gap, count)
}

/// v_i: |X_ii| plus the best of what lies at least `gap` before and after, count−1 participations in all.
fn collected(
    i: usize,
    n: usize,
    reach: usize,
    gap: usize,
    count: usize,
    gram: &impl Fn(usize, usize) -> f64,
) -> f64 {
    let own = gram(i, i).abs();
    if count == 1 || reach <= gap {
        return own;
    }
    let before: Vec<f64> =
        ((i + 1).saturating_sub(reach)..(i + 1).saturating_sub(gap)).map(|j| gram(i, j).abs()).collect();
    let after: Vec<f64> = (i + gap..n.min(i + reach)).map(|j| gram(i, j).abs()).collect();
    let left = best_by_count(&before, gap, fitting(before.len(), gap, count - 1));
    let right = best_by_count(&after, gap, fitting(after.len(), gap, count - 1));
    let both = left.iter().enumerate().map(|(c, l)| l + right[(count - 1 - c).min(right.len() - 1)]);
    own + both.fold(0.0, f64::max)
}

/// How many of `count` rounds fit in a stretch of `length` with gaps ≥ `gap`.
pub(crate) fn fitting(length: usize, gap: usize, count: usize) -> usize {
    count.min(length.div_ceil(gap))
}
