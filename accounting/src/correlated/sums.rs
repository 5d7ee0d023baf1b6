//! The dynamic programme: bounds of E\[W^α\], summed over how many of α draws are in each block of batches.
//!
//! The mean over α draws of e^{Σ_{j<k} K} is α!/b^α times a sum over counts r_i of Π 1/r_i!, with r_i·r_j·K_ij for two batches
//! and r_i(r_i−1)/2·K_ii for one. Blocks of `size` neighbouring batches are passed in turn; a state is how many draws there were
//! in the block before, and in all before that.

use ndarray::Array2;

/// Largest order.
const MAX_ORDER: usize = 64;
/// Largest exponent of a term.
const MAX_EXPONENT: f64 = 600.0;
/// Most terms of one programme.
const MAX_TERMS: f64 = 3e8;

/// Returns the largest order whose terms f64 holds, and whose programme over `blocks` blocks is short enough.
pub(super) fn largest_order(product: f64, terms: impl Fn(f64) -> f64) -> usize {
    let fits = |order: &usize| {
        let a = *order as f64;
        a * (a - 1.0) / 2.0 * product <= MAX_EXPONENT && terms(a) <= MAX_TERMS
    };
    (2..=MAX_ORDER).take_while(fits).last().unwrap_or(2)
}

/// Returns the numbers of batches of one block that are tried: powers of two that make at least four blocks.
pub(super) fn sizes(batches: usize) -> impl Iterator<Item = usize> {
    (0..12).map(|bit| 1usize << bit).take_while(move |size| batches.div_ceil(*size) >= 4)
}

/// Returns the sums over the counts of one block, for 0 to `order` draws, from the products of its batches with themselves and the
/// largest with each other. Each draw counts as `order`/`batches`.
pub(super) fn weights(own: impl Iterator<Item = f64>, within: f64, order: usize, batches: usize) -> Vec<f64> {
    let unit = order as f64 / batches as f64;
    let pairs = |r: usize| (r * r.saturating_sub(1)) as f64 / 2.0;
    let mut sums = vec![0.0; order + 1];
    sums[0] = 1.0;
    for product in own {
        let excess = (product - within).max(0.0);
        let mut factor = 1.0;
        let one: Vec<f64> = (0..=order)
            .map(|r| {
                factor *= if r == 0 { 1.0 } else { unit / r as f64 };
                factor * (excess * pairs(r)).exp()
            })
            .collect();
        let with = |total: usize| (0..=total).map(|r| one[r] * sums[total - r]).sum();
        sums = (0..=order).map(with).collect();
    }
    sums.iter().enumerate().map(|(r, sum)| sum * (within * pairs(r)).exp()).collect()
}

/// Returns e^{x·k} for k up to a limit.
pub(super) fn powers(x: f64, limit: usize) -> Vec<f64> {
    (0..=limit).map(|k| (x * k as f64).exp()).collect()
}

/// Passes one block: from (draws before the block before, draws in the block before) to the same of the next.
pub(super) fn pass(states: &Array2<f64>, own: &[f64], next: f64, far: f64) -> Array2<f64> {
    let rest = states.nrows() - 1;
    // The product of two counts that sum to at most `rest`.
    let near = powers(next, rest * rest / 4);
    let distant = powers(far, rest * rest / 4);
    let mut passed = Array2::<f64>::zeros((rest + 1, rest + 1));
    for ((total, before), value) in states.indexed_iter().filter(|(_, value)| **value > 0.0) {
        if total + before > rest {
            continue;
        }
        for r in 0..=rest - total - before {
            passed[[total + before, r]] += value * own[r] * near[r * before] * distant[r * total];
        }
    }
    passed
}
