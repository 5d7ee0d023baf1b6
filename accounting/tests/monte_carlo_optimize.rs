//! C optimised under balls-in-bins batches: better than C optimised without them, the same bits with any number of
//! threads, and errors that say what is allowed.

// Helpers outside `#[test]` functions are tests too.
#![allow(clippy::unwrap_used)]

use std::ops::ControlFlow;

use accounting::monte_carlo::optimize::{Effort, Goal, Optimization, Progress, optimize_balls_in_bins};
use accounting::monte_carlo::{BallsInBins, Pair, SampleBudget};
use strategy::optimize::{Family, Objective, Target, optimize};
use strategy::{Participation, Strategy};

fn target(n: u64, b: u64, objective: Objective) -> Target {
    Target::new(n, Participation::new(b, n / b).unwrap(), objective)
}

/// The optimum without amplification.
fn unamplified(family: Family, target: &Target) -> Strategy {
    optimize(family, target, &mut |_| ControlFlow::Continue(())).unwrap().strategy
}

fn effort(samples: u64) -> Effort {
    let budget = SampleBudget { samples: samples << 5, seed: 7 };
    Effort { samples, restarts: 1, searches: 12, budget }
}

fn run(family: Family, target: &Target, epsilon: f64, samples: u64) -> Optimization {
    let goal = Goal { batches: 16, epsilon, delta: 1e-5 };
    let start = unamplified(family, target);
    optimize_balls_in_bins(&start, target, goal, effort(samples), &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn the_optimum_under_amplification_beats_the_one_without() {
    let target = target(128, 16, Objective::Rms);
    for (family, epsilon, gain) in
        [(Family::Blt { buffers: 2 }, 1.0, 0.05), (Family::BandToeplitz { bands: 64 }, 2.0, 0.02)]
    {
        let found = run(family, &target, epsilon, 1 << 14);
        println!("{family:?} {} {} {:?}", found.best().loss(), found.start.loss(), found.searches);
        assert!(found.best().loss() < (1.0 - gain) * found.start.loss(), "{found:?}");
        assert!(found.best().calibrated.verdict.releases(), "{found:?}");
        // What is said of it is what its account says.
        let mechanism = BallsInBins::new(&found.best().strategy, 128, 16).unwrap();
        let sigma = found.best().calibrated.noise_multiplier;
        let back = mechanism.epsilon(sigma, 1e-5, SampleBudget { samples: 1 << 18, seed: 99 }).unwrap();
        // The noise is for an upper bound of δ, which lies above the estimate.
        assert!((0.85..1.005).contains(&(back.epsilon / epsilon)), "{back:?}");
        let error = target.error(&found.best().strategy).unwrap();
        assert_eq!(error, found.best().error);
    }
}

#[test]
fn a_search_goes_on_where_both_orders_bind() {
    let target = target(256, 16, Objective::Rms);
    let found = run(Family::Blt { buffers: 2 }, &target, 4.0, 1 << 12);
    let end = found.end.estimated_loss();
    let start = found.start.estimated_loss();
    // Knowing the order that binds alone it takes more than all twelve.
    assert!(found.converged && found.searches < 9 && end < 0.945 * start, "{end} {start} {found:?}");
}

#[test]
fn the_last_row_can_be_what_counts() {
    let target = target(64, 16, Objective::Last);
    let found = run(Family::Blt { buffers: 1 }, &target, 1.0, 1 << 13);
    // By the estimates: a bound from so few samples is too far above them.
    assert!(found.end.estimated_loss() < 0.99 * found.start.estimated_loss(), "{found:?}");
}

#[test]
fn threads_change_no_bit() {
    let target = target(48, 16, Objective::Rms);
    let all = [1, 3].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| run(Family::BandToeplitz { bands: 9 }, &target, 2.0, 1 << 11))
    });
    assert_eq!(all[0], all[1]);
}

#[test]
fn a_caller_may_end_it() {
    let target = target(64, 16, Objective::Rms);
    let start = unamplified(Family::Blt { buffers: 1 }, &target);
    let goal = Goal { batches: 16, epsilon: 1.0, delta: 1e-5 };
    let mut seen = Vec::new();
    let mut once = |progress: Progress| {
        seen.push(progress);
        ControlFlow::Break(())
    };
    let found = optimize_balls_in_bins(&start, &target, goal, effort(1 << 11), &mut once).unwrap();
    assert!(found.stopped && !found.converged && found.searches == 1, "{found:?}");
    assert!(found.best().loss() <= found.start.loss());
    assert_eq!(seen.len(), 1);
}

#[test]
fn bad_questions_are_named() {
    let target = target(64, 16, Objective::Rms);
    let blt = unamplified(Family::Blt { buffers: 1 }, &target);
    let good = Goal { batches: 16, epsilon: 1.0, delta: 1e-5 };
    let says = |start: &Strategy, goal: Goal, effort: Effort, part: &str| {
        let found = optimize_balls_in_bins(start, &target, goal, effort, &mut |_| ControlFlow::Continue(()));
        let text = found.unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
    };
    let few = effort(1 << 13);
    says(&Strategy::Identity, good, few, "first column");
    let rising = Strategy::BandToeplitz { c: vec![1.0, 1.5], column_normalised: false };
    says(&rising, good, few, "never rise");
    says(&blt, Goal { batches: 2048, ..good }, few, "1 to 1024");
    says(&blt, Goal { batches: 24, ..good }, few, "whole epochs");
    says(&blt, Goal { epsilon: 0.0, ..good }, few, "epsilon is 0");
    says(&blt, Goal { delta: 1.0, ..good }, few, "delta is 1");
    says(&blt, good, Effort { samples: 10, ..few }, "samples is 10");
}
