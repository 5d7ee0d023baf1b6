//! The rounded coefficients against what the mechanism means.

use super::plan;
use crate::{BandRows, Banded, Coefficients, Inverse, Mechanism, TreeSegment};

fn banded(n: u64, mechanism: Mechanism) -> Banded {
    match plan(n, mechanism).coefficients().unwrap() {
        Coefficients::Banded(banded) => banded,
        other => panic!("not banded: {other:?}"),
    }
}

#[test]
fn the_scale_is_the_product_rounded_once() {
    let mut spec = super::spec(2, Mechanism::Identity);
    (spec.noise_multiplier, spec.clip_norm) = (0.1, 3.0);
    assert_eq!(crate::Plan::new(spec.clone()).unwrap().scale(), (0.1_f64 * 3.0) as f32);
    spec.noise_multiplier = 0.0;
    assert_eq!(crate::Plan::new(spec).unwrap().scale(), 0.0);
}

#[test]
fn a_toeplitz_keeps_its_lags_apart_from_its_diagonal() {
    let mechanism = Mechanism::BandToeplitz { coefficients: vec![2.0, 0.5, 0.1], column_normalised: false };
    let rows = BandRows::Toeplitz { lags: vec![0.5, 0.1], inverse_diagonal: 0.5 };
    assert_eq!(banded(9, mechanism), Banded { bands: 3, rows, output_scale: vec![] });
    let sqrt = BandRows::Toeplitz { lags: vec![0.5, 0.375], inverse_diagonal: 1.0 };
    assert_eq!(banded(9, Mechanism::BandSqrt { bands: 3 }).rows, sqrt);
}

#[test]
fn column_norms_use_the_true_tail() {
    let mechanism = Mechanism::BandToeplitz { coefficients: vec![3.0, 4.0, 12.0], column_normalised: true };
    assert_eq!(banded(4, mechanism).output_scale, [13.0, 13.0, 5.0, 3.0]);
}

#[test]
fn band_mf_rows_are_read_from_its_columns() {
    let columns = vec![vec![1.0, 0.5], vec![2.0, 0.25], vec![4.0, 0.0]];
    let rows = BandRows::PerRow { lags: vec![0.0, 0.5, 0.25], inverse_diagonal: vec![1.0, 0.5, 0.25] };
    assert_eq!(banded(3, Mechanism::BandMf { columns }).rows, rows);
}

#[test]
fn a_dense_inverse_times_its_matrix_is_one() {
    let matrix = vec![vec![2.0], vec![1.0, 4.0], vec![0.5, -1.0, 1.0]];
    let Coefficients::Inverse(Inverse::Dense { rows }) =
        plan(3, Mechanism::Dense { matrix: matrix.clone() }).coefficients().unwrap()
    else {
        panic!("not dense");
    };
    for (t, row) in matrix.iter().enumerate() {
        for j in 0..=t {
            let product: f64 = (j..=t).map(|k| row[k] * f64::from(rows[k * (k + 1) / 2 + j])).sum();
            assert_eq!(product, f64::from(u8::from(t == j)), "({t}, {j})");
        }
    }
}

#[test]
fn inverses_without_state() {
    let toeplitz = |s: &[f32]| Coefficients::Inverse(Inverse::Toeplitz { coefficients: s.to_vec() });
    let lambda = plan(5, Mechanism::LambdaCgd { lambda: 0.75 });
    assert_eq!(lambda.coefficients().unwrap(), toeplitz(&[1.0, -0.75]));
    assert_eq!(lambda.state_slots(), 0);
    let bisr = plan(5, Mechanism::BandInverseSqrt { bands: 3 });
    assert_eq!(bisr.coefficients().unwrap(), toeplitz(&[1.0, -0.5, -0.125]));
}

#[test]
fn trees_restart_and_complete() {
    let segment = |start, rows, virtual_steps| TreeSegment { start, rows, virtual_steps };
    let tree = |completion| Mechanism::Tree { restarts: vec![5, 9], completion };
    let plain = plan(12, tree(false)).tree().unwrap();
    assert_eq!(plain.segments, [segment(0, 5, 0), segment(5, 4, 0), segment(9, 3, 0)]);
    let complete = plan(12, tree(true)).tree().unwrap();
    // The last tree is followed by none: nothing to complete.
    assert_eq!(complete.segments, [segment(0, 5, 3), segment(5, 4, 0), segment(9, 3, 0)]);
    assert!(plan(12, Mechanism::Identity).tree().is_none());
}

#[test]
fn rows_are_divided_by_the_scales_of_columns() {
    let scaled = |base| Mechanism::Scaled {
        base: Box::new(base),
        column_scales: vec![2.0, 0.5, 0.25],
        rounds_per_scale: 2,
    };
    let expected = vec![0.5, 0.5, 2.0, 2.0, 4.0, 4.0, 4.0];
    let toeplitz = Mechanism::BandToeplitz { coefficients: vec![1.0, 0.5], column_normalised: false };
    assert_eq!(banded(7, scaled(toeplitz)).output_scale, expected);
    let blt = plan(7, scaled(Mechanism::Blt { theta: vec![0.9], omega: vec![0.1] }));
    let Coefficients::Blt { output_scale, .. } = blt.coefficients().unwrap() else { panic!() };
    assert_eq!(output_scale, expected);
    assert_eq!(blt.state_slots(), 1);
    // Norms and scales together: 5 of whole columns, 3 of the last.
    let column_normalised = true;
    let normalised = Mechanism::BandToeplitz { coefficients: vec![3.0, 4.0], column_normalised };
    assert_eq!(banded(5, scaled(normalised)).output_scale, [2.5, 2.5, 10.0, 10.0, 12.0]);
    // A run that ends early has the first of them.
    let short = plan(3, scaled(Mechanism::Blt { theta: vec![0.9], omega: vec![0.1] }));
    let Coefficients::Blt { output_scale, .. } = short.coefficients().unwrap() else { panic!() };
    assert_eq!(output_scale, expected[..3]);
}

#[test]
fn state_slots() {
    let blt = Mechanism::Blt { theta: vec![0.9, 0.5], omega: vec![0.1, 0.2] };
    assert_eq!(plan(9, blt).state_slots(), 2);
    assert_eq!(plan(9, Mechanism::BandSqrt { bands: 4 }).state_slots(), 3);
    assert_eq!(plan(9, Mechanism::Identity).state_slots(), 0);
    let tree = |n| plan(n, Mechanism::Tree { restarts: vec![], completion: false }).state_slots();
    assert_eq!([tree(1), tree(2), tree(8), tree(9), tree(2000)], [0, 1, 3, 4, 11]);
}

#[test]
fn a_strategy_gives_its_mechanism_back() {
    let mechanisms = [
        Mechanism::Identity,
        Mechanism::Tree { restarts: vec![2], completion: true },
        Mechanism::Blt { theta: vec![0.9], omega: vec![0.1] },
        Mechanism::BandToeplitz { coefficients: vec![1.0, 0.5], column_normalised: true },
        Mechanism::BandMf { columns: vec![vec![1.0, 0.5], vec![2.0, 0.25], vec![4.0, 0.0]] },
        Mechanism::Scaled {
            base: Box::new(Mechanism::BandToeplitz {
                coefficients: vec![1.0, 0.5],
                column_normalised: false,
            }),
            column_scales: vec![1.0, 0.5],
            rounds_per_scale: 2,
        },
        Mechanism::Scaled {
            base: Box::new(Mechanism::Blt { theta: vec![0.9], omega: vec![0.1] }),
            column_scales: vec![1.0, 0.5],
            rounds_per_scale: 1,
        },
        Mechanism::BandSqrt { bands: 2 },
        Mechanism::BandInverse { coefficients: vec![1.0, -0.5] },
        Mechanism::BandInverseSqrt { bands: 2 },
        Mechanism::LambdaCgd { lambda: 0.5 },
        Mechanism::Dense { matrix: vec![vec![1.0], vec![0.5, 1.0], vec![0.25, 0.5, 1.0]] },
    ];
    for mechanism in mechanisms {
        let strategy = plan(3, mechanism.clone()).strategy();
        assert_eq!(Mechanism::try_from(&strategy).unwrap(), mechanism);
        assert_eq!(strategy.name(), mechanism.name());
    }
}
