//! Rows of the decoder B = A·diag(1/s)·T⁻¹ on prefix sums.
//!
//! With b the running sums of T⁻¹'s column, r = 1/s, and stretch e beginning in round S_e, summation by parts yields
//!
//! ```text
//! B[t, j] = r_e·b_{t−j} − Σ_{1≤f≤e} δ_f·b_{m_f−j}      t in stretch e, δ_f = r_f − r_{f−1}, m_f = S_f − 1, b_{<0} = 0
//! ‖B[t, :]‖² = r_e²·G(t, t) − 2·r_e·Σ_f δ_f·G(m_f, t) + Σ_{f,g≤e} δ_f·δ_g·G(m_f, m_g)
//! G(m, m+d) = Σ_{i≤m} b_i·b_{i+d}
//! ```
//!
//! For each stretch G(m_f, ·) is one correlation, by Fourier transforms.

use realfft::RealFftPlanner;

use super::ColumnScales;
use crate::numeric::dot;
use crate::series::prefix_sums;

/// Returns ‖B[t, :]‖² for every row, where `inverse` is T⁻¹'s column and `factor(t)` what column t is multiplied by. Up to
/// round `whole` that changes with the stretches alone; later rows, the ends of normalised columns, are added one at a time.
pub(super) fn squared(
    inverse: &[f64],
    whole: usize,
    scales: &ColumnScales,
    factor: impl Fn(usize) -> f64,
) -> Vec<f64> {
    let starts = scales.starts(whole);
    let r: Vec<f64> = starts.iter().map(|start| 1.0 / factor(*start)).collect();
    let b = prefix_sums(inverse);
    let mut squared = of_stretches(&b[..whole], &starts, &r);
    // Row whole−1 of B, then one row of C⁻¹ more each time; entry j of a Toeplitz row t is element t−j.
    let mut row = if whole < inverse.len() { last_row(&b[..whole], &starts, &r) } else { Vec::new() };
    for t in whole..inverse.len() {
        row.push(0.0);
        let r = 1.0 / factor(t);
        row.iter_mut().zip(inverse[..=t].iter().rev()).for_each(|(b, x)| *b += r * x);
        squared.push(dot(&row, &row));
    }
    squared
}

/// B[n−1, :], entry j from r_e·b_{t−j} less the differences of the stretches begun.
fn last_row(b: &[f64], starts: &[usize], r: &[f64]) -> Vec<f64> {
    let mut row: Vec<f64> = b.iter().rev().map(|b| b * r[r.len() - 1]).collect();
    for (start, two) in starts[1..].iter().zip(r.windows(2)) {
        row[..*start]
            .iter_mut()
            .zip(b[..*start].iter().rev())
            .for_each(|(row, b)| *row -= (two[1] - two[0]) * b);
    }
    row
}

/// ‖B[t, :]‖² where r is constant within each stretch.
fn of_stretches(b: &[f64], starts: &[usize], r: &[f64]) -> Vec<f64> {
    let n = b.len();
    let inverse = |e: usize| r[e];
    let differences: Vec<f64> = (1..starts.len()).map(|f| inverse(f) - inverse(f - 1)).collect();
    let correlations = correlations(b, &starts[1..]);
    let mut squared = Vec::with_capacity(n);
    let mut own = 0.0;
    // Σ_{f,g} δ_f·δ_g·G(m_f, m_g) over the stretches begun.
    let mut carried = 0.0;
    for (e, start) in starts.iter().enumerate() {
        let begun = &correlations[..e];
        if e > 0 {
            let delta = differences[e - 1];
            let last = start - 1;
            let with_earlier: f64 =
                (0..e - 1).map(|f| differences[f] * correlations[f][last + 1 - starts[f + 1]]).sum();
            carried += delta * (delta * correlations[e - 1][0] + 2.0 * with_earlier);
        }
        let end = starts.get(e + 1).copied().unwrap_or(n);
        let r = inverse(e);
        for t in *start..end {
            own += b[t] * b[t];
            let crossed: f64 =
                begun.iter().enumerate().map(|(f, g)| differences[f] * g[t + 1 - starts[f + 1]]).sum();
            squared.push((r * r * own - 2.0 * r * crossed + carried).max(0.0));
        }
    }
    squared
}

/// For each start S, Σ_{i<S} b_i·b_{i+d} for d < n − S + 1.
fn correlations(b: &[f64], starts: &[usize]) -> Vec<Vec<f64>> {
    let Some(longest) = starts.last() else { return Vec::new() };
    let length = (b.len() + longest).next_power_of_two();
    let mut planner = RealFftPlanner::<f64>::new();
    let forward = planner.plan_fft_forward(length);
    let backward = planner.plan_fft_inverse(length);
    let transformed = |values: &[f64]| {
        let mut padded = forward.make_input_vec();
        padded[..values.len()].copy_from_slice(values);
        let mut spectrum = forward.make_output_vec();
        // Both lengths are the plan's own.
        let _ = forward.process(&mut padded, &mut spectrum);
        spectrum
    };
    let whole = transformed(b);
    let one = |start: &usize| {
        let mut product = transformed(&b[..*start]);
        product.iter_mut().zip(&whole).for_each(|(x, y)| *x = x.conj() * y);
        let mut result = backward.make_output_vec();
        // The ends of a real spectrum are real but for rounding.
        let last = product.len() - 1;
        product[0].im = 0.0;
        product[last].im = 0.0;
        let _ = backward.process(&mut product, &mut result);
        result.truncate(b.len() - start + 1);
        result.iter_mut().for_each(|x| *x /= length as f64);
        result
    };
    starts.iter().map(one).collect()
}
