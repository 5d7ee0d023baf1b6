//! Gradients of the Toeplitz searches against central differences.

use super::inverse_error::InverseError;
use super::{Objective, Target, band_inverse, band_toeplitz, monotone};
use crate::participation::Participation;
use crate::strategy::Strategy;
use crate::workload::{LearningRates, Momentum, Workload};

/// Settings that reach every branch: settled and not, overlapping columns, columns cut by the end, several rules.
fn targets() -> Vec<Target> {
    let rule = |gap, most| Participation::new(gap, most).unwrap();
    let weights: Vec<f64> = (0..60).map(|t| f64::from(t % 3)).collect();
    let momentum = |weight_decay| {
        Workload::Momentum(Momentum { momentum: 0.8, weight_decay, learning_rates: LearningRates::Constant })
    };
    vec![
        Target::new(60, Participation::single(), Objective::Rms),
        Target::new(5000, Participation::single(), Objective::Rms),
        Target::new(5000, rule(700, 6), Objective::Max),
        Target::new(60, rule(3, 9), Objective::Last),
        Target::new(60, rule(13, 5), Objective::Weighted(weights.into())),
        Target::new(61, rule(20, 4), Objective::Max),
        Target::new(3000, rule(500, 3), Objective::Rms).with_workload(momentum(0.0)),
        Target::new(60, rule(8, 3), Objective::Rms).with_workload(momentum(0.1)),
        Target::new(60, rule(8, 3), Objective::Max)
            .with_workload(Workload::Toeplitz([1.0, 0.5, 2.0, -0.3].into())),
        Target::new(60, rule(20, 3), Objective::Rms).with_participations(vec![
            rule(20, 3),
            rule(4, 8),
            rule(30, 2),
        ]),
    ]
}

type Loss<'a> = &'a dyn Fn(&[f64], &mut [f64]) -> f64;

fn compare(name: &str, x: &[f64], loss: Loss<'_>) {
    const STEP: f64 = 1e-5;
    let mut gradient = vec![0.0; x.len()];
    let mut nothing = vec![0.0; x.len()];
    loss(x, &mut gradient);
    let scale = gradient.iter().fold(0.0_f64, |most, g| most.max(g.abs()));
    for i in 0..x.len() {
        let mut at = |by: f64| {
            let mut moved = x.to_vec();
            moved[i] += by;
            loss(&moved, &mut nothing)
        };
        // Five points: the rest is of fourth order.
        let slope = (8.0 * (at(STEP) - at(-STEP)) - (at(2.0 * STEP) - at(-2.0 * STEP))) / (12.0 * STEP);
        assert!((slope - gradient[i]).abs() < 1e-6 * scale, "{name} {i}: {slope} {}", gradient[i]);
    }
}

#[test]
fn band_toeplitz_gradients_are_central_differences() {
    for (place, target) in targets().iter().enumerate() {
        let decoder = monotone::decoder("band-toeplitz", target).unwrap();
        let x: Vec<f64> = (0..9).map(|i| 0.7 * f64::from(i + 1).ln() + 0.1 * f64::from(i % 2)).collect();
        compare(&format!("target {place}"), &x, &|x, g| band_toeplitz::ln_loss(x, g, target, &decoder));
    }
}

/// Settings of learning rates that change.
fn with_learning_rates() -> Vec<Target> {
    let rule = Participation::new(13, 3).unwrap();
    let workload = |momentum, weight_decay| {
        let learning_rates = LearningRates::CoolDown { from: 20, last: 0.1, iterations: 40 };
        Workload::Momentum(Momentum { momentum, weight_decay, learning_rates })
    };
    let weights: Vec<f64> = (0..40).map(|t| f64::from(t % 3)).collect();
    vec![
        Target::new(40, rule, Objective::Rms).with_workload(workload(0.8, 0.0)),
        Target::new(40, rule, Objective::Last).with_workload(workload(0.0, 0.1)),
        Target::new(40, rule, Objective::Weighted(weights.into())).with_workload(workload(0.8, 0.1)),
    ]
}

#[test]
fn the_error_under_learning_rates_is_that_of_the_strategy() {
    for target in with_learning_rates() {
        for bands in [1, 3, 40] {
            let s: Vec<f64> = (0..bands).map(|i| if i == 0 { 1.0 } else { -0.4 / i as f64 }).collect();
            let found = InverseError::new(bands, &target).unwrap().gradient(&s).value.sqrt();
            let known = target.error(&Strategy::BandInverse { s }).unwrap();
            assert!((found / known - 1.0).abs() < 1e-11, "{bands}: {found} {known}");
        }
    }
    let worst = Target { objective: Objective::Max, ..with_learning_rates().swap_remove(0) };
    let error = InverseError::new(3, &worst).err().unwrap().to_string();
    assert!(error.contains("worst row under learning rates"), "{error}");
}

#[test]
fn band_inverse_gradients_are_central_differences() {
    for (place, target) in targets().iter().chain(&with_learning_rates()).enumerate() {
        let error = InverseError::new(5, target).unwrap();
        for x in [[-0.5, -0.13, -0.06, -0.02], [-0.8, 0.1, 0.05, -0.02], [-0.2, -0.6, 0.3, 0.1]] {
            compare(&format!("target {place}"), &x, &|x, g| band_inverse::ln_loss(x, g, target, &error));
        }
    }
}
