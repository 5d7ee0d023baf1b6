//! Optimized BLTs: published and peers' losses, more buffers, long runs, other losses and rules; times
//! printed.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

mod common;

use std::ops::ControlFlow;
use std::time::Instant;

use common::published;
use strategy::optimize::{Family, MAX_OPTIMIZED_BUFFERS, Objective, Optimized, Target, optimize};
use strategy::{Blt, Participation, Strategy, StrategyError};

fn rule(gap: u64, most: u64) -> Participation {
    Participation::new(gap, most).unwrap()
}

fn run(family: Family, target: &Target) -> Optimized {
    let start = Instant::now();
    let found = optimize(family, target, &mut |_| ControlFlow::Continue(())).unwrap();
    println!(
        "{family:?} n={} {}: {:.8} in {} steps, {:.1} ms, converged: {}",
        target.iterations,
        target.objective.name(),
        found.loss,
        found.iterations,
        start.elapsed().as_secs_f64() * 1e3,
        found.converged
    );
    assert!(found.sensitivity.exact && found.loss.is_finite());
    found
}

fn of(found: &Optimized) -> &Blt {
    let Strategy::Blt(blt) = &found.strategy else { panic!("{} is not a BLT", found.strategy.name()) };
    blt
}

#[test]
fn a_peers_losses() {
    // reference/strategy.csv and the optima for the RMS loss, at (2052, 342, 6).
    for (buffers, objective, peer) in [
        (2, Objective::Max, 10.8063),
        (3, Objective::Max, 10.7514),
        (4, Objective::Max, 10.7341),
        (2, Objective::Rms, 9.1828),
        (4, Objective::Rms, 9.1713),
    ] {
        let found = run(Family::Blt { buffers }, &Target::new(2052, rule(342, 6), objective));
        assert!(found.loss <= peer + 5e-6 && found.converged, "{buffers} buffers: {} > {peer}", found.loss);
        assert!(found.loss > 0.99 * peer, "better than the optimal band strategy cannot be");
    }
}

#[test]
fn published_parameters_are_not_better_at_their_own_settings() {
    for (blt, (n, gap, most)) in
        published().into_iter().zip([(2000, 100, 10), (4000, 400, 5), (4000, 1000, 2)])
    {
        let target = Target::new(n, rule(gap, most), Objective::Max);
        let theirs = target.loss(&Strategy::Blt(blt)).unwrap();
        let ours = run(Family::Blt { buffers: 4 }, &target).loss;
        assert!(ours <= theirs, "({n}, {gap}, {most}): {ours} > {theirs}");
    }
}

#[test]
fn more_buffers_are_never_worse_and_all_are_well_conditioned() {
    let grid = [
        (1, 1, 1),
        (2, 1, 2),
        (10, 3, 2),
        (100, 1, 100),
        (1000, 10, 30),
        (2052, 342, 6),
        (50_000, 1, 1),
        (1_000_000, 1000, 20),
    ];
    for (n, gap, most) in grid {
        for objective in [Objective::Max, Objective::Rms] {
            let target = Target::new(n, rule(gap, most), objective);
            let mut previous = f64::INFINITY;
            for buffers in [1, 2, 3, 4, 5, 6, 8, MAX_OPTIMIZED_BUFFERS] {
                let found = run(Family::Blt { buffers }, &target);
                assert!(
                    found.loss <= previous * (1.0 + 1e-9),
                    "({n}, {gap}, {most}) with {buffers}: {previous}"
                );
                previous = found.loss;
                let blt = of(&found);
                assert!(blt.is_monotone() && blt.buffers() == buffers);
                let phi: Vec<f64> = blt.theta().iter().map(|theta| 1.0 - theta).collect();
                assert!(phi.windows(2).all(|w| w[1] - w[0] >= 0.9e-6 * w[1]), "{phi:?}");
                // A run has f32 coefficients.
                let rounded = |x: &[f64]| x.iter().map(|x| f64::from(*x as f32)).collect();
                let run = Blt::new(rounded(blt.theta()), rounded(blt.omega())).unwrap();
                let loss = target.loss(&Strategy::Blt(run)).unwrap();
                assert!((loss / found.loss - 1.0).abs() < 1e-4, "in f32 {loss} against {}", found.loss);
            }
        }
    }
}

#[test]
fn as_many_buffers_as_pay() {
    for (n, gap, most) in [(2052, 342, 6), (1_000_000, 1, 1), (10, 1, 1), (1, 1, 1)] {
        let target = Target::new(n, rule(gap, most), Objective::Max);
        let auto = run(Family::BltAuto { max_buffers: 12 }, &target);
        let chosen = of(&auto).buffers();
        let next = run(Family::Blt { buffers: (chosen + 1).min(12) }, &target);
        assert!(auto.loss <= next.loss * (1.0 + 1.1e-4), "{chosen} buffers: {} {}", auto.loss, next.loss);
        if chosen > 1 {
            let fewer = run(Family::Blt { buffers: chosen - 1 }, &target);
            assert!(fewer.loss > auto.loss * (1.0 + 0.9e-4), "{chosen} buffers are one too many");
        }
        let bounded = run(Family::BltAuto { max_buffers: 2 }, &target);
        assert_eq!(of(&bounded).buffers(), chosen.min(2));
    }
}

#[test]
fn a_billion_rounds_have_an_optimum() {
    for (gap, most) in [(1, 1), (1000, 1_000_000), (10_000_000, 100)] {
        for objective in [Objective::Max, Objective::Rms] {
            // `bench strategy` measures the time it takes.
            let found =
                run(Family::Blt { buffers: 6 }, &Target::new(1_000_000_000, rule(gap, most), objective));
            let identity = Strategy::Identity;
            assert!(found.sensitivity.value >= (most as f64).sqrt() && found.strategy != identity);
        }
    }
}

#[test]
fn weights_of_rows() {
    let n = 500;
    let target = |objective| Target::new(n, rule(50, 5), objective);
    // Equal weights are the RMS loss, all weight on the last row is the last loss, which has the maximum.
    let even = Objective::Weighted(vec![2.0; n as usize].into());
    let last = Objective::Weighted((0..n).map(|t| if t + 1 == n { 3.0 } else { 0.0 }).collect());
    for (weighted, plain) in [(even, Objective::Rms), (last, Objective::Max)] {
        let by_series = run(Family::Blt { buffers: 3 }, &target(weighted)).loss;
        let closed = run(Family::Blt { buffers: 3 }, &target(plain)).loss;
        assert!((by_series - closed).abs() < 1e-5 * closed, "{by_series} against {closed}");
    }
    let late: Objective = Objective::Weighted((0..n).map(|t| if t < 400 { 0.0 } else { 1.0 }).collect());
    let own = run(Family::Blt { buffers: 3 }, &target(late.clone()));
    let rms = run(Family::Blt { buffers: 3 }, &target(Objective::Rms)).strategy;
    assert!(own.loss < target(late).loss(&rms).unwrap());
}

#[test]
fn a_range_of_separations() {
    let rules = vec![rule(100, 20), rule(200, 10), rule(400, 5)];
    let target = Target::new(2000, rules[0], Objective::Rms).with_participations(rules.clone());
    let robust = run(Family::Blt { buffers: 3 }, &target);
    for one in rules {
        let alone = run(Family::Blt { buffers: 3 }, &Target::new(2000, one, Objective::Rms));
        let mean = target.loss(&alone.strategy).unwrap();
        assert!(robust.loss <= mean, "{} > {mean}: optimized for {one:?} alone is better", robust.loss);
    }
}

#[test]
fn refused_sizes_and_a_stop() {
    let target = Target::new(100, rule(10, 3), Objective::Max);
    for buffers in [0, 13, 1000] {
        for family in [Family::Blt { buffers }, Family::BltAuto { max_buffers: buffers }] {
            let refused = optimize(family, &target, &mut |_| ControlFlow::Continue(()));
            let Err(StrategyError::Invalid { value, allowed, .. }) = refused else { panic!("{family:?}") };
            assert_eq!((value, allowed.as_str()), (buffers.to_string(), "1 to 12"));
        }
    }
    let mut seen = 0;
    let found = optimize(Family::Blt { buffers: 6 }, &target, &mut |progress| {
        seen += 1;
        assert_eq!(progress.iteration, seen);
        if seen == 40 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .unwrap();
    assert!(found.stopped && !found.converged && found.iterations == 40);
}

#[test]
fn very_long_runs_get_decays_that_single_precision_holds() {
    for (n, gap, most) in [(1_000_000_000, 1, 1), (1_000_000_000, 1_000_000, 100)] {
        let rule = Participation::new(gap, most).unwrap();
        let target = Target::new(n, rule, Objective::Max);
        for buffers in [2, 4] {
            let found =
                optimize(Family::Blt { buffers }, &target, &mut |_| ControlFlow::Continue(())).unwrap();
            let Strategy::Blt(blt) = &found.strategy else { panic!("another mechanism") };
            let single = |values: &[f64]| values.iter().map(|v| f64::from(*v as f32)).collect::<Vec<_>>();
            let running = Blt::new(single(blt.theta()), single(blt.omega())).unwrap();
            let loss = target.loss(&Strategy::Blt(running)).unwrap();
            println!("n {n} b {gap} k {most} d {buffers}: {loss}");
            assert!((loss / found.loss - 1.0).abs() < 1e-5, "{loss} {}", found.loss);
        }
    }
}
