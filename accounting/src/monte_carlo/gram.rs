//! The Gram matrix G[i,j] = m_i·m_j of m_i = Σ_e C[:, be + i], the move that a record in batch i causes over all epochs.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayViewMut1, Axis, Slice};
use strategy::{Strategy, Tree, column_normalised};

use crate::error::{AccountingError, Result};

/// Most batches per epoch: G and its factor are held in memory, 128 MiB each.
pub const MAX_BATCHES: u64 = 4096;
/// Most rounds of strategies that are evaluated row by row.
pub const MAX_ROWS: u64 = 1 << 22;
/// Rows of M = (m_0 … m_{b−1}) that are multiplied at once.
const ROWS: usize = 256;

/// Computes G, b×b, for `n` rounds and `batches` = b batches per epoch; O(n·b) where C is Toeplitz, else O(n·b²).
///
/// # Errors
/// [`AccountingError::Invalid`] unless 1 ≤ b ≤ [`MAX_BATCHES`] divides n and C ≥ 0.
pub(crate) fn gram(strategy: &Strategy, n: u64, batches: u64) -> Result<Array2<f64>> {
    check(n, batches)?;
    let b = batches as usize;
    match strategy {
        Strategy::Tree(tree) => tree_gram(tree, within(n)?, b),
        Strategy::BandMf(banded) => {
            // Fewer rounds than the matrix has use its leading block; more are refused here.
            strategy.c_row(n, 0)?;
            banded_gram(|t, j| banded.entry(t, j), banded.bands(), within(n)?, b)
        }
        Strategy::BandToeplitz { c, column_normalised: true } => {
            strategy.validate()?;
            let columns = column_normalised::columns(c, within(n)?)?;
            banded_gram(|t, j| columns.entry(t, j), columns.bands(), n, b)
        }
        Strategy::Scaled(scaled) => {
            let c = scaled.column(within(n)?)?;
            let factor = scaled.factors(n as usize);
            let entry = |t: usize, j: usize| c[t - j] * factor(j);
            banded_gram(entry, c.len(), n, b)
        }
        Strategy::Dense(_) => rows_gram(within(n)? as usize, b, |t, mut bins| {
            for (j, c) in strategy.c_row(n, t as u64)?.into_iter().enumerate() {
                bins[j % b] += not_negative(c)?;
            }
            Ok(())
        }),
        _ => Ok(toeplitz_gram(&strategy.c_column(n)?, b)?),
    }
}

fn check(n: u64, batches: u64) -> Result<()> {
    if !(1..=MAX_BATCHES).contains(&batches) {
        let what = "batches per epoch";
        let allowed = "1 to 4096";
        return Err(AccountingError::Invalid { what, value: batches as f64, allowed });
    }
    if n == 0 || !n.is_multiple_of(batches) {
        let what = "iterations";
        let allowed = "whole epochs: a multiple of the batches per epoch, above zero";
        return Err(AccountingError::Invalid { what, value: n as f64, allowed });
    }
    Ok(())
}

fn within(n: u64) -> Result<u64> {
    if n > MAX_ROWS {
        let what = "iterations";
        let allowed = "up to 4194304 for a strategy that is not Toeplitz";
        return Err(AccountingError::Invalid { what, value: n as f64, allowed });
    }
    Ok(n)
}

pub(crate) fn not_negative(c: f64) -> Result<f64> {
    if c >= 0.0 {
        return Ok(c);
    }
    let allowed = "at least zero: with negative entries of C the pair need not dominate";
    Err(AccountingError::Invalid { what: "entry of C", value: c, allowed })
}

/// Returns s = m_0, the column summed over the epochs: m_i is s moved down by i.
pub(super) fn epochs_summed(c: &[f64], b: usize) -> Vec<f64> {
    let mut sums = c.to_vec();
    for u in b..sums.len() {
        sums[u] += sums[u - b];
    }
    sums
}

/// Computes G[i, i+d] = Σ_{u<n−i−d} s_u·s_{u+d} of a Toeplitz C, one pass for each diagonal.
pub(super) fn toeplitz_gram(c: &[f64], b: usize) -> Result<Array2<f64>> {
    c.iter().try_for_each(|c| not_negative(*c).map(drop))?;
    let s = epochs_summed(c, b);
    let n = c.len();
    let mut gram = Array2::zeros((b, b));
    for d in 0..b {
        // The last of the diagonal has the shortest sum; each one before it has one product more.
        let shortest = n + 1 - b;
        let products = |range: std::ops::Range<usize>| -> f64 {
            s[range.clone()].iter().zip(&s[range.start + d..range.end + d]).map(|(x, y)| x * y).sum()
        };
        let mut sum = products(0..shortest);
        for i in (0..b - d).rev() {
            gram[[i, i + d]] = sum;
            gram[[i + d, i]] = sum;
            if i > 0 {
                let last = n - i - d;
                sum += s[last] * s[last + d];
            }
        }
    }
    Ok(gram)
}

fn banded_gram(entry: impl Fn(usize, usize) -> f64, bands: usize, n: u64, b: usize) -> Result<Array2<f64>> {
    rows_gram(n as usize, b, |t, mut bins| {
        for j in (t + 1).saturating_sub(bands)..=t {
            bins[j % b] += not_negative(entry(t, j))?;
        }
        Ok(())
    })
}

/// A node's row holds ones for the rounds below it; blocks that aren't completed have no node over them.
fn tree_gram(tree: &Tree, n: u64, b: usize) -> Result<Array2<f64>> {
    let mut nodes: Vec<(u64, u64)> = Vec::new();
    let mut start = 0;
    for span in tree.spans(n)? {
        let end = start + span.rounds;
        let mut at = start;
        while at < end {
            let left = end - at;
            let block = if span.completed { left.next_power_of_two() } else { 1 << left.ilog2() };
            let sizes = (0..=block.ilog2()).map(|level| 1u64 << level);
            nodes.extend(sizes.flat_map(|size| {
                (at..end.min(at + block)).step_by(size as usize).map(move |a| (a, end.min(a + size)))
            }));
            at = end.min(at + block);
        }
        start = end;
    }
    rows_gram(nodes.len(), b, |t, mut bins| {
        let (first, end) = nodes[t];
        let whole = (end - first) / b as u64;
        bins.fill(whole as f64);
        (first + whole * b as u64..end).for_each(|round| bins[(round % b as u64) as usize] += 1.0);
        Ok(())
    })
}

/// Computes MᵀM for an M of `count` rows, each of which `fill` adds into zeros.
fn rows_gram(
    count: usize,
    b: usize,
    mut fill: impl FnMut(usize, ArrayViewMut1<'_, f64>) -> Result<()>,
) -> Result<Array2<f64>> {
    let mut gram = Array2::zeros((b, b));
    let mut rows = Array2::zeros((ROWS, b));
    for first in (0..count).step_by(ROWS) {
        let some = ROWS.min(count - first);
        rows.fill(0.0);
        for t in 0..some {
            fill(first + t, rows.row_mut(t))?;
        }
        let some = rows.slice_axis(Axis(0), Slice::from(..some));
        general_mat_mul(1.0, &some.t(), &some, 1.0, &mut gram);
    }
    Ok(gram)
}

/// Computes the lower triangular L with G = LLᵀ.
///
/// # Errors
/// [`AccountingError::Invalid`] where G isn't positive definite to f64.
pub(super) fn cholesky(gram: &Array2<f64>) -> Result<Array2<f64>> {
    let b = gram.nrows();
    let mut factor = Array2::<f64>::zeros((b, b));
    for i in 0..b {
        for j in 0..=i {
            let left = |i: usize| factor.row(i).into_iter().take(j);
            let done: f64 = left(i).zip(left(j)).map(|(x, y)| x * y).sum();
            let rest = gram[[i, j]] - done;
            if i == j {
                let least = f64::EPSILON * b as f64 * gram[[i, i]];
                if !(rest.is_finite() && rest > least) {
                    let allowed = "above rounding: no batch may move what others move together";
                    return Err(AccountingError::Invalid {
                        what: "pivot of the Gram matrix",
                        value: rest,
                        allowed,
                    });
                }
                factor[[i, i]] = rest.sqrt();
            } else {
                factor[[i, j]] = rest / factor[[j, j]];
            }
        }
    }
    Ok(factor)
}

#[cfg(test)]
mod tests {
    use strategy::scaled::Base;
    use strategy::{Banded, ColumnScales, Dense, Scaled};

    use super::*;

    /// Straight from the definition, by a dense C.
    fn plain(c: &Array2<f64>, b: usize) -> Array2<f64> {
        let mut m = Array2::<f64>::zeros((c.nrows(), b));
        for ((t, j), c) in c.indexed_iter() {
            m[[t, j % b]] += c;
        }
        m.t().dot(&m)
    }

    fn assert_near(a: &Array2<f64>, b: &Array2<f64>) {
        let most = b.iter().copied().fold(0.0, f64::max);
        a.iter().zip(b).for_each(|(a, b)| assert!((a - b).abs() < 1e-13 * most, "{a} {b}"));
    }

    #[test]
    fn every_way_to_the_matrix_agrees_with_its_definition() {
        let n = 12;
        let b = 4;
        let c = [1.0, 0.6, 0.3, 0.2, 0.1, 0.05];
        let dense = Array2::from_shape_fn((n, n), |(t, j)| if t >= j && t - j < 6 { c[t - j] } else { 0.0 });
        let truth = plain(&dense, b);
        let band = Array2::from_shape_fn((n, 6), |(_, i)| c[i]);
        let ways = [
            Strategy::BandToeplitz { c: c.to_vec(), column_normalised: false },
            Strategy::BandMf(Banded::new(band).unwrap()),
            Strategy::Dense(Dense::new(dense.clone()).unwrap()),
        ];
        for way in ways {
            assert_near(&gram(&way, n as u64, b as u64).unwrap(), &truth);
        }
        let mut by_stretch = dense.clone();
        let scales = ColumnScales::new(5, vec![1.0, 0.8, 0.5]).unwrap();
        by_stretch.columns_mut().into_iter().enumerate().for_each(|(j, mut x)| x *= scales.at(j as u64));
        let way = Strategy::Scaled(
            Scaled::new(Base::BandToeplitz { c: c.to_vec(), column_normalised: false }, scales).unwrap(),
        );
        assert_near(&gram(&way, n as u64, b as u64).unwrap(), &plain(&by_stretch, b));
        let mut scaled = dense;
        scaled.columns_mut().into_iter().for_each(|mut x| x /= x.dot(&x).sqrt());
        let normalised = Strategy::BandToeplitz { c: c.to_vec(), column_normalised: true };
        assert_near(&gram(&normalised, n as u64, b as u64).unwrap(), &plain(&scaled, b));
    }

    #[test]
    fn trees_count_the_rounds_below_each_node() {
        // Six rounds: a block of four and one of two; ten nodes.
        let spans: [(usize, usize); 10] =
            [(0, 1), (1, 2), (2, 3), (3, 4), (0, 2), (2, 4), (0, 4), (4, 5), (5, 6), (4, 6)];
        let c = Array2::from_shape_fn((10, 6), |(t, j)| f64::from((spans[t].0..spans[t].1).contains(&j)));
        let tree = Strategy::Tree(Tree::new(vec![], false).unwrap());
        assert_near(&gram(&tree, 6, 3).unwrap(), &plain(&c, 3));
        // Three rounds in a completed tree of four, then three more.
        let spans: [(usize, usize); 10] =
            [(0, 1), (1, 2), (2, 3), (0, 2), (2, 3), (0, 3), (3, 4), (4, 5), (3, 5), (5, 6)];
        let c = Array2::from_shape_fn((10, 6), |(t, j)| f64::from((spans[t].0..spans[t].1).contains(&j)));
        let tree = Strategy::Tree(Tree::new(vec![3], true).unwrap());
        assert_near(&gram(&tree, 6, 3).unwrap(), &plain(&c, 3));
    }

    #[test]
    fn the_factor_is_one() {
        let strategy = Strategy::BandSqrt { bands: 40 };
        let gram = gram(&strategy, 160, 32).unwrap();
        let factor = cholesky(&gram).unwrap();
        assert_near(&factor.dot(&factor.t()), &gram);
    }
}
