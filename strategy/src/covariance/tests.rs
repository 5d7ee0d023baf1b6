//! The recursion and its reverse pass against dense matrices and central differences.

use ndarray::Array2;

use super::{Covariance, row_errors};
use crate::banded::Banded;
use crate::workload::{InverseBands, LearningRates, Momentum, Workload};

/// Numbers in [−1, 1) that are the same in every run.
pub(crate) fn numbers(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }
}

fn columns(n: usize, p: usize, seed: u64) -> Array2<f64> {
    let mut next = numbers(seed);
    Array2::from_shape_fn((n, p), |(_, i)| if i == 0 { 1.2 + 0.5 * next() } else { next() / p as f64 })
}

fn workloads(n: usize) -> Vec<Workload> {
    let momentum = |rates| Momentum { momentum: 0.8, weight_decay: 0.05, learning_rates: rates };
    let cool_down = LearningRates::CoolDown { from: n as u64 / 2, last: 0.1, iterations: n as u64 };
    let mut next = numbers(n as u64);
    let each = LearningRates::Each((0..n).map(|_| 1.5 + next()).collect());
    vec![
        Workload::Prefix,
        Workload::Momentum(momentum(LearningRates::Constant)),
        Workload::Momentum(momentum(cool_down)),
        Workload::Momentum(momentum(each)),
    ]
}

/// ‖row t of A·C⁻¹‖² by forward substitution on whole matrices.
fn dense_errors(c: &Banded, workload: &Workload) -> Vec<f64> {
    let n = c.iterations();
    let mut squared = vec![0.0; n];
    for j in 0..n {
        let mut x = vec![0.0; n];
        let mut rounds = workload.rounds();
        for t in 0..n {
            let unit = if t == j { 1.0 } else { 0.0 };
            let before: f64 = (0..t).map(|m| c.entry(t, m) * x[m]).sum();
            x[t] = (unit - before) / c.entry(t, t);
            squared[t] += rounds.next(x[t]).powi(2);
        }
    }
    squared
}

fn bands_of(workload: &Workload) -> InverseBands {
    workload.inverse_bands().unwrap()
}

#[test]
fn errors_are_those_of_whole_matrices() {
    for (seed, (n, p)) in
        [(1, 1), (3, 3), (7, 2), (20, 5), (33, 16), (64, 9), (40, 40)].into_iter().enumerate()
    {
        for workload in workloads(n) {
            let c = Banded::new(columns(n, p, seed as u64 + 1)).unwrap();
            let expected = dense_errors(&c, &workload);
            let got = row_errors(c.columns().view(), &bands_of(&workload), n);
            let mut covariance = Covariance::new(&bands_of(&workload), n, p);
            let kept = covariance.errors(c.columns().as_slice().unwrap()).to_vec();
            assert_eq!(got, kept);
            for (t, (got, expected)) in got.iter().zip(&expected).enumerate() {
                let off = (got - expected).abs() / expected;
                assert!(off < 1e-10, "{workload:?} n={n} p={p} row {t}: {got} against {expected}");
            }
        }
    }
}

#[test]
fn gradients_are_central_differences() {
    for (seed, (n, p)) in [(1, 1), (2, 2), (7, 3), (12, 4), (25, 8), (30, 17)].into_iter().enumerate() {
        for workload in workloads(n) {
            let d = bands_of(&workload);
            let mut next = numbers(seed as u64 + 77);
            let weights: Vec<f64> = (0..n).map(|_| 1.0 + next()).collect();
            let c = columns(n, p, seed as u64 + 5).into_raw_vec_and_offset().0;
            let mut covariance = Covariance::new(&d, n, p);
            let mut value =
                |c: &[f64]| -> f64 { covariance.errors(c).iter().zip(&weights).map(|(e, w)| e * w).sum() };
            let step = 1e-4;
            // Fourth order: the rest is rounding.
            let difference = |k: usize, value: &mut dyn FnMut(&[f64]) -> f64| {
                let mut at = |by: f64| {
                    let mut moved = c.clone();
                    moved[k] += by;
                    value(&moved)
                };
                (8.0 * (at(step) - at(-step)) - (at(2.0 * step) - at(-2.0 * step))) / (12.0 * step)
            };
            let expected: Vec<f64> = (0..n * p).map(|k| difference(k, &mut value)).collect();
            covariance.errors(&c);
            let mut got = vec![0.0; n * p];
            covariance.gradient(&c, &weights, &mut got);
            let size = expected.iter().map(|g| g * g).sum::<f64>().sqrt();
            for k in 0..n * p {
                let off = (got[k] - expected[k]).abs();
                assert!(
                    off < 1e-6 * expected[k].abs() + 1e-9 * size,
                    "{workload:?} n={n} p={p} column {} band {}: {} against {}",
                    k / p,
                    k % p,
                    got[k],
                    expected[k]
                );
            }
        }
    }
}

#[test]
fn the_gradient_along_the_matrix_is_minus_twice_the_error() {
    let n = 5000;
    let p = 32;
    let c = columns(n, p, 9).into_raw_vec_and_offset().0;
    for workload in workloads(n) {
        let mut covariance = Covariance::new(&bands_of(&workload), n, p);
        let total: f64 = covariance.errors(&c).iter().sum();
        let mut gradient = vec![0.0; n * p];
        covariance.gradient(&c, &vec![1.0; n], &mut gradient);
        let along: f64 = gradient.iter().zip(&c).map(|(g, c)| g * c).sum();
        assert!((along + 2.0 * total).abs() < 1e-9 * total, "{along} against {total}");
    }
}
