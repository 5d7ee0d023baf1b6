//! Dense optima against a fixed point, the conditions of optimality, bands and a peer's values.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use ndarray::Array2;
use strategy::optimize::{Family, Objective, Optimized, Target, optimize};
use strategy::workload::{LearningRates, Momentum, Rounds, StreamingOperator};
use strategy::{Participation, Strategy, StrategyError, Workload};

fn run(family: Family, target: &Target) -> Optimized {
    let start = Instant::now();
    let found = optimize(family, target, &mut |_| ControlFlow::Continue(())).unwrap();
    println!(
        "{family:?} n={} {} {}: loss {:.7} in {} steps, {:.2} s",
        target.iterations,
        target.workload.name(),
        target.objective.name(),
        found.loss,
        found.iterations,
        start.elapsed().as_secs_f64()
    );
    assert!(found.sensitivity.exact, "{family:?}: the sensitivity is only a bound");
    found
}

fn single(n: u64, objective: Objective) -> Target {
    Target::new(n, Participation::single(), objective)
}

fn matrix(found: &Optimized) -> Array2<f64> {
    let Strategy::Dense(dense) = &found.strategy else { panic!("another mechanism") };
    dense.matrix().clone()
}

fn prefix(n: usize) -> Array2<f64> {
    Array2::from_shape_fn((n, n), |(i, j)| if j <= i { 1.0 } else { 0.0 })
}

fn uneven(n: usize) -> Array2<f64> {
    Array2::from_shape_fn((n, n), |(i, j)| if j > i { 0.0 } else { 1.0 + ((i * 5 + j * 3) % 7) as f64 / 4.0 })
}

/// By elimination without pivots: what is inverted here is positive definite.
fn inverse(m: &Array2<f64>) -> Array2<f64> {
    let n = m.nrows();
    let mut left = m.clone();
    let mut right = Array2::eye(n);
    for k in 0..n {
        let pivot = left[[k, k]];
        left.row_mut(k).mapv_inplace(|x| x / pivot);
        right.row_mut(k).mapv_inplace(|x| x / pivot);
        for i in (0..n).filter(|i| *i != k) {
            let factor = left[[i, k]];
            let l = left.row(k).to_owned();
            let r = right.row(k).to_owned();
            left.row_mut(i).scaled_add(-factor, &l);
            right.row_mut(i).scaled_add(-factor, &r);
        }
    }
    right
}

/// The square root of a positive definite matrix (Denman and Beavers).
fn root(m: &Array2<f64>) -> Array2<f64> {
    let mut y = m.clone();
    let mut z = Array2::eye(m.nrows());
    for _ in 0..30 {
        let next_y = (&y + &inverse(&z)) / 2.0;
        let next_z = (&z + &inverse(&y)) / 2.0;
        (y, z) = (next_y, next_z);
    }
    y
}

/// The least rms loss for one participation: with v the fixed point of v = diag((V^½ AᵀA V^½)^½), it is √(Σv/n).
fn by_fixed_point(a: &Array2<f64>) -> f64 {
    let n = a.nrows();
    let m = a.t().dot(a);
    let mut v = vec![1.0_f64; n];
    for _ in 0..200 {
        let scaled = Array2::from_shape_fn((n, n), |(i, j)| (v[i] * v[j]).sqrt() * m[[i, j]]);
        v = root(&scaled).diag().to_vec();
    }
    (v.iter().sum::<f64>() / n as f64).sqrt()
}

#[test]
fn the_fixed_point_for_one_participation() {
    for n in [2, 5, 24] {
        for a in [prefix(n), uneven(n)] {
            let workload = Workload::Dense(Arc::new(a.clone()));
            let found = run(Family::Dense, &single(n as u64, Objective::Rms).with_workload(workload));
            let expected = by_fixed_point(&a);
            assert!(
                (found.rms_loss - expected).abs() < 1e-6 * expected,
                "{n}: {} {expected}",
                found.rms_loss
            );
            assert!(found.rms_loss > expected * (1.0 - 1e-9), "better than the optimum cannot be");
        }
    }
}

/// X = CᵀC has a unit diagonal, is zero where it is tied, and where it is free ∂tr(AᵀA·X⁻¹)/∂X is zero.
fn assert_optimal(found: &Optimized, a: &Array2<f64>, tied: impl Fn(usize) -> bool) {
    let c = matrix(found);
    let x = c.t().dot(&c);
    let x_inverse = inverse(&x);
    let gradient = x_inverse.dot(&a.t().dot(a)).dot(&x_inverse);
    for ((i, j), x) in x.indexed_iter() {
        if i == j {
            assert!((x - 1.0).abs() < 1e-12, "the norm of column {i}");
        } else if tied(i.abs_diff(j)) {
            assert!(x.abs() < 1e-12, "columns {i} and {j} are one user's and overlap");
        } else {
            let size = (gradient[[i, i]] * gradient[[j, j]]).sqrt();
            assert!(gradient[[i, j]].abs() < 3e-3 * size, "({i}, {j}): {} of {size}", gradient[[i, j]]);
        }
    }
}

#[test]
fn conditions_of_optimality() {
    let n = 40;
    let gap = 8;
    let target = Target::new(n, Participation::new(gap as u64, 5).unwrap(), Objective::Rms);
    let a = prefix(n as usize);
    let single_found = run(Family::Dense, &single(n, Objective::Rms));
    assert_optimal(&single_found, &a, |_| false);
    let apart = run(Family::Dense, &target);
    assert_optimal(&apart, &a, |apart| apart >= gap);
    let fixed = run(Family::DenseFixedEpoch, &target);
    assert_optimal(&fixed, &a, |apart| apart % gap == 0);
    assert!((apart.sensitivity.value - 5_f64.sqrt()).abs() < 1e-12);
    assert!((fixed.sensitivity.value - 5_f64.sqrt()).abs() < 1e-12);
    assert!(fixed.loss < 0.999 * apart.loss, "fewer rounds are tied: {} {}", fixed.loss, apart.loss);
    assert!((fixed.loss - fixed.rms_error * fixed.sensitivity.value).abs() < 1e-12);
}

#[test]
fn no_worse_than_bands() {
    for (bands, rule) in [(8, Participation::new(8, 5).unwrap()), (40, Participation::single())] {
        let target = Target::new(40, rule, Objective::Rms);
        let dense = run(Family::Dense, &target).loss;
        let banded = run(Family::BandMf { bands }, &target).loss;
        // The same set of strategies: rounds at least 8 apart are tied, so 8 bands remain.
        assert!((dense - banded).abs() < 1e-6 * dense, "{dense} against {banded}");
    }
    let target = single(64, Objective::Rms);
    assert!(run(Family::Dense, &target).loss < run(Family::BandMf { bands: 16 }, &target).loss);
}

#[test]
fn no_worse_than_a_peer() {
    // jax_privacy 1.1's dense.optimize, evaluated in f64.
    for (n, peer) in [(64, 2.0998687), (128, 2.3113331)] {
        let found = run(Family::Dense, &single(n, Objective::Rms));
        assert!(found.converged && found.rms_loss <= peer, "{n}: {} against {peer}", found.rms_loss);
    }
}

#[derive(Debug)]
struct Average;

impl StreamingOperator for Average {
    fn start(&self) -> Box<dyn Rounds + '_> {
        Box::new(Averaged { sum: 0.0, average: 0.0 })
    }
}

struct Averaged {
    sum: f64,
    average: f64,
}

impl Rounds for Averaged {
    fn next(&mut self, x: f64) -> f64 {
        self.sum += x;
        self.average = 0.8 * self.average + 0.2 * self.sum;
        self.average
    }
}

#[test]
fn every_workload_and_loss() {
    let n = 30;
    let learning_rates = LearningRates::CoolDown { from: 10, last: 0.1, iterations: n };
    let weights: Arc<[f64]> = (0..n).map(|t| if t % 10 == 9 { 1.0 } else { 0.0 }).collect();
    for workload in [
        Workload::Prefix,
        Workload::Momentum(Momentum { momentum: 0.9, weight_decay: 0.01, learning_rates }),
        Workload::Toeplitz(Arc::from([1.0, 0.7, 0.4, 0.1].as_slice())),
        Workload::Dense(Arc::new(uneven(n as usize))),
        Workload::Streaming(Arc::new(Average)),
    ] {
        for objective in
            [Objective::Rms, Objective::Max, Objective::Last, Objective::Weighted(weights.clone())]
        {
            let rule = Participation::new(10, 3).unwrap();
            let target = Target::new(n, rule, objective).with_workload(workload.clone());
            let found = run(Family::Dense, &target);
            assert!(found.loss < target.loss(&Strategy::Identity).unwrap());
            // The minimised loss is that of whole matrices.
            let again = target.loss(&found.strategy).unwrap();
            assert!((found.loss - again).abs() < 1e-10 * again);
        }
    }
}

#[test]
fn the_worst_row_gets_better_than_at_the_rms_optimum() {
    let rms = run(Family::Dense, &single(64, Objective::Rms));
    let max = run(Family::Dense, &single(64, Objective::Max));
    assert!(max.max_loss < 0.93 * rms.max_loss && max.rms_loss > rms.rms_loss);
    // Its rows are all but equal, and the mean at the rms optimum is a lower bound.
    assert!(max.max_loss < max.rms_loss * 1.001 && max.max_loss > rms.rms_loss);
}

#[test]
fn too_many_rounds_say_so() {
    let target = single(1025, Objective::Rms);
    let found = optimize(Family::Dense, &target, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(found, Err(StrategyError::NotOptimizable { .. })));
}
