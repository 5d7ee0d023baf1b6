//! Matrices whose noise grows are refused, and those that merely look odd are not.

use crate::{Mechanism, Participation, Plan, PlanSpec};

fn plan(mechanism: Mechanism, iterations: u64, scale: f64) -> Result<Plan, String> {
    Plan::new(PlanSpec {
        chacha_rounds: 20,
        iterations,
        noise_multiplier: scale,
        clip_norm: 1.0,
        participation: Participation { min_sep: 1, max_participations: 1 },
        mechanism,
        layout: None,
        grid: None,
    })
    .map_err(|error| error.to_string())
}

fn toeplitz(coefficients: &[f64]) -> Mechanism {
    Mechanism::BandToeplitz { coefficients: coefficients.to_vec(), column_normalised: false }
}

fn columns(n: usize, column: &[f64]) -> Mechanism {
    let inside = |j: usize| column.iter().enumerate().map(move |(i, c)| if i < n - j { *c } else { 0.0 });
    Mechanism::BandMf { columns: (0..n).map(|j| inside(j).collect()).collect() }
}

#[test]
fn growing_noise_is_refused_by_name() {
    let normalised = Mechanism::BandToeplitz { coefficients: vec![1.0, 2.0], column_normalised: true };
    let blt = Mechanism::Blt { theta: vec![0.5], omega: vec![3.0] };
    let dense = |n: usize| {
        let row = |t: usize| {
            (0..=t).map(move |j| f64::from(u8::from(j == t)) + 2.0 * f64::from(u8::from(j + 1 == t)))
        };
        Mechanism::Dense { matrix: (0..n).map(|t| row(t).collect()).collect() }
    };
    for (mechanism, n) in [
        (toeplitz(&[1.0, 2.0]), 400),
        (toeplitz(&[1.0, 2.0]), 100_000),
        (toeplitz(&[1.0, 0.5, 1.5]), 4_000_000_000),
        // It doubles about every 70,000 rows.
        (toeplitz(&[1.0, 1.000_01]), 4_000_000_000),
        (normalised, 400),
        (blt, 400),
        (columns(400, &[1.0, 2.0]), 400),
        (dense(60), 60),
        (Mechanism::BandInverse { coefficients: vec![1.0, -2.0] }, 400),
        (Mechanism::BandInverse { coefficients: vec![1.0, 1e9] }, 2),
    ] {
        let error = plan(mechanism.clone(), n, 1.0).expect_err(&format!("{} of {n} rows", mechanism.name()));
        assert!(error.contains("`mechanism` is unstable"), "{error}");
        assert!(error.contains("fewer iterations"), "{error}");
    }
}

#[test]
fn noise_that_stays_bounded_runs() {
    for (mechanism, n) in [
        (toeplitz(&[1.0, 2.0]), 20),
        (toeplitz(&[1e-9, 5e-10]), 1000),
        (toeplitz(&[1.0, 1.0]), 4_000_000_000),
        (toeplitz(&[1.0, -0.9]), 4_000_000_000),
        (toeplitz(&[1.0, 1.2, 0.5, 0.1]), 4_000_000_000),
        (Mechanism::Blt { theta: vec![0.9, 0.3], omega: vec![0.6, 0.8] }, 4_000_000_000),
        (columns(300, &[0.2, 0.3, 0.1]), 300),
        (Mechanism::BandSqrt { bands: 1 << 20 }, 4_000_000_000),
        (Mechanism::BandInverse { coefficients: vec![1.0, -0.99, 0.1] }, 4_000_000_000),
        (Mechanism::LambdaCgd { lambda: 0.999_999 }, 4_000_000_000),
    ] {
        let name = mechanism.name();
        let made = plan(mechanism, n, 1.0);
        assert!(made.is_ok(), "{name} of {n} rows: {}", made.unwrap_err());
    }
}

#[test]
fn a_scale_near_the_end_of_f32_is_refused() {
    assert!(plan(Mechanism::Identity, 10, 3e38).unwrap_err().contains("stay within f32"));
    assert!(plan(Mechanism::Identity, 10, 1e30).is_ok());
    assert!(plan(toeplitz(&[1e-9, 0.0]), 10, 1e30).unwrap_err().contains("stay within f32"));
}
