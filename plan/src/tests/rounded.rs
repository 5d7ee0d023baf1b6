//! The running strategy against the inverse that its f32 rows are, and against the plan's own.

use strategy::{Blt, Strategy};

use super::{plan, spec};
use crate::{
    BandRows, Banded, Coefficients, Inverse, Layout, Mechanism, Participation, Plan, PlanSpec, grid,
};

/// McMahan, Xu, Zhang (2024), Appendix A: b100, b400, b1000 with their n, b and k.
fn published() -> [(Mechanism, u64, Participation); 3] {
    let blt = |theta: [f64; 4], omega: [f64; 4]| Mechanism::Blt { theta: theta.into(), omega: omega.into() };
    let rule = |min_sep, max_participations| Participation { min_sep, max_participations };
    [
        (
            blt(
                [0.989739971007307, 0.7352001759538236, 0.16776199983448145, 0.1677619998016191],
                [0.20502892852480875, 0.23357939425278557, 0.03479503245420878, 0.03479509876050538],
            ),
            2000,
            rule(100, 10),
        ),
        (
            blt(
                [0.9999999999921251, 0.9944453083640997, 0.8985923474607591, 0.4912001418098778],
                [0.0070314825502323835, 0.10613806907600574, 0.1898159060327625, 0.1966594748073734],
            ),
            4000,
            rule(400, 5),
        ),
        (
            blt(
                [0.9999999999983397, 0.9973412136664378, 0.9584629472313878, 0.6581796870749317],
                [0.008657392263671862, 0.05890891298180163, 0.14548176930698697, 0.2770117005326523],
            ),
            4000,
            rule(1000, 2),
        ),
    ]
}

#[test]
fn published_blts_run_with_almost_their_sensitivity() {
    for (mechanism, n, participation) in published() {
        let mut spec = spec(n, mechanism);
        spec.participation = participation;
        let plan = Plan::new(spec).unwrap();
        let nominal = plan.strategy().sensitivity(n, participation).unwrap();
        let running = plan.running_sensitivity().unwrap();
        let apart = (running.value / nominal.value - 1.0).abs();
        // θ₁ = 0.98974 of b100 loses 3e-8, which counts (1 − θ₁)⁻¹ times over: 1.04e-6, the most of the three.
        println!("n={n} nominal {} running {} apart {apart:e}", nominal.value, running.value);
        assert!(running.exact && apart < 1.1e-6 && apart > 0.0, "{apart:e}");
    }
}

#[test]
fn the_first_decay_of_b400_runs_as_one() {
    let [_, (mechanism, n, _), _] = published();
    let Strategy::Blt(blt) = plan(n, mechanism).running_strategy().unwrap() else { panic!("not a BLT") };
    assert_eq!(blt.theta()[0], 1.0);
}

#[test]
fn a_buffer_whose_weight_vanishes_is_gone() {
    let blt = |theta: &[f64], omega: &[f64]| Mechanism::Blt { theta: theta.into(), omega: omega.into() };
    let running = plan(9, blt(&[0.5, 0.25], &[1e-60, 0.5])).running_strategy().unwrap();
    assert_eq!(running, Strategy::Blt(Blt::new(vec![0.25], vec![0.5]).unwrap()));
    assert_eq!(plan(9, blt(&[0.5], &[1e-60])).running_strategy().unwrap(), Strategy::Identity);
    let message = plan(9, blt(&[1e-60], &[0.5])).running_strategy().unwrap_err().to_string();
    assert_eq!(message, "plan field `mechanism (theta)` is 0; allowed: 0 < theta ≤ 1");
}

/// C⁻¹ by the rules that [`Coefficients`] document, applied to unit impulses in f64.
fn applied(coefficients: &Coefficients, n: usize) -> Vec<Vec<f64>> {
    let mut rows: Vec<Vec<f64>> = Vec::new();
    let mut buffers = vec![vec![0.0; n]; 15];
    for t in 0..n {
        let mut row: Vec<f64> = (0..n).map(|j| f64::from(u8::from(j == t))).collect();
        match coefficients {
            Coefficients::Blt { theta, omega, .. } => {
                for (buffer, omega) in buffers.iter().zip(omega) {
                    row.iter_mut().zip(buffer).for_each(|(r, b)| *r -= f64::from(*omega) * b);
                }
                for (buffer, theta) in buffers.iter_mut().zip(theta) {
                    buffer.iter_mut().zip(&row).for_each(|(b, r)| *b = f64::from(*theta) * *b + r);
                }
            }
            Coefficients::Banded(banded) => {
                let back = banded.bands - 1;
                let (lags, diagonal) = match &banded.rows {
                    BandRows::Toeplitz { lags, inverse_diagonal } => (&lags[..], inverse_diagonal),
                    BandRows::PerRow { lags, inverse_diagonal } => (&lags[t * back..], &inverse_diagonal[t]),
                };
                for i in 1..=back.min(t) {
                    let earlier = &rows[t - i];
                    row.iter_mut().zip(earlier).for_each(|(r, e)| *r -= f64::from(lags[i - 1]) * e);
                }
                row.iter_mut().for_each(|r| *r *= f64::from(*diagonal));
            }
            Coefficients::Inverse(Inverse::Toeplitz { coefficients }) => {
                for (i, s) in coefficients.iter().enumerate().take(t + 1) {
                    row[t - i] = f64::from(*s);
                }
            }
            Coefficients::Inverse(Inverse::Dense { rows }) => {
                (0..=t).for_each(|j| row[j] = rows[t * (t + 1) / 2 + j].into());
            }
            Coefficients::Identity | Coefficients::Tree(_) => {}
        }
        rows.push(row);
    }
    if let Coefficients::Blt { output_scale, .. } | Coefficients::Banded(Banded { output_scale, .. }) =
        coefficients
    {
        for (row, scale) in rows.iter_mut().zip(output_scale) {
            row.iter_mut().for_each(|r| *r *= f64::from(*scale));
        }
    }
    rows
}

fn mechanisms() -> Vec<Mechanism> {
    let normalised = |column_normalised| Mechanism::BandToeplitz {
        coefficients: vec![1.1, 0.7, 0.3, 0.1],
        column_normalised,
    };
    vec![
        Mechanism::Identity,
        Mechanism::Blt { theta: vec![0.9, 0.3], omega: vec![0.1, 0.7] },
        Mechanism::Scaled {
            base: Box::new(Mechanism::BandToeplitz {
                coefficients: vec![1.1, 0.7, 0.3, 0.1],
                column_normalised: false,
            }),
            column_scales: vec![1.2, 1.1, 0.3],
            rounds_per_scale: 2,
        },
        Mechanism::Scaled {
            base: Box::new(Mechanism::Blt { theta: vec![0.9, 0.3], omega: vec![0.1, 0.7] }),
            column_scales: vec![1.2, 0.7],
            rounds_per_scale: 3,
        },
        Mechanism::Scaled {
            base: Box::new(Mechanism::BandToeplitz {
                coefficients: vec![1.1, 0.7, 0.3, 0.1],
                column_normalised: true,
            }),
            column_scales: vec![1.2, 1.1, 0.3],
            rounds_per_scale: 2,
        },
        normalised(false),
        normalised(true),
        Mechanism::BandMf {
            columns: (0..6)
                .map(|j| {
                    let entry = |i: usize| [1.1 + f64::from(j) / 7.0, 0.3, 0.7][i];
                    (0..3).map(|i| if i + (j as usize) < 6 { entry(i) } else { 0.0 }).collect()
                })
                .collect(),
        },
        Mechanism::BandSqrt { bands: 4 },
        Mechanism::BandInverse { coefficients: vec![1.1, -0.3, -0.7] },
        Mechanism::BandInverseSqrt { bands: 4 },
        Mechanism::LambdaCgd { lambda: 0.7 },
        Mechanism::Dense {
            matrix: (0..6).map(|t| (0..=t).map(|j| 1.0 / f64::from(1 + t - j)).collect()).collect(),
        },
    ]
}

#[test]
fn a_running_strategy_is_the_inverse_of_its_rounded_rows() {
    for mechanism in mechanisms() {
        let plan = plan(6, mechanism);
        let running = plan.running_strategy().unwrap();
        let applied = applied(&plan.coefficients().unwrap(), 6);
        for (t, row) in applied.iter().enumerate() {
            let got = running.c_inverse_row(6, t as u64).unwrap();
            for (j, (got, want)) in got.iter().zip(row).enumerate() {
                assert!((got - want).abs() < 1e-14, "{} ({t}, {j}): {got} {want}", running.name());
            }
        }
    }
}

#[test]
fn a_running_sensitivity_is_near_the_nominal_one() {
    for mechanism in mechanisms() {
        let plan = plan(6, mechanism);
        let nominal = plan.strategy().sensitivity(6, plan.participation()).unwrap();
        let running = plan.running_sensitivity().unwrap();
        let name = plan.mechanism().name();
        assert!((running.value / nominal.value - 1.0).abs() < 1e-6, "{name}: {running:?} {nominal:?}");
        assert_eq!(running.exact, nominal.exact, "{name}");
    }
    let tree = plan(9, Mechanism::Tree { restarts: vec![4], completion: true });
    assert_eq!(tree.running_strategy().unwrap(), tree.strategy());
}

/// Leading rows cost less than all, later ones no more; all rows cost what the plan does.
#[test]
fn some_rows_are_accounted_for_as_they_run() {
    for (mechanism, n, participation) in published() {
        let mut spec = spec(n, mechanism);
        spec.participation = participation;
        let plan = Plan::new(spec).unwrap();
        let whole = plan.accounted_sensitivity().unwrap();
        assert_eq!(plan.accounted_sensitivity_of(0..n).unwrap(), whole);
        let first = plan.accounted_sensitivity_of(0..n / 2);
        let last = plan.accounted_sensitivity_of(n - 9..n);
        let first = first.unwrap().value;
        let last = last.unwrap().value;
        assert!(first < whole.value && last < first, "{first} {last} {whole:?}");
        let once = plan.accounted_column_norm().unwrap();
        assert!(once < whole.value && once >= 1.0, "{once}");
        let refused = plan.accounted_sensitivity_of(3..n + 1).unwrap_err().to_string();
        assert!(refused.contains(&format!("3..{}", n + 1)), "{refused}");
    }
}

/// C = T·diag(s) moves by the norms of its own columns, in floating point and on a grid: participations in rounds 0 and 3 have
/// columns of squared norms 4·1.25 and 1·1.25 that don't overlap.
#[test]
fn the_sensitivity_of_scaled_columns_has_their_scales() {
    let base = Box::new(Mechanism::BandToeplitz { coefficients: vec![1.0, 0.5], column_normalised: false });
    let mechanism = Mechanism::Scaled { base, column_scales: vec![2.0, 1.0], rounds_per_scale: 3 };
    let float = PlanSpec {
        participation: Participation { min_sep: 3, max_participations: 2 },
        layout: Layout::dimension_only(1000).ok(),
        ..spec(7, mechanism)
    };
    let chosen = grid::choose(&float, None, Some(0.0)).unwrap();
    for plan in [float.clone(), PlanSpec { grid: Some(chosen), ..float }] {
        let found = Plan::new(plan).unwrap().accounted_sensitivity().unwrap();
        assert!((found.value - 2.5).abs() < 1e-6, "{found:?}");
    }
}
