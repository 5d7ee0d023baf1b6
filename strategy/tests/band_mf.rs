//! General bands: known optima, every workload and loss, and that nothing near is better.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use ndarray::Array2;
use strategy::optimize::{Family, Objective, Optimized, Target, optimize};
use strategy::workload::{LearningRates, Momentum};
use strategy::{Banded, Participation, Strategy, StrategyError, Workload};

fn run(bands: usize, target: &Target) -> Optimized {
    let start = Instant::now();
    let found = optimize(Family::BandMf { bands }, target, &mut |_| ControlFlow::Continue(())).unwrap();
    println!(
        "n={} p={bands} {} {}: loss {:.7} rms {:.7} max {:.7} in {} steps, {:.2} s",
        target.iterations,
        target.workload.name(),
        target.objective.name(),
        found.loss,
        found.rms_loss,
        found.max_loss,
        found.iterations,
        start.elapsed().as_secs_f64()
    );
    assert!(found.sensitivity.exact);
    found
}

fn single(n: u64, objective: Objective) -> Target {
    Target::new(n, Participation::single(), objective)
}

fn cool_down(n: u64) -> Workload {
    let learning_rates = LearningRates::CoolDown { from: n / 2, last: 0.05, iterations: n };
    Workload::Momentum(Momentum { momentum: 0.9, weight_decay: 0.01, learning_rates })
}

/// The same with every row's error from whole matrices.
fn brute_force(strategy: &Strategy, target: &Target) -> f64 {
    let n = target.iterations as usize;
    let Workload::Momentum(momentum) = &target.workload else { panic!("momentum is what this knows") };
    let mut velocity = vec![0.0; n];
    let mut model = vec![0.0; n];
    let squared: Vec<f64> = (0..n)
        .map(|t| {
            let mut row = strategy.c_inverse_row(n as u64, t as u64).unwrap();
            row.resize(n, 0.0);
            for j in 0..n {
                velocity[j] = momentum.momentum * velocity[j] + row[j];
                model[j] = momentum.kept() * model[j] + momentum.learning_rates.at(t) * velocity[j];
            }
            model.iter().map(|b| b * b).sum()
        })
        .collect();
    target.objective.error(&squared)
}

#[test]
fn known_optima() {
    for (n, known) in [(512, 4.69938), (2052, 8.59434)] {
        let found = run(16, &single(n, Objective::Rms));
        assert!(found.converged);
        assert!(found.rms_loss <= known + 1e-5, "{n}: {} against {known}", found.rms_loss);
        assert!(found.rms_loss > known - 2e-4, "{n}: better than the optimum cannot be");
    }
}

#[test]
fn knots_come_near_what_all_rounds_reach() {
    // Found with all 8000·16 numbers free; the search itself frees the columns of fewer rounds.
    let found = run(16, &single(8000, Objective::Rms));
    assert!(found.loss < 16.2964759 * (1.0 + 2e-6) && found.loss > 16.29647, "{}", found.loss);
}

#[test]
fn nothing_near_the_optimum_is_better() {
    let target = single(96, Objective::Rms).with_workload(cool_down(96));
    let found = run(6, &target);
    let Strategy::BandMf(best) = &found.strategy else { panic!("another mechanism") };
    for seed in 1..40_u32 {
        let mut state = f64::from(seed);
        let columns = Array2::from_shape_fn((96, 6), |(j, i)| {
            state = (state * 12.9898).sin() * 43758.5453;
            state -= state.floor();
            best.columns()[[j, i]] + 0.02 * (state - 0.5)
        });
        let near = Strategy::BandMf(Banded::new(columns).unwrap().normalised());
        assert!(target.loss(&near).unwrap() > found.loss, "seed {seed}");
    }
}

#[test]
fn momentum_with_cool_down_is_what_whole_matrices_say() {
    for objective in [Objective::Rms, Objective::Last, Objective::Max] {
        let n = 120;
        let target = single(n, objective).with_workload(cool_down(n));
        let found = run(8, &target);
        let expected = brute_force(&found.strategy, &target);
        assert!((found.loss - expected).abs() < 1e-10 * expected, "{} against {expected}", found.loss);
        // Made for this workload, it is better at it than what prefix sums ask for.
        let prefix = run(8, &single(n, target.objective.clone()));
        assert!(found.loss < target.loss(&prefix.strategy).unwrap());
    }
}

#[test]
fn no_loss_is_worse_than_at_the_start() {
    let weights: Arc<[f64]> = (0..200).map(|t| if t % 50 == 49 { 1.0 } else { 0.0 }).collect();
    for objective in [Objective::Rms, Objective::Max, Objective::Last, Objective::Weighted(weights)] {
        for workload in [Workload::Prefix, cool_down(200)] {
            let rule = Participation::new(50, 4).unwrap();
            let target = Target::new(200, rule, objective.clone()).with_workload(workload);
            let found = run(10, &target);
            assert!((found.sensitivity.value - 2.0).abs() < 1e-12);
            let c = strategy::series::power(0.5, 10);
            let start = Strategy::BandToeplitz { c, column_normalised: true };
            assert!(found.loss < target.loss(&start).unwrap());
        }
    }
}

#[test]
fn the_worst_row_gets_better_than_at_the_rms_optimum() {
    let rms = run(16, &single(256, Objective::Rms));
    let max = run(16, &single(256, Objective::Max));
    assert!(max.max_loss < 0.95 * rms.max_loss && max.rms_loss > rms.rms_loss);
    assert_eq!(max.loss, max.max_loss);
    // The mean over rows is below the worst row of any strategy.
    assert!(max.max_loss > rms.rms_loss);
}

#[test]
fn as_many_bands_as_rounds_and_one() {
    for n in [1, 2, 3, 17] {
        let one = run(1, &single(n, Objective::Rms));
        let identity = Strategy::Identity.rms_loss(n, Participation::single()).unwrap();
        assert!((one.rms_loss - identity).abs() < 1e-12);
        assert!(run(n as usize, &single(n, Objective::Rms)).rms_loss <= one.rms_loss * (1.0 + 1e-12));
    }
}

#[test]
fn what_is_not_covered_says_so() {
    let refused = |bands, target: &Target| {
        let found = optimize(Family::BandMf { bands }, target, &mut |_| ControlFlow::Continue(()));
        match found {
            Err(StrategyError::NotOptimizable { why, .. }) => why,
            other => panic!("{other:?}"),
        }
    };
    let toeplitz = Workload::Toeplitz(Arc::from([1.0, 0.5].as_slice()));
    assert!(refused(2, &single(10, Objective::Rms).with_workload(toeplitz)).contains("toeplitz"));
    let twice = Target::new(10, Participation::new(3, 2).unwrap(), Objective::Rms);
    assert!(refused(4, &twice).contains("take 3 at most"));
    for bands in [0, 11] {
        let found = optimize(Family::BandMf { bands }, &single(10, Objective::Rms), &mut |_| {
            ControlFlow::Continue(())
        });
        assert!(matches!(found, Err(StrategyError::Invalid { .. })), "{bands}");
    }
}

#[test]
fn a_stopped_search_returns_its_best() {
    let target = single(512, Objective::Max);
    let mut first = f64::NAN;
    let mut seen = 0;
    let found = optimize(Family::BandMf { bands: 16 }, &target, &mut |step| {
        seen += 1;
        first = if seen == 1 { step.loss } else { first };
        if seen == 90 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert!(found.stopped && !found.converged && found.iterations == 90);
    assert!(found.loss < first);
}

#[test]
fn norms_by_epoch_are_below_the_published_optimum() {
    // (n, bands = min_sep, epochs) and the loss of equal norms, which is the published optimum's.
    for (n, bands, epochs, published) in
        [(64_u64, 8_usize, 8_u64, 0.0), (256, 16, 16, 14.348), (100, 10, 10, 0.0), (100, 25, 4, 0.0)]
    {
        let rule = Participation::new(bands as u64, epochs).unwrap();
        let target = Target::new(n, rule, Objective::Rms);
        let equal = run(bands, &target);
        let free =
            optimize(Family::BandMfByEpoch { bands }, &target, &mut |_| ControlFlow::Continue(())).unwrap();
        println!("n={n} b={bands}: {:.4} instead of {:.4}, {} steps", free.loss, equal.loss, free.iterations);
        assert!(
            free.sensitivity.exact && (free.sensitivity.value / equal.sensitivity.value - 1.0).abs() < 1e-9
        );
        assert!(published == 0.0 || (equal.loss - published).abs() < 1e-3);
        assert!(free.loss < 0.99 * equal.loss, "{} {}", free.loss, equal.loss);
    }
}

#[test]
fn a_comparison_ends_in_few_steps_below_the_losses_of_plain_unknowns() {
    // (n, bands = min_sep, k), the loss and the steps of a search of the columns' numbers themselves.
    let known = [
        (64, 8, 8, 7.179258457, 45),
        (100, 25, 4, 4.755970683, 67),
        (256, 16, 16, 13.864807050, 51),
        (400, 100, 4, 5.609701130, 97),
        (512, 16, 32, 25.545041988, 51),
        (1000, 100, 10, 11.095034466, 99),
    ];
    for (n, min_sep, k, loss, steps) in known {
        let rule = Participation::new(min_sep, k).unwrap();
        let target = Target::new(n, rule, Objective::Rms).with_least_gain(1e-4);
        let family = Family::BandMfByEpoch { bands: min_sep as usize };
        let found = optimize(family, &target, &mut |_| ControlFlow::Continue(())).unwrap();
        println!("n={n} b={min_sep} k={k}: {:.9} in {} steps", found.loss, found.iterations);
        assert!(found.loss < loss * (1.0 + 1e-6), "{n}: {} and {loss}", found.loss);
        assert!(found.iterations < steps, "{n}: {} and {steps}", found.iterations);
    }
}

#[test]
fn other_errors_and_workloads_end_at_their_losses() {
    // The losses of a search of the columns' numbers themselves; one of Y·F stalls at 20.1, and at 5.83.
    let rule = Participation::new(25, 4).unwrap();
    let momentum = Target::new(100, rule, Objective::Rms).with_workload(cool_down(100));
    let weights: Arc<[f64]> = (0..400).map(|t| if t % 50 == 49 { 1.0 } else { 0.01 }).collect();
    let rule = Participation::new(100, 4).unwrap();
    let weighted = Target::new(400, rule, Objective::Weighted(weights));
    for (bands, target, loss) in [(25, momentum, 19.001775652), (100, weighted, 4.895119387)] {
        let family = Family::BandMfByEpoch { bands };
        let found = optimize(family, &target, &mut |_| ControlFlow::Continue(())).unwrap();
        assert!(found.loss < loss * (1.0 + 1e-6), "{} and {loss}", found.loss);
    }
}

#[test]
fn searches_by_epoch_do_not_end_where_they_begin() {
    // More epochs than participations: where all norms are equal the loss has a kink, at which a search must not end.
    for (n, min_sep, k, most) in [(54, 8, 3, 4.2824), (15, 6, 2, 2.4749), (160, 6, 12, 14.229)] {
        let target = Target::new(n, Participation::new(min_sep, k).unwrap(), Objective::Rms);
        let bands = min_sep as usize;
        let free =
            optimize(Family::BandMfByEpoch { bands }, &target, &mut |_| ControlFlow::Continue(())).unwrap();
        println!("n={n} b={min_sep} k={k}: {:.8} in {} steps", free.loss, free.iterations);
        assert!(free.loss < most, "{n}: {}", free.loss);
    }
}

#[test]
fn equal_norms_are_kept_where_nothing_gains() {
    let target = Target::new(300, Participation::new(1, 20).unwrap(), Objective::Rms);
    let equal = run(1, &target);
    let free =
        optimize(Family::BandMfByEpoch { bands: 1 }, &target, &mut |_| ControlFlow::Continue(())).unwrap();
    assert!(free.loss <= equal.loss * (1.0 + 1e-12), "{} {}", free.loss, equal.loss);
}
