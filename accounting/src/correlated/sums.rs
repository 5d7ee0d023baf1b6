//! The dynamic programme: bounds of E\[W^α\], summed over how many of α draws are in each block of batches.
//!
//! The mean over α draws of e^{Σ_{j<k} K} is α!/b^α times a sum over counts r_i of Π 1/r_i!, with r_i·r_j·K_ij for two batches
//! and r_i(r_i−1)/2·K_ii for one. Blocks of `size` neighbouring batches are passed in turn; a state is how many draws there were
//! in the block before, and in all before that.

use std::ops::Range;

use ndarray::Array2;

use super::reach::Reach;

/// Largest order.
const MAX_ORDER: usize = 64;
/// Largest exponent of a term.
const MAX_EXPONENT: f64 = 600.0;
/// Most terms of one programme.
const MAX_TERMS: f64 = 3e8;

/// Returns the largest order whose terms f64 holds, and whose programme over `blocks` blocks is short enough.
fn largest_order(product: f64, terms: impl Fn(f64) -> f64) -> usize {
    let fits = |order: &usize| {
        let a = *order as f64;
        a * (a - 1.0) / 2.0 * product <= MAX_EXPONENT && terms(a) <= MAX_TERMS
    };
    (2..=MAX_ORDER).take_while(fits).last().unwrap_or(2)
}

fn sizes(batches: usize) -> impl Iterator<Item = usize> {
    (0..12).map(|bit| 1usize << bit).take_while(move |size| batches.div_ceil(*size) >= 4)
}

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

fn weights(own: impl Iterator<Item = f64>, within: f64, order: usize, batches: usize) -> Vec<f64> {
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

/// e^{x·k} for k up to a limit.
fn powers(x: f64, limit: usize) -> Vec<f64> {
    (0..=limit).map(|k| (x * k as f64).exp()).collect()
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

/// Passes one block: from (draws before the block before, draws in the block before) to the same of the next.
fn pass(states: &Array2<f64>, own: &[f64], next: f64, far: f64) -> Array2<f64> {
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

/// Returns bounds of ln E\[W^α\] for batches that are drawn anew in each epoch, from largest products by distance in units of
/// `unit`, for each size of block.
///
/// Draws of one order in two epochs: j ≠ k have all ordered pairs, α(α−1) of them, at the least the product of columns far apart.
/// What the last block of an epoch and the first of the next have beyond it counts for all α² pairs.
pub(super) fn on_line(reach: &Reach, unit: f64, batches: usize, epochs: usize) -> Vec<Vec<f64>> {
    let at = |distance: usize| reach.at(distance as u64) / unit;
    let others: f64 = (2..epochs).map(|k| (epochs - k) as f64 * at((k - 1) * batches + 1)).sum();
    let of_size = |size: usize| {
        let count = batches.div_ceil(size);
        let shortest = batches - (count - 1) * size;
        let line = Line {
            batches,
            size,
            count,
            own: at(0),
            next: at(1),
            far: at(size + 1),
            // The last block but one of an epoch is this far from the first of the next.
            edge: at(1) - at(shortest + 1),
            epochs,
        };
        let between = others + epochs.saturating_sub(1) as f64 * at(shortest + 1);
        let terms = |a: f64| a.powi(4) / 24.0 * (count * epochs) as f64;
        let order = largest_order(line.own + 4.0 * line.edge, terms);
        let pairs = |alpha: usize| (alpha * alpha.saturating_sub(1)) as f64;
        (0..=order).map(|alpha| line.ln_moment(alpha) + pairs(alpha) * between).collect()
    };
    sizes(batches).chain([batches]).map(of_size).collect()
}

/// Epochs of batches one after the other, without the products that all pairs have.
struct Line {
    batches: usize,
    /// Batches of one block.
    size: usize,
    /// Blocks of an epoch.
    count: usize,
    /// Products of a column with itself, with its block's and the next block's columns, and with those farther on.
    own: f64,
    next: f64,
    far: f64,
    /// What the last block of an epoch and the first of the next have beyond the product of blocks farther apart.
    edge: f64,
    epochs: usize,
}

impl Line {
    fn ln_moment(&self, alpha: usize) -> f64 {
        let within = if self.size > 1 { self.next } else { 0.0 };
        let of = |size: usize| weights((0..size).map(|_| self.own), within, alpha.max(1), self.batches);
        let whole = of(self.size);
        let last = of(self.batches - (self.count - 1) * self.size);
        let block = |k: usize| if k + 1 == self.count { &last } else { &whole };
        let scale = libm::lgamma(alpha as f64 + 1.0) - alpha as f64 * (alpha.max(1) as f64).ln();
        self.ln_sum(block, alpha) + self.epochs as f64 * scale
    }

    /// Returns ln of the sum over all counts of `alpha` draws in every epoch.
    fn ln_sum<'a>(&self, block: impl Fn(usize) -> &'a Vec<f64>, alpha: usize) -> f64 {
        let edges = powers(self.edge, alpha * alpha);
        // How many draws are in the last block of the epoch before; none before the first.
        let mut last = vec![0.0; alpha + 1];
        last[0] = 1.0;
        let mut ln_scale = 0.0;
        for _ in 0..self.epochs {
            let mut states = Array2::<f64>::zeros((alpha + 1, alpha + 1));
            for r in 0..=alpha {
                let met: f64 = last.iter().enumerate().map(|(p, value)| value * edges[p * r]).sum();
                states[[0, r]] = met * block(0)[r];
            }
            for k in 1..self.count {
                states = pass(&states, block(k), self.next, self.far);
            }
            last = (0..=alpha).map(|p| states[[alpha - p, p]]).collect();
            let sum: f64 = last.iter().sum();
            ln_scale += sum.ln();
            last.iter_mut().for_each(|value| *value /= sum);
        }
        ln_scale
    }
}

#[cfg(test)]
mod tests {
    use strategy::Strategy;

    use super::*;

    /// ln E[W^α] from its definition, over all sets of α draws.
    fn enumerated(products: &Array2<f64>, order: usize) -> f64 {
        let b = products.nrows();
        let mut sum = 0.0;
        for code in 0..b.pow(order as u32) {
            let draws: Vec<usize> = (0..order).map(|j| code / b.pow(j as u32) % b).collect();
            let pairs = (0..order).flat_map(|j| (0..j).map(move |k| (j, k)));
            sum += pairs.map(|(j, k)| products[[draws[j], draws[k]]]).sum::<f64>().exp();
        }
        (sum / (b as f64).powi(order as i32)).ln()
    }

    fn assert_bounds(lists: &[Vec<f64>], truth: &Array2<f64>, orders: usize, tight: bool) {
        for order in 2..=orders {
            let exact = enumerated(truth, order);
            for list in lists {
                assert!(list[order] >= exact - 1e-12, "{order}: {} below {exact}", list[order]);
            }
            let least = lists.iter().map(|list| list[order]).fold(f64::INFINITY, f64::min);
            assert!(!tight || least < exact + 1e-12, "{order}: {least} for {exact}");
        }
    }

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

    #[test]
    fn lines_bound_every_sum_of_epochs_and_are_exact_for_independent_noise() {
        for c in [vec![1.0], vec![1.0, 0.4], vec![1.0, 0.5, 0.3, 0.2, 0.1], vec![0.9; 12]] {
            for (b, epochs) in [(4usize, 1usize), (5, 1), (4, 2), (3, 2), (5, 2)] {
                let n = (b * epochs) as u64;
                let strategy = Strategy::BandToeplitz { c: c.clone(), column_normalised: false };
                let c_of =
                    |t: usize, j: usize| if t < j { 0.0 } else { c.get(t - j).copied().unwrap_or(0.0) };
                let sets: Vec<Vec<usize>> = (0..b.pow(epochs as u32))
                    .map(|code| (0..epochs).map(|e| e * b + code / b.pow(e as u32) % b).collect())
                    .collect();
                let moved = |set: &[usize], t: usize| set.iter().map(|j| c_of(t, *j)).sum::<f64>();
                let unit = 1.7;
                let truth = Array2::from_shape_fn((sets.len(), sets.len()), |(i, j)| {
                    (0..n as usize).map(|t| moved(&sets[i], t) * moved(&sets[j], t)).sum::<f64>() / unit
                });
                let reach = Reach::of_columns(&strategy, n).unwrap();
                let lists = on_line(&reach, unit, b, epochs);
                assert_bounds(&lists, &truth, if epochs > 1 { 3 } else { 4 }, c.len() == 1);
            }
        }
    }
}
