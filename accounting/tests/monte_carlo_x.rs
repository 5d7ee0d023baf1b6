#![allow(clippy::unwrap_used)]
use std::ops::ControlFlow;
use accounting::monte_carlo::optimise::*;
use accounting::monte_carlo::{BallsInBins, Sampling};
use strategy::optimize::{Family, Objective, Target, optimize};
use strategy::{Participation, Strategy};
#[test]
fn seeds() {
    let four = BallsInBins::new(&Strategy::Identity, 16, 4).unwrap();
    for (sigma, epsilon) in [(1.6, 6.0), (2.0, 4.0), (4.0, 1.3)] {
        for seed in 1..9 {
            let d = four.delta(sigma, epsilon, Sampling { samples: 1 << 19, seed }).unwrap();
            println!("{sigma} {epsilon} {:e} {:e}   {:e} {:e}", d.remove.delta, d.remove.standard_error, d.add.delta, d.add.standard_error);
        }
    }
}
#[test]
fn optima() {
    for (n, b, epsilon) in [(128, 16, 1.0), (128, 16, 4.0), (512, 64, 1.0)] {
        let target = Target::new(n, Participation::new(b, n / b).unwrap(), Objective::Rms);
        for family in [Family::Blt { buffers: 2 }, Family::BandToeplitz { bands: n as usize }, Family::BandToeplitz { bands: b as usize }] {
            let start = optimize(family, &target, &mut |_| ControlFlow::Continue(())).unwrap().strategy;
            let sampling = Sampling { samples: 1 << 17, seed: 7 };
            let effort = Effort { samples: 1 << 15, restarts: 1, searches: 20, sampling };
            let t = std::time::Instant::now();
            let f = optimise(&start, &target, Question { batches: b, epsilon, delta: 1e-5 }, effort, &mut |p| {
                println!("   {p:?}");
                ControlFlow::Continue(())
            }).unwrap();
            println!("{n} {b} {epsilon} {family:?}: {:?} -> {:?} ({} searches, {}) {:?}", (f.start.loss(), f.start.estimated_loss()), (f.end.loss(), f.end.estimated_loss()), f.searches, f.converged, t.elapsed());
            println!("  {:?}\n  {:?}", start.c_column(12).unwrap(), f.end.strategy.c_column(12).unwrap());
        }
    }
}
