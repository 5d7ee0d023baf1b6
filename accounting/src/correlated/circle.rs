//! Bounds of E\[W^α\] for batches on a circle.

use std::ops::Range;

use ndarray::Array2;

use super::sums::{largest_order, pass, powers, sizes, weights};

/// Returns bounds of ln E\[W^α\] for batches on a circle, from their products, for each size of block, and for one block.
pub(super) fn on_circle(products: &Array2<f64>) -> Vec<Vec<f64>> {
    let b = products.nrows();
    let most = products.iter().copied().fold(0.0, f64::max);
    let all = block(products, 0..b, largest_order(most, |_| 0.0));
    let order = largest_order(most, |a| a.powi(4) / 24.0 * b as f64);
    let by_size = sizes(b).map(|size| finished(Circle::new(products, size, order).sum()));
    std::iter::once(finished(all)).chain(by_size).collect()
}

/// Turns the sums over counts into ln E\[W^α\]. Each draw has counted as (largest order)/b.
fn finished(sums: Vec<f64>) -> Vec<f64> {
    let unit = ((sums.len() - 1) as f64).ln();
    let ln = |(order, sum): (usize, &f64)| sum.ln() + libm::lgamma(order as f64 + 1.0) - order as f64 * unit;
    sums.iter().enumerate().map(ln).collect()
}

/// Returns the sums over the counts of one block with its largest product, for 0 to `order` draws.
fn block(products: &Array2<f64>, batches: Range<usize>, order: usize) -> Vec<f64> {
    let pairs = batches.clone().flat_map(|i| (batches.start..i).map(move |j| (i, j)));
    let within = pairs.map(|place| products[place]).fold(0.0, f64::max);
    weights(batches.map(|i| products[(i, i)]), within, order, products.nrows())
}

/// Blocks around a circle, the last of which meets the first.
struct Circle {
    order: usize,
    weights: Vec<Vec<f64>>,
    /// The largest product of each block with the next; of the last with the first.
    next: Vec<f64>,
    /// The largest product of each block with those before that are not next to it, the first one left out.
    far: Vec<f64>,
    /// The largest product of each block with the first.
    first: Vec<f64>,
}

impl Circle {
    fn new(products: &Array2<f64>, size: usize, order: usize) -> Self {
        let b = products.nrows();
        let count = b.div_ceil(size);
        let range = |k: usize| k * size..((k + 1) * size).min(b);
        let between = |k: usize, l: usize| {
            let pairs = range(k).flat_map(|i| range(l).map(move |j| (i, j)));
            pairs.map(|place| products[place]).fold(0.0, f64::max)
        };
        let of_block = |k: usize| block(products, range(k), order);
        Self {
            order,
            weights: (0..count).map(of_block).collect(),
            next: (0..count).map(|k| between(k, (k + 1) % count)).collect(),
            far: (0..count)
                .map(|k| (1..k.saturating_sub(1)).map(|l| between(k, l)).fold(0.0, f64::max))
                .collect(),
            first: (0..count).map(|k| between(0, k)).collect(),
        }
    }

    /// Returns the sums over all counts, for 0 to `order` draws.
    fn sum(&self) -> Vec<f64> {
        let order = self.order;
        let mut sums = vec![0.0; order + 1];
        for in_first in 0..=order {
            let rest = order - in_first;
            let mut states = Array2::<f64>::zeros((rest + 1, rest + 1));
            let met = powers(self.next[0], in_first * rest);
            for r in 0..=rest {
                states[[0, r]] = self.weights[0][in_first] * self.weights[1][r] * met[in_first * r];
            }
            for k in 2..self.weights.len() {
                let first = powers(self.first[k] * in_first as f64, rest);
                let own: Vec<f64> = (0..=rest).map(|r| self.weights[k][r] * first[r]).collect();
                states = pass(&states, &own, self.next[k - 1], self.far[k]);
            }
            for ((total, last), value) in states.indexed_iter().filter(|((t, p), _)| t + p <= rest) {
                sums[in_first + total + last] += value;
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::super::enumerated::assert_bounds;
    use super::*;

    #[test]
    fn circles_bound_every_sum_and_are_exact_for_products_of_neighbours() {
        let any = |i: usize, j: usize| 0.1 + 0.05 * ((i * j + 3 * (i + j)) % 7) as f64;
        for b in [1, 2, 3, 4, 5, 7, 8] {
            let products = Array2::from_shape_fn((b, b), |(i, j)| any(i, j) + if i == j { 0.5 } else { 0.0 });
            assert_bounds(&on_circle(&products), &products, 5, false);
            let apart = |i: usize, j: usize| i.abs_diff(j).min(b - i.abs_diff(j));
            let near = Array2::from_shape_fn((b, b), |(i, j)| [0.7, 0.3, 0.1, 0.1, 0.1][apart(i, j)]);
            assert_bounds(&on_circle(&near), &near, 5, true);
        }
    }
}
