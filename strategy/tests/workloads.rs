//! Errors on every workload against dense matrices, for every mechanism.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

mod common;

use std::sync::Arc;

use ndarray::Array2;
use strategy::scaled::Base;
use strategy::workload::{LearningRates, Momentum, Rounds, StreamingOperator, materialise};
use strategy::{
    Banded, Blt, ColumnScales, Dense, Errors, Objective, Scaled, Strategy, StrategyError, Workload,
};

const N: usize = 23;

/// One of each mechanism that has a matrix.
fn strategies() -> Vec<Strategy> {
    let columns =
        Array2::from_shape_fn(
            (N, 4),
            |(j, i)| if i == 0 { 1.0 + 0.01 * j as f64 } else { 0.4 / (i + j) as f64 },
        );
    let dense =
        Array2::from_shape_fn((N, N), |(i, j)| if i < j { 0.0 } else { 1.0 / (1.0 + (i - j) as f64) });
    let scaled = |base| {
        let scales = ColumnScales::new(6, vec![1.5, 1.1, 0.7]).unwrap();
        Strategy::Scaled(Scaled::new(base, scales).unwrap())
    };
    vec![
        scaled(Base::BandToeplitz { c: vec![2.0, 0.9, 0.3], column_normalised: false }),
        scaled(Base::BandToeplitz { c: vec![2.0, 0.9, 0.3], column_normalised: true }),
        scaled(Base::Blt(Blt::new(vec![0.98, 0.6], vec![0.2, 0.3]).unwrap())),
        Strategy::Identity,
        Strategy::Blt(Blt::new(vec![0.98, 0.6], vec![0.2, 0.3]).unwrap()),
        Strategy::BandToeplitz { c: vec![2.0, 0.9, 0.3], column_normalised: false },
        Strategy::BandToeplitz { c: vec![2.0, 0.9, 0.3], column_normalised: true },
        Strategy::BandMf(Banded::new(columns).unwrap()),
        Strategy::BandSqrt { bands: 5 },
        Strategy::BandInverse { s: vec![1.0, -0.5, -0.2] },
        Strategy::BandInverseSqrt { bands: 4 },
        Strategy::LambdaCgd { lambda: 0.7 },
        Strategy::Dense(Dense::new(dense).unwrap()),
    ]
}

fn momentum(weight_decay: f64, learning_rates: LearningRates) -> Workload {
    Workload::Momentum(Momentum { momentum: 0.9, weight_decay, learning_rates })
}

/// Every workload with its matrix, written down from its definition.
fn workloads() -> Vec<(Workload, Array2<f64>)> {
    let cool = LearningRates::CoolDown { from: 10, last: 0.05, iterations: N as u64 };
    let each: Vec<f64> = (0..N).map(|t| 1.0 / (1.0 + t as f64)).collect();
    let steps = |decay: f64, rate: &dyn Fn(usize) -> f64| {
        // y_t = Σ_s (1−λ)^{t−s} η_s Σ_{j≤s} β^{s−j} g_j.
        Array2::from_shape_fn((N, N), |(t, j)| {
            (j..=t).map(|s| (1.0 - decay).powi((t - s) as i32) * rate(s) * 0.9_f64.powi((s - j) as i32)).sum()
        })
    };
    let cooled = |t: usize| if t <= 10 { 1.0 } else { 1.0 - 0.95 * (t - 10) as f64 / (N - 11) as f64 };
    let toeplitz: Vec<f64> = vec![1.0, -0.5, 0.25, 2.0];
    let by_column = Array2::from_shape_fn((N, N), |(i, j)| match i.checked_sub(j) {
        Some(lag) if lag < 4 => toeplitz[lag],
        _ => 0.0,
    });
    let any = Array2::from_shape_fn((N, N), |(i, j)| if i < j { 0.0 } else { ((i * 7 + j * 3) % 5) as f64 });
    vec![
        (Workload::Prefix, Array2::from_shape_fn((N, N), |(i, j)| if i < j { 0.0 } else { 1.0 })),
        (momentum(0.0, LearningRates::Constant), steps(0.0, &|_| 1.0)),
        (momentum(0.01, LearningRates::Constant), steps(0.01, &|_| 1.0)),
        (momentum(0.0, cool.clone()), steps(0.0, &cooled)),
        (momentum(0.02, LearningRates::Each(each.clone().into())), steps(0.02, &|t| each[t])),
        (Workload::Toeplitz(toeplitz.into()), by_column),
        (Workload::Dense(Arc::new(any.clone())), any),
        (
            Workload::Streaming(Arc::new(Half)),
            Array2::from_shape_fn((N, N), |(i, j)| if i < j { 0.0 } else { 0.5_f64.powi((i - j) as i32) }),
        ),
    ]
}

/// y_t = y_{t−1}/2 + x_t.
#[derive(Debug)]
struct Half;

impl StreamingOperator for Half {
    fn start(&self) -> Box<dyn Rounds + '_> {
        struct State(f64);
        impl Rounds for State {
            fn next(&mut self, x: f64) -> f64 {
                self.0 = self.0 / 2.0 + x;
                self.0
            }
        }
        Box::new(State(0.0))
    }
}

#[test]
fn errors_are_those_of_dense_matrices() {
    let n = N as u64;
    for strategy in strategies() {
        let inverse = common::inverse(&strategy, N);
        let inverse = Array2::from_shape_fn((N, N), |(i, j)| inverse[i][j]);
        for (workload, a) in workloads() {
            let b = a.dot(&inverse);
            let expected: Vec<f64> = b.rows().into_iter().map(|row| row.dot(&row)).collect();
            let got = strategy.row_errors_squared(n, &workload).unwrap();
            for (t, (got, expected)) in got.iter().zip(&expected).enumerate() {
                let name = (strategy.name(), workload.name());
                assert!(common::close(*got, *expected, 1e-10), "{name:?} row {t}: {got} {expected}");
            }
            let errors = strategy.errors_on(n, &workload).unwrap();
            let expected = Errors::of_rows(&expected);
            for (got, expected) in
                [(errors.rms, expected.rms), (errors.max, expected.max), (errors.last, expected.last)]
            {
                assert!(common::close(got, expected, 1e-10), "{} {}", strategy.name(), workload.name());
            }
        }
    }
}

#[test]
fn tree_rows_add_up_to_its_errors() {
    for (restarts, completion) in [(vec![], false), (vec![5, 12], false), (vec![5, 12], true)] {
        let tree = Strategy::Tree(strategy::Tree::new(restarts, completion).unwrap());
        let rows = tree.row_errors_squared(N as u64, &Workload::Prefix).unwrap();
        let got = Errors::of_rows(&rows);
        let expected = tree.errors(N as u64).unwrap();
        assert!(common::close(got.rms, expected.rms, 1e-14) && common::close(got.max, expected.max, 1e-14));
        assert!(common::close(got.last, expected.last, 1e-14));
    }
    let refused = Strategy::Tree(strategy::Tree::default())
        .errors_on(8, &Workload::Momentum(Momentum::new(0.9).unwrap()));
    assert!(matches!(refused, Err(StrategyError::NoMatrix { .. })));
}

#[test]
fn weights_give_what_they_say() {
    let squared = [1.0, 4.0, 9.0];
    assert_eq!(Objective::Last.error(&squared), 3.0);
    assert_eq!(Objective::Max.error(&squared), 3.0);
    assert!(common::close(Objective::Rms.error(&squared), (14.0_f64 / 3.0).sqrt(), 1e-15));
    assert_eq!(Objective::Weighted([2.0, 2.0, 0.0].into()).error(&squared), 2.5_f64.sqrt());
}

#[test]
fn operators_materialise() {
    let matrix = materialise(&Half, 4).unwrap();
    assert_eq!(matrix.row(3).to_vec(), [0.125, 0.25, 0.5, 1.0]);
    assert!(materialise(&Half, 0).is_err() && materialise(&Half, 5000).is_err());
}

#[test]
fn unusable_workloads_name_what_is_allowed() {
    let rates = |rates: &[f64]| momentum(0.0, LearningRates::Each(rates.into()));
    let cool = |from, last, iterations| momentum(0.0, LearningRates::CoolDown { from, last, iterations });
    let beta = |momentum| {
        Workload::Momentum(Momentum { momentum, weight_decay: 0.0, learning_rates: LearningRates::Constant })
    };
    for (workload, part) in [
        (beta(1.0), "momentum is 1; allowed: 0 ≤ momentum < 1"),
        (beta(-0.1), "momentum is -0.1"),
        (beta(f64::NAN), "momentum is NaN"),
        (momentum(1.0, LearningRates::Constant), "weight_decay is 1"),
        (rates(&[1.0, 0.0, 1.0]), "learning rate is 0 in round 1"),
        (rates(&[1.0]), "number of learning rates is 1; allowed: 3"),
        (cool(3, 0.1, 3), "start of the cool-down is 3; allowed: 0 to 2"),
        (cool(1, 0.0, 3), "last learning rate is 0"),
        (cool(1, 0.5, 4), "iterations of the cool-down is 4; allowed: 3"),
        (Workload::Toeplitz([0.0, 1.0].into()), "leading workload coefficient is 0"),
        (Workload::Toeplitz([].into()), "number of workload coefficients is 0"),
        (Workload::Dense(Arc::new(Array2::ones((3, 3)))), "workload entry is 1 at (0, 1)"),
        (Workload::Dense(Arc::new(Array2::ones((2, 2)))), "shape of the workload is (2, 2); allowed: (3, 3)"),
    ] {
        let error = Strategy::Identity.row_errors_squared(3, &workload).unwrap_err().to_string();
        assert!(error.contains(part), "{error} has no {part}");
    }
}
