//! Toeplitz matrices with scaled columns: by exhaustive enumeration, dense matrices and known losses.
#![allow(clippy::unwrap_used)] // helpers outside #[test] functions unwrap too

mod common;
mod enumeration;

use std::ops::ControlFlow;

use common::{errors, inverse, matrix, patterns};
use enumeration::{Lcg, signed};
use strategy::optimize::{Family, Objective, Optimized, Target, optimize};
use strategy::scaled::Base;
use strategy::{Blt, ColumnScales, Participation, Scaled, Schema, Strategy};

fn scales(draw: &mut Lcg, rounds: u64) -> ColumnScales {
    let mut values = vec![0.5 + draw.unit()];
    for _ in 0..draw.below(5) {
        values.push(values[values.len() - 1] * (0.4 + 0.6 * draw.unit()));
    }
    ColumnScales::new(rounds, values).unwrap()
}

/// A BLT, or bands that fall, or bands of any kind and sign.
fn base(draw: &mut Lcg) -> Base {
    if draw.below(3) == 0 {
        let theta = (0..2).map(|_| 0.3 + 0.7 * draw.unit()).collect();
        return Base::Blt(Blt::new(theta, (0..2).map(|_| 0.02 + 0.5 * draw.unit()).collect()).unwrap());
    }
    let mut c = vec![0.7 + draw.unit()];
    let kind = draw.below(3);
    for _ in 0..draw.below(7) {
        let last = c[c.len() - 1];
        c.push(match kind {
            0 => last * draw.unit(),
            1 => draw.unit(),
            _ => draw.signed(1.0),
        });
    }
    Base::BandToeplitz { c, column_normalised: draw.below(3) == 0 }
}

#[test]
fn sensitivities_are_those_of_all_patterns() {
    let mut draw = Lcg(7);
    let mut bounds = 0;
    for _ in 0..400 {
        let n = 2 + draw.below(9);
        let scaled = Scaled::new(base(&mut draw), scales(&mut draw, 1 + n / 3)).unwrap();
        let strategy = Strategy::Scaled(scaled);
        let rule = Participation::new(1 + draw.below(5), 1 + draw.below(4)).unwrap();
        let c = matrix(&strategy, n as usize);
        let truth = patterns(n as usize, rule).iter().map(|set| signed(&c, set)).fold(0.0, f64::max).sqrt();
        let found = strategy.sensitivity(n, rule).unwrap();
        assert!(found.value >= truth * (1.0 - 1e-12), "{strategy:?} n {n} {rule:?}: {found:?} below {truth}");
        if found.exact {
            assert!(
                found.value <= truth * (1.0 + 1e-12),
                "{strategy:?} n {n} {rule:?}: {found:?} above {truth}"
            );
        } else {
            bounds += 1;
        }
        let set: Vec<u64> =
            (0..n).step_by(rule.min_sep as usize).take(rule.max_participations as usize).collect();
        let listed = strategy.sensitivity_under(n, &Schema::Sets(vec![set.clone()].into())).unwrap();
        let known = signed(&c, &set.iter().map(|t| *t as usize).collect::<Vec<_>>()).sqrt();
        assert!(
            listed.value >= known * (1.0 - 1e-12) && (!listed.exact || listed.value <= known * (1.0 + 1e-12))
        );
    }
    assert!(bounds < 150, "{bounds} of 400 are bounds");
}

#[test]
fn columns_that_fall_have_an_exact_sensitivity() {
    let scales = || ColumnScales::new(3, vec![1.0, 0.9, 0.4]).unwrap();
    let blt = Blt::new(vec![0.9, 0.5], vec![0.2, 0.3]).unwrap();
    for base in
        [Base::BandToeplitz { c: vec![1.0, 0.6, 0.6, 0.5, 0.1], column_normalised: false }, Base::Blt(blt)]
    {
        let strategy = Strategy::Scaled(Scaled::new(base, scales()).unwrap());
        for (min_sep, k) in [(1, 4), (2, 3), (3, 2), (3, 4), (4, 3), (9, 2)] {
            let rule = Participation::new(min_sep, k).unwrap();
            let found = strategy.sensitivity(11, rule).unwrap();
            let c = matrix(&strategy, 11);
            let truth = patterns(11, rule).iter().map(|set| signed(&c, set)).fold(0.0, f64::max).sqrt();
            assert!(
                found.exact && (found.value / truth - 1.0).abs() < 1e-12,
                "{min_sep} {k}: {found:?} {truth}"
            );
        }
    }
}

#[test]
fn errors_are_those_of_the_matrix() {
    let mut draw = Lcg(11);
    for _ in 0..60 {
        let n = 1 + draw.below(14);
        let strategy = Strategy::Scaled(Scaled::new(base(&mut draw), scales(&mut draw, 1 + n / 4)).unwrap());
        let c_inverse = inverse(&strategy, n as usize);
        let identity = |i: usize, j: usize| if i == j { 1.0 } else { 0.0 };
        let c = matrix(&strategy, n as usize);
        let most = c_inverse.iter().flatten().fold(1.0, |most: f64, x| most.max(x.abs()));
        for (i, row) in c.iter().enumerate() {
            let mut product = vec![0.0; row.len()];
            for (c, inverse) in row.iter().zip(&c_inverse) {
                product.iter_mut().zip(inverse).for_each(|(p, x)| *p += c * x);
            }
            for (j, p) in product.iter().enumerate() {
                assert!((p - identity(i, j)).abs() < 1e-9 * most, "{strategy:?} ({i}, {j}): {p}");
            }
        }
        let (rms, max, last) = errors(&c_inverse);
        let found = strategy.errors(n).unwrap();
        for (found, known) in [(found.rms, rms), (found.max, max), (found.last, last)] {
            assert!((found / known - 1.0).abs() < 1e-6, "{strategy:?} n {n}: {found} {known}");
        }
    }
}

fn run(family: Family, n: u64, gap: u64, most: u64) -> Optimized {
    let target = Target::new(n, Participation::new(gap, most).unwrap(), Objective::Rms);
    let start = std::time::Instant::now();
    let found = optimize(family, &target, &mut |_| ControlFlow::Continue(())).unwrap();
    println!(
        "{family:?} n={n} b={gap} k={most}: rms {:.5} max {:.5}, {} steps, converged {}, {:.2} s",
        found.rms_loss,
        found.max_loss,
        found.iterations,
        found.converged,
        start.elapsed().as_secs_f64()
    );
    assert!(found.sensitivity.exact, "{family:?}: the sensitivity is only a bound");
    found
}

#[test]
fn scales_take_more_than_a_per_cent_off_where_a_user_takes_part_again() {
    for (n, gap, most, bands, known) in
        [(2052, 342, 6, 342, 8.6331), (256, 16, 16, 16, 14.0687), (200, 10, 20, 24, f64::INFINITY)]
    {
        let equal = run(Family::BandToeplitz { bands }, n, gap, most);
        let scaled = run(Family::BandToeplitzByEpoch { bands }, n, gap, most);
        assert!(scaled.rms_loss < 0.99 * equal.rms_loss, "{}", scaled.rms_loss);
        assert!(scaled.rms_loss < known * 1.0001, "{}", scaled.rms_loss);
        assert_eq!(scaled.strategy.state_slots(n), equal.strategy.state_slots(n));
    }
    for (n, gap, most) in [(2052, 342, 6), (256, 16, 16)] {
        let equal = run(Family::Blt { buffers: 3 }, n, gap, most);
        let scaled = run(Family::BltByEpoch { buffers: 3 }, n, gap, most);
        assert!(scaled.rms_loss < 0.99 * equal.rms_loss, "{}", scaled.rms_loss);
    }
}

#[test]
fn scales_are_refused_where_nothing_is_known_of_their_worth() {
    let rule = Participation::new(5, 4).unwrap();
    let refused = |target: Target, what: &str| {
        for family in [Family::BandToeplitzByEpoch { bands: 4 }, Family::BltByEpoch { buffers: 2 }] {
            let error =
                optimize(family, &target, &mut |_| ControlFlow::Continue(())).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
    };
    refused(Target::new(20, rule, Objective::Max), "not for the loss max");
    refused(Target::new(20, rule, Objective::Last), "not for the loss last");
    refused(Target::new(20, rule, Objective::Rms).with_participations(vec![rule, rule]), "several min-seps");
    let momentum = strategy::Workload::Momentum(strategy::workload::Momentum::new(0.9).unwrap());
    refused(Target::new(20, rule, Objective::Rms).with_workload(momentum), "not for the workload");
    // One participation has nothing to gain, and keeps what it had.
    let found = run(Family::BandToeplitzByEpoch { bands: 4 }, 20, 1, 1);
    assert_eq!(found.strategy, run(Family::BandToeplitz { bands: 4 }, 20, 1, 1).strategy);
    let scales = |rounds, values: &[f64]| ColumnScales::new(rounds, values.to_vec()).unwrap_err().to_string();
    assert!(scales(0, &[1.0]).contains("rounds_per_scale is 0"), "{}", scales(0, &[1.0]));
    assert!(scales(1, &[]).contains("1 or more"));
    assert!(scales(1, &[1.0, 1.5]).contains("1.5 after 1"));
    assert!(scales(1, &[1.0, 0.0]).contains("above zero"));
    assert!(scales(1, &[f64::NAN]).contains("finite"));
}

#[test]
fn scales_never_raise_the_loss() {
    for (n, gap, most) in [(2, 1, 2), (7, 3, 2), (12, 1, 12), (30, 29, 2), (40, 5, 8), (64, 8, 3)] {
        for size in [1, 2, 4] {
            let bands = size.min(n as usize);
            let pairs = [
                (Family::BandToeplitz { bands }, Family::BandToeplitzByEpoch { bands }),
                (Family::Blt { buffers: size }, Family::BltByEpoch { buffers: size }),
            ];
            for (equal, scaled) in pairs {
                assert!(run(scaled, n, gap, most).loss <= run(equal, n, gap, most).loss, "{scaled:?}");
            }
        }
    }
}

#[test]
fn more_scales_than_memory_holds_the_correlations_of_are_refused() {
    let scaled = |n: usize| {
        let base = Base::BandToeplitz { c: vec![1.0, 0.5], column_normalised: false };
        Scaled::new(base, ColumnScales::new(1, vec![1.0; n]).unwrap()).unwrap()
    };
    let error = scaled(100_000).errors(100_000).unwrap_err().to_string();
    assert!(error.contains("4999950000") && error.contains("fewer column_scales"), "{error}");
    assert!(scaled(100_000).errors(1_000).is_ok() && scaled(1_000).errors(2_000).is_ok());
}
