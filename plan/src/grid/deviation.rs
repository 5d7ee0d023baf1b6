//! How far rows and buffers on the grid go: their standard deviations, in units of s.

use super::coefficients::{GridBandRows, GridBanded, GridCoefficients, GridInverse};
use crate::error::require;
use crate::{PlanError, Tree};

/// Most products of one recurrence: a second or two.
const MAX_PRODUCTS: u64 = 1 << 31;

/// Room for the roundings of a tree's nodes and of the halves that they combine.
const TREE_ROOM: f64 = 1.01;

/// Standard deviations in units of s, the largest over all rows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Deviations {
    /// Of the rows.
    pub row: f64,
    /// Of a BLT's buffers S_j, in order; empty for others.
    pub buffers: Vec<f64>,
}

/// Computes the deviations of a run of `n` rows; `scale` is s.
pub(super) fn deviations(
    coefficients: &GridCoefficients,
    n: u64,
    scale: f64,
) -> Result<Deviations, PlanError> {
    let row = match coefficients {
        GridCoefficients::Identity { .. } => 1.0,
        GridCoefficients::Tree { tree, .. } => self::tree(tree),
        GridCoefficients::Blt { theta, omega, .. } => return blt(theta, omega, n),
        GridCoefficients::Banded(banded) => self::banded(banded, n, scale)?,
        GridCoefficients::Inverse { rows, .. } => inverse(rows),
    };
    Ok(Deviations { row, buffers: Vec::new() })
}

fn affordable(products: u64) -> Result<(), PlanError> {
    let allowed = format!("up to {MAX_PRODUCTS} on a grid, whose rows must be known to fit 32 bits");
    require(products <= MAX_PRODUCTS, "iterations × coefficients of a row", products, allowed)
}

fn banded(banded: &GridBanded, n: u64, scale: f64) -> Result<f64, PlanError> {
    let p = banded.bands - 1;
    match &banded.rows {
        GridBandRows::Toeplitz { lags, scale: row_scale } => {
            affordable(n.saturating_mul(p as u64))?;
            let mut response: Vec<f64> = Vec::with_capacity(n as usize);
            for t in 0..n as usize {
                let before: f64 = lags.iter().zip(response.iter().rev()).map(|(lag, x)| lag * x).sum();
                response.push(if t == 0 { 1.0 } else { -before });
            }
            Ok(response.iter().map(|x| x * x).sum::<f64>().sqrt() * row_scale / scale)
        }
        GridBandRows::PerRow { scales, .. } => {
            affordable(n.saturating_mul(n).saturating_mul(p as u64 + 1) / 2)?;
            let n = n as usize;
            // One column of C⁻¹ at a time: y_t = Σ over impulses j of (response at t)².
            let mut squares = vec![0.0f64; n];
            let mut response = vec![0.0f64; n];
            for (j, own) in scales.iter().enumerate() {
                for t in j..n {
                    let reach = p.min(t - j);
                    let before = &response[t - reach..t];
                    let fed: f64 =
                        banded.lags(t).iter().zip(before.iter().rev()).map(|(lag, x)| lag * x).sum();
                    response[t] = if t == j { own / scale } else { -fed };
                    squares[t] += response[t] * response[t];
                }
            }
            Ok(squares.iter().copied().fold(0.0, f64::max).sqrt())
        }
    }
}

/// A bound for the rows of Honaker's residual noise: an estimate of a prefix, less the one before.
///
/// The estimate of a node of level l has its own noise with the weight w_l = 2^l/(2^{l+1} − 1), which is its variance too, and its
/// halves' estimates with 1 − w_l. The row R_L that completes a node of level L is its estimate less those of the left halves
/// on the way to its last leaf: R_L = w_L·Z − w_L·(left + right) + R_{L−1}. With Cov(R_l, estimate) = Π_{k≤l}(1 − w_k) = s_l,
/// Var R_L = Var R_{L−1} + 2w_L·(w_{L−1} − s_{L−1}). The last row of a tree that is completed has R_L without some of its left
/// halves, each of which adds w_l·(1 − 2·Π_{l<k≤L}(1 − w_k)) > 0.
fn tree(tree: &Tree) -> f64 {
    let leaves = tree.segments.iter().map(|segment| segment.rows + segment.virtual_steps).max().unwrap_or(1);
    let mut variance = 1.0;
    let mut shared = 1.0;
    let mut below = 1.0;
    for level in 1..=leaves.ilog2() as i32 {
        let weight = 2f64.powi(level) / (2f64.powi(level + 1) - 1.0);
        variance += 2.0 * weight * (below - shared);
        shared *= 1.0 - weight;
        below = weight;
    }
    f64::sqrt(variance) * TREE_ROOM
}

fn blt(theta: &[f64], omega: &[f64], n: u64) -> Result<Deviations, PlanError> {
    affordable(n.saturating_mul(theta.len() as u64))?;
    let mut state = vec![0.0; theta.len()];
    let mut squares = vec![0.0; theta.len()];
    let mut row = 0.0;
    for t in 0..n {
        let taken: f64 = state.iter().zip(omega).map(|(s, omega)| s * omega).sum();
        let x = if t == 0 { 1.0 } else { -taken };
        row += x * x;
        for ((s, theta), square) in state.iter_mut().zip(theta).zip(&mut squares) {
            *s = *s * theta + x;
            *square += *s * *s;
        }
    }
    Ok(Deviations { row: row.sqrt(), buffers: squares.into_iter().map(f64::sqrt).collect() })
}

fn inverse(rows: &GridInverse) -> f64 {
    let norm = |row: &[f64]| row.iter().map(|x| x * x).sum::<f64>().sqrt();
    match rows {
        GridInverse::Toeplitz { coefficients } => norm(coefficients),
        GridInverse::Dense { rows } => {
            let mut largest = 0.0f64;
            let mut start = 0;
            let mut t = 0;
            while start < rows.len() {
                largest = largest.max(norm(&rows[start..=start + t]));
                start += t + 1;
                t += 1;
            }
            largest
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::round;

    /// Adds the weights of a node's estimate on all nodes of a tree, which are numbered as a heap's, the root 1.
    fn estimate(node: usize, level: i32, factor: f64, weights: &mut [f64]) {
        let own = 2f64.powi(level) / (2f64.powi(level + 1) - 1.0);
        weights[node] += factor * own;
        if level > 0 {
            estimate(2 * node, level - 1, factor * (1.0 - own), weights);
            estimate(2 * node + 1, level - 1, factor * (1.0 - own), weights);
        }
    }

    /// Returns the weights of the estimate of the first `rows` leaves of a tree with 2^`height`.
    fn prefix(rows: usize, height: i32) -> Vec<f64> {
        let mut weights = vec![0.0; 2usize << height];
        let mut start = 0;
        for level in (0..=height).rev().filter(|level| (rows >> level) & 1 == 1) {
            estimate((1usize << (height - level)) + (start >> level), level, 1.0, &mut weights);
            start += 1usize << level;
        }
        weights
    }

    /// Returns the largest deviation of the rows of one tree, and that of its last where it is completed.
    fn dense(rows: usize, height: i32) -> (f64, f64) {
        let moved = |from: usize, to: usize| -> f64 {
            let before = prefix(from, height);
            prefix(to, height).iter().zip(before).map(|(a, b)| (a - b).powi(2)).sum()
        };
        let largest = (0..rows).map(|t| moved(t, t + 1)).fold(0.0, f64::max);
        (largest.sqrt(), moved(rows - 1, 1usize << height).sqrt())
    }

    #[test]
    fn no_row_of_a_tree_goes_further_than_its_deviation() {
        let of = |restarts: &[u64], completion: bool, n: u64| tree(&round::tree(restarts, completion, n));
        for height in [0, 1, 2, 3, 6] {
            let largest = dense(1usize << height, height).0;
            let bound = of(&[], false, 1u64 << height);
            assert!((bound / largest - TREE_ROOM).abs() < 1e-9, "{height}: {bound} for {largest}");
        }
        assert!(of(&[], false, 64) > 1.7);
        for rows in [33, 40, 48, 63, 64] {
            let (largest, completed) = dense(rows, 6);
            assert!(of(&[], false, rows as u64) >= largest, "{rows}");
            assert!(of(&[rows as u64], true, 90) >= completed.max(largest), "{rows}: {completed}");
        }
    }
}
