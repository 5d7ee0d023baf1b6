//! Gradients against central differences, for every form of the loss.

use std::sync::Arc;

use super::chain;
use super::problem::Problem;
use crate::optimize::{Objective, Target};
use crate::participation::Participation;
use crate::workload::{LearningRates, Momentum, Workload};

/// Five-point differences against the gradient, at points like those a search passes.
fn check(target: &Target, power: Option<f64>) {
    let mut problem = Problem::new(target).unwrap();
    if let Some(power) = power {
        problem.sharpen(power);
    }
    let points: [&[f64]; 5] = [
        &[0.003, 0.2],
        &[1e-5, 0.01, 0.05, 0.3],
        &[2e-4, 0.004, 0.02, 0.1, 0.101, 0.6],
        // φ̂ of one buffer on the velocity's pole 1−β = 0.1, and one beside it.
        &[1e-3, 0.02, 0.05, 0.1, 0.3, 0.7],
        &[1e-3, 0.02, 0.05, 0.1004, 0.3, 0.7],
    ];
    for ordered in points {
        let x = chain::free(ordered);
        let mut gradient = vec![0.0; x.len()];
        let value = problem.ln_loss(&x, &mut gradient);
        assert!(value.is_finite(), "{target:?} at {ordered:?}");
        let size = gradient.iter().fold(1e-3, |a: f64, g| a.max(g.abs()));
        let mut ignored = vec![0.0; x.len()];
        for i in 0..x.len() {
            let mut at = |step: f64| {
                let mut moved = x.clone();
                moved[i] += step;
                problem.ln_loss(&moved, &mut ignored)
            };
            let h = 1e-3;
            let difference = (8.0 * (at(h) - at(-h)) - at(2.0 * h) + at(-2.0 * h)) / (12.0 * h);
            let error = (difference - gradient[i]).abs() / size;
            assert!(error < 1e-6, "{i} of {ordered:?}: {} against {difference}, {target:?}", gradient[i]);
        }
    }
}

fn target(n: u64, gap: u64, most: u64, objective: Objective) -> Target {
    Target::new(n, Participation::new(gap, most).unwrap(), objective)
}

fn momentum(weight_decay: f64, learning_rates: LearningRates) -> Workload {
    Workload::Momentum(Momentum { momentum: 0.9, weight_decay, learning_rates })
}

#[test]
fn prefix_sums_in_closed_form() {
    for objective in [Objective::Rms, Objective::Max, Objective::Last] {
        for (n, gap, most) in
            [(1, 1, 1), (2052, 342, 6), (50, 1, 50), (1000, 1, 1), (1_000_000_000, 1000, 1_000_000)]
        {
            check(&target(n, gap, most, objective.clone()), None);
        }
    }
}

#[test]
fn momentum_in_closed_form_and_where_poles_meet() {
    for objective in [Objective::Rms, Objective::Max] {
        for decay in [0.0, 1e-3, 0.02, 0.0201, 0.1] {
            let workload = momentum(decay, LearningRates::Constant);
            check(&target(700, 100, 5, objective.clone()).with_workload(workload), None);
        }
    }
}

#[test]
fn series() {
    let weights: Vec<f64> = (0..300).map(|t| f64::from(t % 7)).collect();
    check(&target(300, 50, 4, Objective::Weighted(weights.into())), None);
    let column: Arc<[f64]> = vec![1.0, 0.5, -0.3, 0.2].into();
    check(&target(300, 50, 4, Objective::Rms).with_workload(Workload::Toeplitz(column)), None);
}

#[test]
fn schedules() {
    let rates = LearningRates::CoolDown { from: 100, last: 0.1, iterations: 200 };
    let workload = momentum(1e-2, rates);
    for objective in [Objective::Rms, Objective::Last] {
        check(&target(200, 50, 4, objective).with_workload(workload.clone()), None);
    }
    let worst = target(200, 50, 4, Objective::Max).with_workload(workload);
    check(&worst, Some(16.0));
    check(&worst, Some(128.0));
}

#[test]
fn several_rules() {
    let rules = [(100, 7), (200, 4), (300, 3)].map(|(gap, most)| Participation::new(gap, most).unwrap());
    check(&target(700, 1, 1, Objective::Max).with_participations(rules.to_vec()), None);
}

#[test]
fn the_free_numbers_give_back_the_parameters() {
    let ordered = [1e-6, 3e-4, 3.1e-4, 0.2, 0.5, 0.9];
    for (a, b) in chain::ordered(&chain::free(&ordered)).iter().zip(ordered) {
        assert!((a - b).abs() < 1e-9 * b, "{a} against {b}");
    }
}
