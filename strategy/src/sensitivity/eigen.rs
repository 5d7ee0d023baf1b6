//! Eigenvalues of small symmetric matrices, by Jacobi's rotations.

use ndarray::Array2;

/// (smallest, largest) eigenvalue of a symmetric matrix, each moved outwards by more than rounding can hide.
pub(crate) fn extreme_eigenvalues(mut a: Array2<f64>) -> (f64, f64) {
    let n = a.nrows();
    let scale = a.iter().map(|x| x * x).sum::<f64>().sqrt();
    for _ in 0..60 {
        if off_diagonal(&a) <= 1e-15 * scale {
            break;
        }
        for p in 0..n {
            for q in p + 1..n {
                rotate(&mut a, p, q);
            }
        }
    }
    // An eigenvalue is no farther from a diagonal entry than the norm of the entries left off the diagonal.
    let slack = off_diagonal(&a) + 1e-15 * n as f64 * scale;
    let (low, high) =
        a.diag().iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(*x), h.max(*x)));
    (low - slack, high + slack)
}

fn off_diagonal(a: &Array2<f64>) -> f64 {
    a.indexed_iter().filter(|((i, j), _)| i != j).map(|(_, x)| x * x).sum::<f64>().sqrt()
}

/// Makes a[p, q] zero.
fn rotate(a: &mut Array2<f64>, p: usize, q: usize) {
    if a[[p, q]] == 0.0 {
        return;
    }
    let theta = (a[[q, q]] - a[[p, p]]) / (2.0 * a[[p, q]]);
    let t = theta.signum() / (theta.abs() + theta.hypot(1.0));
    let cosine = 1.0 / t.hypot(1.0);
    let sine = t * cosine;
    for i in 0..a.nrows() {
        let x = a[[i, p]];
        let y = a[[i, q]];
        a[[i, p]] = cosine * x - sine * y;
        a[[i, q]] = sine * x + cosine * y;
    }
    for i in 0..a.nrows() {
        let x = a[[p, i]];
        let y = a[[q, i]];
        a[[p, i]] = cosine * x - sine * y;
        a[[q, i]] = sine * x + cosine * y;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_of_three_has_known_eigenvalues() {
        let a = Array2::from_shape_fn((3, 3), |(i, j): (usize, usize)| match i.abs_diff(j) {
            0 => 2.0,
            1 => -1.0,
            _ => 0.0,
        });
        let (low, high) = extreme_eigenvalues(a);
        assert!((low - (2.0 - 2_f64.sqrt())).abs() < 1e-13 && (high - (2.0 + 2_f64.sqrt())).abs() < 1e-13);
    }
}
