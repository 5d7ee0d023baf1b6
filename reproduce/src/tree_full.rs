//! Tree aggregation read by the decoder of least error, B = A·C⁺, which sees nodes of later rounds too and which no
//! server with a small state can run: dense, for comparison only.

use strategy::Errors;

/// RmsError, MaxError and the last row's over `n` rounds, in units of σζ; O(n³) time, 16·n² bytes.
///
/// C has a row for each complete binary block inside [0, n). With G = CᵀC = L·Lᵀ row t of B has the squared norm
/// aᵀG⁻¹a = ‖L⁻¹a‖², a the indicator of rounds 0…t.
pub fn errors(n: usize) -> Errors {
    let inverse = inverse_of_factor(&cholesky(&gram(n)));
    let mut decoded = vec![0.0; n];
    let mut total = 0.0;
    let mut max = 0.0f64;
    let mut last = 0.0f64;
    for t in 0..n {
        decoded.iter_mut().zip(&inverse).skip(t).for_each(|(sum, row)| *sum += row[t]);
        last = decoded.iter().map(|x| x * x).sum();
        total += last;
        max = max.max(last);
    }
    Errors { rms: (total / n as f64).sqrt(), max: max.sqrt(), last: last.sqrt() }
}

/// Nodes that rounds i ≥ j share, one row per i.
fn gram(n: usize) -> Vec<Vec<f64>> {
    let shared = |i: usize, j: usize| {
        (0..usize::BITS).filter(|level| i >> level == j >> level && ((i >> level) + 1) << level <= n).count()
    };
    (0..n).map(|i| (0..=i).map(|j| shared(i, j) as f64).collect()).collect()
}

fn cholesky(matrix: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut factor: Vec<Vec<f64>> = Vec::with_capacity(matrix.len());
    for (i, entries) in matrix.iter().enumerate() {
        let mut row = Vec::with_capacity(i + 1);
        for (j, entry) in entries[..i].iter().enumerate() {
            let rest = entry - dot(&row, &factor[j]);
            row.push(rest / factor[j][j]);
        }
        row.push((entries[i] - dot(&row, &row)).sqrt());
        factor.push(row);
    }
    factor
}

/// Row by row: L[i,i]·M[i,:] = e_i − Σ_{k<i} L[i,k]·M[k,:].
fn inverse_of_factor(factor: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut inverse: Vec<Vec<f64>> = Vec::with_capacity(factor.len());
    for (i, entries) in factor.iter().enumerate() {
        let mut row = vec![0.0; i + 1];
        row[i] = 1.0;
        for (above, entry) in inverse.iter().zip(entries).filter(|(_, entry)| **entry != 0.0) {
            row.iter_mut().zip(above).for_each(|(x, y)| *x -= entry * y);
        }
        row.iter_mut().for_each(|x| *x /= entries[i]);
        inverse.push(row);
    }
    inverse
}

/// Over the shorter of the two. Four sums, so that the processor need not wait for each.
fn dot(x: &[f64], y: &[f64]) -> f64 {
    let length = x.len().min(y.len());
    let mut pieces_x = x[..length].chunks_exact(4);
    let mut pieces_y = y[..length].chunks_exact(4);
    let mut sums = [0.0; 4];
    for (x, y) in pieces_x.by_ref().zip(pieces_y.by_ref()) {
        sums.iter_mut().zip(x.iter().zip(y)).for_each(|(sum, (x, y))| *sum += x * y);
    }
    let rest: f64 = pieces_x.remainder().iter().zip(pieces_y.remainder()).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use strategy::Tree;

    use super::*;

    #[test]
    fn two_rounds_by_hand() {
        // Nodes z₀, z₁ and their sum: round 0 alone is read with variance ⅔, both with ⅔.
        let errors = errors(2);
        assert!((errors.last - (2.0f64 / 3.0).sqrt()).abs() < 1e-12, "{errors:?}");
        assert!((errors.rms - (2.0f64 / 3.0).sqrt()).abs() < 1e-12 && errors.max >= errors.last);
    }

    #[test]
    fn never_worse_than_the_streaming_estimate_and_equal_where_the_tree_is_full() {
        for n in [3, 8, 13, 64] {
            let full = errors(n);
            let streaming = Tree::default().errors(n as u64).unwrap();
            assert!(full.rms <= streaming.rms + 1e-12 && full.max <= streaming.max + 1e-12, "{n}");
        }
        assert!((errors(8).last - Tree::default().errors(8).unwrap().last).abs() < 1e-12);
    }
}
