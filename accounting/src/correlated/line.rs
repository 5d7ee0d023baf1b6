//! Bounds of E\[W^α\] for batches that are drawn anew in each epoch.

use ndarray::Array2;

use super::reach::Reach;
use super::sums::{largest_order, pass, powers, sizes, weights};

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

    use super::super::enumerated::assert_bounds;
    use super::*;

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
