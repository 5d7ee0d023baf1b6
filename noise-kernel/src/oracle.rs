//! Any row from the key alone, slowly and in the plainest code, for all else to be checked against.
//!
//! It shares nothing with the fast path but the checks of arguments.

use crate::range::check_range;
use crate::validate::{check_coefficients, check_scale, stream_count};
use crate::{BranchKey, KernelError, Rounds, RowKeys, oracle_normal};
use plan::{BandRows, Banded, Coefficients, Inverse, Tree, TreeSegment};
use std::ops::Range;
use std::sync::Arc;

/// Recomputes rows from row 0, one value at a time. Time and memory grow with the number of the last row.
pub struct Oracle {
    /// The keys, each with its first stream.
    keys: Vec<(u64, BranchKey)>,
    rounds: Rounds,
    coefficients: Arc<Coefficients>,
    iterations: u64,
    scale: f32,
}

impl Oracle {
    /// Returns an oracle of a mechanism with `iterations` rows.
    ///
    /// # Errors
    /// Fails as [`crate::Generator::new`] does.
    pub fn new(
        keys: impl Into<RowKeys>,
        rounds: Rounds,
        coefficients: Arc<Coefficients>,
        iterations: u64,
        scale: f32,
    ) -> Result<Self, KernelError> {
        check_coefficients(&coefficients, iterations)?;
        check_scale(scale)?;
        let keys = keys.into();
        let keys = keys.keys().iter().map(|(row, key)| (first_stream(&coefficients, *row), key.clone()));
        Ok(Self { keys: keys.collect(), rounds, coefficients, iterations, scale })
    }

    /// Returns rows of σζ·C⁻¹Z, each as long as `range`.
    ///
    /// # Errors
    /// [`KernelError`] for an empty range or rows past the last.
    pub fn rows(&self, rows: Range<u64>, range: Range<u64>) -> Result<Vec<Vec<f32>>, KernelError> {
        check_range(&range)?;
        self.check_end(rows.end, self.iterations)?;
        let mut correlated = match &*self.coefficients {
            Coefficients::Identity => self.streams(0..rows.end, &range),
            Coefficients::Blt { theta, omega, output_scale } => {
                scaled(blt(theta, omega, &self.streams(0..rows.end, &range)), output_scale)
            }
            Coefficients::Banded(banded) => banded_rows(banded, &self.streams(0..rows.end, &range)),
            Coefficients::Inverse(inverse) => inverse_rows(inverse, &self.streams(0..rows.end, &range)),
            Coefficients::Tree(tree) => (0..rows.end).map(|t| self.tree_row(tree, t, &range)).collect(),
        };
        for value in correlated.iter_mut().flatten() {
            *value *= self.scale;
        }
        Ok(correlated.into_iter().skip(rows.start as usize).collect())
    }

    /// Returns the i.i.d. standard normals of some streams: of rows, or for trees of nodes in order of completion.
    ///
    /// # Errors
    /// [`KernelError`] for an empty range or a stream past the last ([`stream_count`]).
    pub fn iid(&self, streams: Range<u64>, range: Range<u64>) -> Result<Vec<Vec<f32>>, KernelError> {
        check_range(&range)?;
        self.check_end(streams.end, stream_count(&self.coefficients, self.iterations))?;
        Ok(self.streams(streams, &range))
    }

    fn check_end(&self, end: u64, count: u64) -> Result<(), KernelError> {
        if end <= count {
            return Ok(());
        }
        Err(KernelError::RowBeyondIterations { row: end - 1, iterations: count })
    }

    fn streams(&self, streams: Range<u64>, range: &Range<u64>) -> Vec<Vec<f32>> {
        streams.map(|stream| self.stream(stream, range)).collect()
    }

    fn stream(&self, stream: u64, range: &Range<u64>) -> Vec<f32> {
        let key = self.keys.iter().rfind(|(first, _)| *first <= stream);
        let (_, key) = key.unwrap_or(&self.keys[0]);
        let first = range.start / 512;
        let last = (range.end - 1) / 512;
        let blocks =
            (first..=last).flat_map(|b| oracle_normal::block(key.secret_bytes(), self.rounds, stream, b));
        let length = (range.end - range.start) as usize;
        blocks.skip((range.start % 512) as usize).take(length).collect()
    }

    fn tree_row(&self, tree: &Tree, row: u64, range: &Range<u64>) -> Vec<f32> {
        let index = tree.segments.iter().rposition(|s| s.start <= row).unwrap_or(0);
        let segment = tree.segments[index];
        let first_node = tree.first_nodes()[index];
        let leaf = row - segment.start;
        let root = self.completed_root(segment, leaf);
        // The largest subtree that ends with this leaf, or the whole tree where it is completed here.
        let (level, number) = root.unwrap_or((leaf.trailing_ones(), leaf >> leaf.trailing_ones()));
        let estimate = self.estimate(first_node, level, number, range);
        // The part of it that earlier rows have served already.
        let mut before = vec![0.0f32; estimate.len()];
        for l in 0..level {
            if leaf >> l & 1 == 1 {
                let left = self.estimate(first_node, l, (leaf >> l) - 1, range);
                for (sum, value) in before.iter_mut().zip(left) {
                    *sum += value;
                }
            }
        }
        estimate.iter().zip(before).map(|(e, b)| e - b).collect()
    }

    /// (level, number) of the root if this leaf is the last of a tree that is completed.
    fn completed_root(&self, segment: TreeSegment, leaf: u64) -> Option<(u32, u64)> {
        let completed = segment.virtual_steps > 0 && leaf + 1 == segment.rows;
        completed.then(|| ((segment.rows + segment.virtual_steps).trailing_zeros(), 0))
    }

    /// Honaker's estimate of the sum over the leaves of the `number`-th subtree of 2^`level` leaves.
    fn estimate(&self, first_node: u64, level: u32, number: u64, range: &Range<u64>) -> Vec<f32> {
        // Nodes number in order of completion: a node comes right after its subtree's last leaf and the
        // smaller nodes that leaf completes.
        let last_leaf = ((number + 1) << level) - 1;
        let completed_before: u64 = (0..last_leaf).map(|leaf| 1 + u64::from(leaf.trailing_ones())).sum();
        let own = self.stream(first_node + completed_before + u64::from(level), range);
        if level == 0 {
            return own;
        }
        let left = self.estimate(first_node, level - 1, 2 * number, range);
        let right = self.estimate(first_node, level - 1, 2 * number + 1, range);
        let variance = 2f64.powi(level as i32) / (2f64.powi(level as i32 + 1) - 1.0);
        let v = variance as f32;
        let w = (1.0 - variance) as f32;
        (0..own.len()).map(|i| v.mul_add(own[i], w * (left[i] + right[i]))).collect()
    }
}

/// Streams that the rows before `row` need: the rows themselves, or of trees the nodes that they complete.
fn first_stream(coefficients: &Coefficients, row: u64) -> u64 {
    let Coefficients::Tree(tree) = coefficients else { return row };
    let completed_by = |leaf: u64| 1 + u64::from(leaf.trailing_ones());
    let mut streams = 0;
    for segment in &tree.segments {
        let rows = row.saturating_sub(segment.start).min(segment.rows);
        // The last row completes the leaves without data too.
        let leaves = if rows == segment.rows { rows + segment.virtual_steps } else { rows };
        streams += (0..leaves).map(completed_by).sum::<u64>();
    }
    streams
}

fn blt(theta: &[f32], omega: &[f32], z: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let width = z.first().map_or(0, Vec::len);
    let mut buffers = vec![vec![0.0f32; width]; theta.len()];
    let mut rows = Vec::new();
    for z in z {
        let mut row = Vec::new();
        for i in 0..width {
            // Even buffers are taken from z, odd ones summed apart.
            let mut value = z[i];
            for j in (0..omega.len()).step_by(2) {
                value = (-omega[j]).mul_add(buffers[j][i], value);
            }
            if omega.len() > 1 {
                let mut odd = -omega[1] * buffers[1][i];
                for j in (3..omega.len()).step_by(2) {
                    odd = (-omega[j]).mul_add(buffers[j][i], odd);
                }
                value += odd;
            }
            row.push(value);
            for j in 0..theta.len() {
                buffers[j][i] = theta[j].mul_add(buffers[j][i], value);
            }
        }
        rows.push(row);
    }
    rows
}

/// Σ weight(h)·sources[h][i] over `used`, in partial sums that end after every h with h % 32 = 31: their total, and
/// what came after the last end.
fn cut_sum(used: Range<usize>, i: usize, sources: &[Vec<f32>], weight: impl Fn(usize) -> f32) -> (f32, f32) {
    let mut total = 0.0f32;
    let mut partial = 0.0f32;
    for h in used {
        partial = weight(h).mul_add(sources[h][i], partial);
        if h % 32 == 31 {
            total += partial;
            partial = 0.0;
        }
    }
    (total, partial)
}

fn banded_rows(banded: &Banded, z: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let back = banded.bands - 1;
    let mut solved: Vec<Vec<f32>> = Vec::new();
    for t in 0..z.len() {
        let (lags, inverse_diagonal) = match &banded.rows {
            BandRows::Toeplitz { lags, inverse_diagonal } => (&lags[..], *inverse_diagonal),
            BandRows::PerRow { lags, inverse_diagonal } => (&lags[t * back..], inverse_diagonal[t]),
        };
        let sum = |i| cut_sum(t.saturating_sub(back)..t, i, &solved, |h| lags[t - h - 1]);
        let value = |i: usize| {
            let (total, partial) = sum(i);
            ((z[t][i] - total) - partial) * inverse_diagonal
        };
        let row = (0..z[t].len()).map(value).collect();
        solved.push(row);
    }
    scaled(solved, &banded.output_scale)
}

/// Each row times its output scale, where there are any.
fn scaled(mut rows: Vec<Vec<f32>>, output_scale: &[f32]) -> Vec<Vec<f32>> {
    for (row, scale) in rows.iter_mut().zip(output_scale) {
        row.iter_mut().for_each(|value| *value *= scale);
    }
    rows
}

fn inverse_rows(inverse: &Inverse, z: &[Vec<f32>]) -> Vec<Vec<f32>> {
    let row = |t: usize| -> Vec<f32> {
        let sum = |i| match inverse {
            Inverse::Toeplitz { coefficients } => {
                let oldest = (t + 1).saturating_sub(coefficients.len());
                cut_sum(oldest..t + 1, i, z, |h| coefficients[t - h])
            }
            Inverse::Dense { rows } => cut_sum(0..t + 1, i, z, |h| rows[t * (t + 1) / 2 + h]),
        };
        (0..z[t].len()).map(sum).map(|(total, partial)| total + partial).collect()
    };
    (0..z.len()).map(row).collect()
}
