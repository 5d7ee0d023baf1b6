//! Squared errors of the rows of A·C⁻¹ by X = CᵀC, with their gradient; O(n³) in matrix products.
//!
//! X = CᵀC with C lower triangular is factored from the last round to the first (Cholesky's X = LLᵀ goes the other
//! way, and L is not Cᵀ). With K = C⁻¹ and B = A·K, e_t² = ‖B[t, ·]‖² and ∂(Σ w_t·e_t²)/∂X = −PPᵀ for
//! P = K·BᵀW^½. Products skip the zeros of triangles by halves.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis};

/// Below this size loops are no slower than products of halves.
const SMALL: usize = 32;

/// The errors of one workload over n rounds; its memory, six matrices, is used again.
pub(crate) struct DenseLoss {
    /// A; none for prefix sums, where running sums do.
    workload: Option<Array2<f64>>,
    /// The lower half is read by the factorisation, which uses it up.
    rest: Array2<f64>,
    c: Array2<f64>,
    inverse: Array2<f64>,
    decoder: Array2<f64>,
    errors: Vec<f64>,
}

impl DenseLoss {
    /// The errors of `n` rounds of the lower triangular `workload`, shape (n, n), or of prefix sums.
    pub fn new(n: usize, workload: Option<Array2<f64>>) -> Self {
        let zeros = || Array2::zeros((n, n));
        Self { workload, rest: zeros(), c: zeros(), inverse: zeros(), decoder: zeros(), errors: vec![0.0; n] }
    }

    /// e_t² of every row for X, of which the lower half is read; `None` where X is not positive definite.
    pub fn errors(&mut self, x: ArrayView2<'_, f64>) -> Option<&[f64]> {
        self.rest.assign(&x);
        if !factor(self.rest.view_mut(), self.c.view_mut(), self.inverse.view_mut()) {
            return None;
        }
        match &self.workload {
            None => running_sums(&self.inverse, &mut self.decoder),
            Some(a) => general_mat_mul(1.0, a, &self.inverse, 0.0, &mut self.decoder),
        }
        let rows = self.errors.iter_mut().zip(self.decoder.outer_iter());
        rows.for_each(|(error, row)| *error = row.dot(&row));
        Some(&self.errors)
    }

    /// C of the last call of [`Self::errors`].
    pub fn root(&self) -> &Array2<f64> {
        &self.c
    }

    /// The lower half of the gradient of Σ w_t·e_t² by X as a symmetric matrix: an entry off the diagonal stands
    /// for one of two. Zero weights are fine, negative ones are not.
    pub fn gradient(&mut self, weights: &[f64], gradient: &mut Array2<f64>) {
        let mut scaled = self.decoder.clone();
        scaled.outer_iter_mut().zip(weights).for_each(|(mut row, w)| row *= w.sqrt());
        let mut product = std::mem::take(&mut self.rest);
        lower_times_upper(self.inverse.view(), scaled.t(), product.view_mut());
        minus_square(product.view(), gradient.view_mut());
        self.rest = product;
    }
}

/// C and C⁻¹ of X = CᵀC from the lower half of X, which is used up; false where X is not positive definite.
fn factor(
    x: ArrayViewMut2<'_, f64>,
    mut c: ArrayViewMut2<'_, f64>,
    mut inverse: ArrayViewMut2<'_, f64>,
) -> bool {
    let n = x.nrows();
    if n <= SMALL {
        return factor_small(x.view(), &mut c) && invert_small(c.view(), &mut inverse);
    }
    let h = n / 2;
    let [c1, _, mut c21, c2] = quarters_mut(c, h);
    let [mut k1, _, mut k21, mut k2] = quarters_mut(inverse, h);
    let [mut x1, _, x21, x2] = quarters_mut(x, h);
    if !factor(x2, c2, k2.view_mut()) {
        return false;
    }
    general_mat_mul(1.0, &k2.t(), &x21, 0.0, &mut c21);
    minus_half_square(c21.t(), x1.view_mut());
    if !factor(x1, c1, k1.view_mut()) {
        return false;
    }
    let between = c21.dot(&k1);
    general_mat_mul(-1.0, &k2, &between, 0.0, &mut k21);
    true
}

/// The upper left and right and the lower left and right of a square matrix cut at `h`.
fn quarters(m: ArrayView2<'_, f64>, h: usize) -> [ArrayView2<'_, f64>; 4] {
    let (top, bottom) = m.split_at(Axis(0), h);
    let (m1, m12) = top.split_at(Axis(1), h);
    let (m21, m2) = bottom.split_at(Axis(1), h);
    [m1, m12, m21, m2]
}

fn quarters_mut(m: ArrayViewMut2<'_, f64>, h: usize) -> [ArrayViewMut2<'_, f64>; 4] {
    let (top, bottom) = m.split_at(Axis(0), h);
    let (m1, m12) = top.split_at(Axis(1), h);
    let (m21, m2) = bottom.split_at(Axis(1), h);
    [m1, m12, m21, m2]
}

fn factor_small(x: ArrayView2<'_, f64>, c: &mut ArrayViewMut2<'_, f64>) -> bool {
    let n = x.nrows();
    for i in (0..n).rev() {
        for j in (0..=i).rev() {
            let later: f64 = (i + 1..n).map(|r| c[[r, i]] * c[[r, j]]).sum();
            let rest = x[[i, j]] - later;
            if j < i {
                c[[i, j]] = rest / c[[i, i]];
            } else if rest > 0.0 && rest.is_finite() {
                c[[i, i]] = rest.sqrt();
            } else {
                return false;
            }
        }
    }
    true
}

fn invert_small(c: ArrayView2<'_, f64>, inverse: &mut ArrayViewMut2<'_, f64>) -> bool {
    for j in 0..c.nrows() {
        for i in j..c.nrows() {
            let unit = if i == j { 1.0 } else { 0.0 };
            let before: f64 = (j..i).map(|m| c[[i, m]] * inverse[[m, j]]).sum();
            inverse[[i, j]] = (unit - before) / c[[i, i]];
        }
    }
    true
}

/// out[t, ·] = Σ_{i≤t} m[i, ·].
fn running_sums(m: &Array2<f64>, out: &mut Array2<f64>) {
    out.assign(m);
    for t in 1..m.nrows() {
        let (before, mut from) = out.view_mut().split_at(Axis(0), t);
        let mut row = from.row_mut(0);
        row += &before.row(t - 1);
    }
}

/// out = lower·upper for triangular matrices.
fn lower_times_upper(
    lower: ArrayView2<'_, f64>,
    upper: ArrayView2<'_, f64>,
    mut out: ArrayViewMut2<'_, f64>,
) {
    let n = lower.nrows();
    if n <= 2 * SMALL {
        return general_mat_mul(1.0, &lower, &upper, 0.0, &mut out);
    }
    let h = n / 2;
    let [l1, _, l21, l2] = quarters(lower, h);
    let [u1, u12, _, u2] = quarters(upper, h);
    let [o1, mut o12, mut o21, mut o2] = quarters_mut(out, h);
    lower_times_upper(l1, u1, o1);
    general_mat_mul(1.0, &l1, &u12, 0.0, &mut o12);
    general_mat_mul(1.0, &l21, &u1, 0.0, &mut o21);
    lower_times_upper(l2, u2, o2.view_mut());
    general_mat_mul(1.0, &l21, &u12, 1.0, &mut o2);
}

/// out = −m·mᵀ in the lower half.
fn minus_square(m: ArrayView2<'_, f64>, mut out: ArrayViewMut2<'_, f64>) {
    out.fill(0.0);
    minus_half_square(m, out);
}

/// out −= m·mᵀ in the lower half.
fn minus_half_square(m: ArrayView2<'_, f64>, mut out: ArrayViewMut2<'_, f64>) {
    let n = m.nrows();
    if n <= 2 * SMALL {
        return general_mat_mul(-1.0, &m, &m.t(), 1.0, &mut out);
    }
    let (above, below) = m.split_at(Axis(0), n / 2);
    let [first, _, mut left, last] = quarters_mut(out, n / 2);
    minus_half_square(above, first);
    general_mat_mul(-1.0, &below, &above.t(), 1.0, &mut left);
    minus_half_square(below, last);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A positive definite matrix with a unit diagonal.
    fn gram(n: usize) -> Array2<f64> {
        Array2::from_shape_fn((n, n), |(i, j)| {
            let wave = if i == j { 0.0 } else { 0.02 * (((i * j) % 7) as f64 - 3.0) / n as f64 };
            0.9_f64.powi(i.abs_diff(j) as i32) + wave
        })
    }

    fn workload(n: usize) -> Array2<f64> {
        Array2::from_shape_fn(
            (n, n),
            |(i, j)| if j > i { 0.0 } else { 1.0 + ((i * 5 + j * 3) % 11) as f64 / 7.0 },
        )
    }

    #[test]
    fn the_root_is_lower_triangular_and_the_errors_are_those_of_its_inverse() {
        for n in [1, 2, 31, 32, 33, 65, 130, 257] {
            let x = gram(n);
            for a in [None, Some(workload(n))] {
                let mut loss = DenseLoss::new(n, a.clone());
                let errors = loss.errors(x.view()).unwrap().to_vec();
                let c = loss.root();
                assert!(c.indexed_iter().all(|((i, j), c)| j <= i || *c == 0.0), "{n}");
                let off = (c.t().dot(c) - &x).iter().fold(0.0_f64, |m, d| m.max(d.abs()));
                assert!(off < 1e-12, "{n}: CᵀC is off by {off}");
                let inverse = crate::dense::Dense::new(c.clone()).unwrap().inverse();
                let a =
                    a.unwrap_or_else(|| Array2::from_shape_fn((n, n), |(i, j)| f64::from(u8::from(j <= i))));
                for (error, row) in errors.iter().zip(a.dot(&inverse).outer_iter()) {
                    assert!((error - row.dot(&row)).abs() < 1e-10 * error, "{n}");
                }
            }
        }
    }

    #[test]
    fn gradients_are_central_differences() {
        for n in [3, 40, 70] {
            for a in [None, Some(workload(n))] {
                let mut loss = DenseLoss::new(n, a);
                let weights: Vec<f64> = (0..n).map(|t| (t % 4) as f64).collect();
                let mut x = gram(n);
                let mut gradient = Array2::zeros((n, n));
                loss.errors(x.view()).unwrap();
                loss.gradient(&weights, &mut gradient);
                for (i, j) in [(2, 0), (n - 1, 1), (n / 2 + 1, n / 2), (n - 1, n - 2), (n - 1, n - 1)] {
                    let mut at = |by: f64| {
                        x[[i, j]] += by;
                        let squared = loss.errors(x.view()).unwrap();
                        let value: f64 = squared.iter().zip(&weights).map(|(e, w)| e * w).sum();
                        x[[i, j]] -= by;
                        value
                    };
                    let step = 1e-4;
                    let twice = at(2.0 * step) - at(-2.0 * step);
                    let expected = (8.0 * (at(step) - at(-step)) - twice) / (12.0 * step);
                    let got = if i == j { 1.0 } else { 2.0 } * gradient[[i, j]];
                    assert!(
                        (got - expected).abs() < 1e-6 * expected.abs() + 1e-6,
                        "{n} ({i}, {j}): {got} {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_is_not_positive_definite_has_no_errors() {
        for n in [2, 100] {
            assert!(DenseLoss::new(n, None).errors(Array2::ones((n, n)).view()).is_none());
            assert!(DenseLoss::new(n, None).errors(Array2::from_elem((n, n), f64::NAN).view()).is_none());
        }
    }
}
