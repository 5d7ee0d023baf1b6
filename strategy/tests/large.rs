//! Strategies past the lengths that fit into a matrix: what is settled early must be what the long sums say.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

mod common;

use std::ops::ControlFlow;
use std::time::Instant;

use strategy::optimize::{Family, Objective, Optimized, Target, optimize};
use strategy::workload::{LearningRates, Momentum};
use strategy::{Errors, Participation, Strategy, Workload, series};

fn run(family: Family, target: &Target) -> Optimized {
    let start = Instant::now();
    let found = optimize(family, target, &mut |_| ControlFlow::Continue(())).unwrap();
    println!(
        "{family:?} n={}: loss {:.6} in {} steps, {:.2} s",
        target.iterations,
        found.loss,
        found.iterations,
        start.elapsed().as_secs_f64()
    );
    assert!(found.converged);
    found
}

fn single(n: u64) -> Target {
    Target::new(n, Participation::single(), Objective::Rms)
}

/// The errors by the plain series, every round of it.
fn plain(c: &[f64], n: usize, column: impl Fn(usize) -> f64) -> Errors {
    let mut b: Vec<f64> = Vec::with_capacity(n);
    for t in 0..n {
        let earlier: f64 = c.iter().enumerate().skip(1).take(t).map(|(i, c)| c * b[t - i]).sum();
        b.push((column(t) - earlier) / c[0]);
    }
    let mut sum = 0.0;
    let rows: Vec<f64> = b
        .iter()
        .map(|b| {
            sum += b * b;
            sum
        })
        .collect();
    Errors::of_rows(&rows)
}

#[test]
fn settled_errors_are_the_long_sums() {
    for (alpha, bands, n) in
        [(0.5, 4, 100_000), (0.9, 16, 100_000), (0.99, 8, 50_000), (0.5, 1, 1000), (0.7, 40, 3000)]
    {
        let c = series::power(alpha, bands);
        let expected = plain(&c, n, |_| 1.0);
        let got = strategy::toeplitz::errors(&c, n as u64).unwrap();
        assert!(common::close(got.rms, expected.rms, 1e-11), "{alpha} {bands}: {} {}", got.rms, expected.rms);
        assert!(common::close(got.max, expected.max, 1e-11) && common::close(got.last, expected.last, 1e-11));
    }
}

#[test]
fn a_column_that_never_settles_is_summed_to_the_end() {
    // Its decoder alternates between 1 and 0.
    let got = strategy::toeplitz::errors(&[1.0, 1.0], 10_000).unwrap();
    assert!(common::close(got.max * got.max, 5000.0, 1e-14));
    // Its decoder counts 1, 2, 3, …: Σ(t+1)² of n rounds is n(n+1)(2n+1)/6.
    let got = strategy::toeplitz::errors(&[1.0, -1.0], 1000).unwrap();
    assert!(common::close(got.max * got.max, 1000.0 * 1001.0 * 2001.0 / 6.0, 1e-13));
}

#[test]
fn a_million_rounds() {
    let million = run(Family::BandToeplitz { bands: 32 }, &single(1_000_000));
    let Strategy::BandToeplitz { c, .. } = &million.strategy else { panic!("another mechanism") };
    let expected = plain(c, 1_000_000, |_| 1.0).rms * million.sensitivity.value;
    assert!(common::close(million.loss, expected, 1e-10), "{} {expected}", million.loss);
    let power = run(Family::BandPower { bands: 32 }, &single(1_000_000));
    assert!(million.loss < power.loss && power.loss < 1.0022 * million.loss);
    let ten = run(Family::BandToeplitz { bands: 32 }, &single(10_000_000));
    assert!(ten.loss > million.loss);
}

#[test]
fn inverse_bands_past_a_million_rounds() {
    for n in [3000, 1_000_000] {
        let lambda = run(Family::LambdaCgd, &single(n));
        let Strategy::LambdaCgd { lambda: found } = lambda.strategy else { panic!("another mechanism") };
        let inverse = run(Family::BandInverse { bands: 4 }, &single(n));
        assert!(inverse.loss < lambda.loss);
        if n == 3000 {
            // λ-CGD is the inverse band (1, −λ), whose series is summed to the end.
            let summed = Strategy::BandInverse { s: vec![1.0, -found] };
            assert!(common::close(lambda.loss, single(n).loss(&summed).unwrap(), 1e-12));
        }
    }
}

#[test]
fn momentum_and_weight_decay() {
    for (weight_decay, n) in [(0.0, 20_000), (0.001, 5_000)] {
        let momentum = Momentum { momentum: 0.9, weight_decay, learning_rates: LearningRates::Constant };
        let target = single(n).with_workload(Workload::Momentum(momentum));
        let made_for_it = run(Family::BandToeplitz { bands: 16 }, &target);
        let Strategy::BandToeplitz { c, .. } = &made_for_it.strategy else { panic!("another mechanism") };
        let kept = 1.0 - weight_decay;
        let column = |t: usize| (kept.powi(t as i32 + 1) - 0.9_f64.powi(t as i32 + 1)) / (kept - 0.9);
        let expected = plain(c, n as usize, column).rms * made_for_it.sensitivity.value;
        assert!(common::close(made_for_it.loss, expected, 1e-10), "{} {expected}", made_for_it.loss);
        let made_for_sums = run(Family::BandToeplitz { bands: 16 }, &single(n));
        assert!(made_for_it.loss < target.loss(&made_for_sums.strategy).unwrap());
    }
}

#[test]
fn several_separations_at_once() {
    let rules: Vec<Participation> =
        [100, 200, 300, 400].map(|gap| Participation::new(gap, 5).unwrap()).to_vec();
    let at = |target: &Target| -> (Strategy, f64) {
        let strategy = run(Family::BandToeplitz { bands: 400 }, target).strategy;
        let losses = rules.iter().map(|rule| strategy.rms_loss(2000, *rule).unwrap());
        let losses: Vec<f64> = losses.collect();
        println!("  {losses:.3?}");
        (strategy, losses.iter().sum::<f64>() / 4.0)
    };
    let largest = Target::new(2000, rules[3], Objective::Rms);
    let smallest = Target::new(2000, rules[0], Objective::Rms);
    let (for_largest, largest_mean) = at(&largest);
    let (_, smallest_mean) = at(&smallest);
    let (_, mean) = at(&largest.clone().with_participations(rules.clone()));
    assert!(mean < largest_mean && mean < smallest_mean);
    // McKenna (2024), App. H, reconstructed: better than bands for 400 at 100, worse at 400, and worse than the mean.
    let Strategy::BandToeplitz { c, .. } = for_largest else { panic!("another mechanism") };
    let flat = strategy::optimize::flatten_tail(&c, 100);
    let flat = Strategy::BandToeplitz { c: flat, column_normalised: false };
    let losses = rules.clone().into_iter().map(|rule| flat.rms_loss(2000, rule).unwrap());
    let losses: Vec<f64> = losses.collect();
    println!("flatten_tail {losses:.3?}");
    for (got, known) in losses.iter().zip([10.29, 9.08, 8.89, 8.08]) {
        assert!((got - known).abs() < 0.02, "{got} {known}");
    }
    assert!(mean < losses.iter().sum::<f64>() / 4.0);
}

#[test]
fn weights_and_the_last_row() {
    let n = 500;
    let last_half: Vec<f64> = (0..n).map(|t| if t < n / 2 { 0.0 } else { 1.0 }).collect();
    for objective in [Objective::Last, Objective::Max, Objective::Weighted(last_half.into())] {
        let target = Target::new(n, Participation::single(), objective);
        let own = run(Family::BandToeplitz { bands: 20 }, &target).loss;
        let other = run(Family::BandToeplitz { bands: 20 }, &single(n)).strategy;
        assert!(own < target.loss(&other).unwrap());
        let inverse = run(Family::BandInverse { bands: 6 }, &target).loss;
        let root = target.loss(&Strategy::BandInverseSqrt { bands: 6 }).unwrap();
        assert!(inverse < root, "{inverse} {root}");
    }
}

fn alternating(lambda: f64) -> Strategy {
    Strategy::BandInverse { s: vec![1.0, lambda] }
}

/// Columns of changing signs as long as the run: mostly dust, or too long for every pair of rounds to be summed.
#[test]
fn long_columns_of_changing_signs_have_a_bound() {
    let n = 1_000_000;
    let all = Participation::new(1, n).unwrap();
    let found = alternating(0.5).sensitivity(n, all).unwrap();
    // Contributions that change signs as the column does make row t Σ_{i≤t} 2^−i = 2 − 2^−t: Σ_t (2 − 2^−t)².
    let exact = (4.0 * n as f64 - 8.0 + 4.0 / 3.0).sqrt();
    assert!(found.value >= exact * (1.0 - 1e-12) && found.value <= exact * (1.0 + 1e-9), "{found:?} {exact}");
    assert!(found.value <= 2.0 * (n as f64).sqrt() * (1.0 + 1e-9), "{found:?}");
    for (n, lambda, gap, most) in [
        (n, 1.0, 1, n),
        (n, 0.9999, 1, n),
        (n, 0.997, 1, 100),
        (n, 0.997, 1, 10),
        (n, 0.9999, 3, 1000),
        (4000, 0.9999, 1, 4000),
        (4000, 0.9999, 3, 1000),
    ] {
        let rule = Participation::new(gap, most).unwrap();
        let found = alternating(lambda).sensitivity(n, rule).unwrap();
        // Without changing signs 0, b, 2b, … is the worst pattern; contributions that change theirs attain as much.
        let positive = alternating(-lambda).sensitivity(n, rule).unwrap();
        assert!(positive.exact && found.value >= positive.value * (1.0 - 1e-12), "{found:?} {positive:?}");
        assert!(found.value <= positive.value * (1.0 + 1e-6), "{found:?} {positive:?}");
    }
}
