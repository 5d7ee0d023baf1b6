//! The worst participation pattern: dynamic programming over rounds, and the bound that follows for any matrix.

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
    let mut c = count;
    let mut end = n;
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

/// Most numbers touched for the best of every stretch of columns, a few seconds.
const MAX_STEPS: usize = 1 << 31;

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
    let steps = n.saturating_mul(reach).saturating_mul(fitting(reach, gap, count));
    // At a gap of 1 both are the same.
    let quickly = gap == 1 || steps > MAX_STEPS;
    let collected = if quickly { collected_at_most } else { collected };
    let v: Vec<f64> = (0..n).map(|i| collected(i, n, reach, gap, count, &gram)).collect();
    worst_pattern(&v, gap, count)
}

/// v_i: |X_ii| plus the best of what lies at least `gap` before and after, count−1 participations in all.
fn collected<G: Fn(usize, usize) -> f64>(
    i: usize,
    n: usize,
    reach: usize,
    gap: usize,
    count: usize,
    gram: &G,
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

/// No less than [`collected`], in O(reach): of `gap` rounds in a row one at most is taken, so that the largest of each
/// such stretch, and of these the largest count−1, are no less than any pattern's. With a gap of 1 they are a pattern.
fn collected_at_most<G: Fn(usize, usize) -> f64>(
    i: usize,
    n: usize,
    reach: usize,
    gap: usize,
    count: usize,
    gram: &G,
) -> f64 {
    let own = gram(i, i).abs();
    if count == 1 || reach <= gap {
        return own;
    }
    let before: Vec<f64> = (gap..reach.min(i + 1)).map(|d| gram(i - d, i).abs()).collect();
    let after: Vec<f64> = (i + gap..n.min(i + reach)).map(|j| gram(i, j).abs()).collect();
    let largest = |stretch: &[f64]| stretch.iter().copied().fold(0.0, f64::max);
    let mut best: Vec<f64> = before.chunks(gap).chain(after.chunks(gap)).map(largest).collect();
    if best.len() >= count {
        best.select_nth_unstable_by(count - 1, |a, b| b.total_cmp(a));
    }
    own + best.iter().take(count - 1).sum::<f64>()
}

/// The number of `count` rounds that fit in a stretch of `length` with gaps ≥ `gap`.
pub(crate) fn fitting(length: usize, gap: usize, count: usize) -> usize {
    count.min(length.div_ceil(gap))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quick_bound_is_never_below_the_long_one() {
        // Numbers that look random and never change, the same for (i, j) as for (j, i).
        let gram = |i: usize, j: usize| {
            (((i + j) * 7919 + i.abs_diff(j) * 104_729 + i * j * 31) % 997) as f64 / 997.0
        };
        for (n, reach, count) in [(1, 1, 1), (9, 4, 3), (20, 20, 20), (30, 11, 5), (30, 30, 2)] {
            for (gap, i) in (1..8).flat_map(|gap| (0..n).map(move |i| (gap, i))) {
                let long = collected(i, n, reach, gap, count, &gram);
                let quick = collected_at_most(i, n, reach, gap, count, &gram);
                assert!(quick >= long - 1e-12, "{n} {reach} {gap} {count} {i}: {quick} {long}");
                assert!(gap > 1 || quick <= long + 1e-12, "{n} {reach} {count} {i}: {quick} {long}");
            }
        }
    }
}
