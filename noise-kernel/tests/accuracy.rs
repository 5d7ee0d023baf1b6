//! Rounding: rows stay within 2e-6 of the same recurrence in f64 with f64 coefficients, on the same normals.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Case, all_rows, square_root, stream};
use plan::{BandRows, Banded, Coefficients, Inverse};

const LIMIT: f64 = 2e-6;
const WIDTH: usize = 1_024;

/// Largest distance between rows made and `exact`, which gets the normals of all rows so far and the rows it
/// gave so far, for one coordinate.
fn distance(case: &Case, mut exact: impl FnMut(&[f64], &[f64]) -> f64) -> f64 {
    let rows = all_rows(&mut case.generator(stream(), 1.0, 0..WIDTH as u64), || 16);
    let mut normals = vec![vec![0.0f32; WIDTH]; rows.len()];
    for (t, normals) in normals.iter_mut().enumerate() {
        stream().iid(t as u64, 0..WIDTH as u64, normals).unwrap();
    }
    let mut worst = 0f64;
    for i in 0..WIDTH {
        let z: Vec<f64> = normals.iter().map(|row| f64::from(row[i])).collect();
        let mut made = Vec::new();
        for (t, row) in rows.iter().enumerate() {
            made.push(exact(&z[..=t], &made));
            worst = worst.max((made[t] - f64::from(row[i])).abs());
        }
    }
    println!("{}: {worst:.2e}", case.name);
    worst
}

fn rounded(values: &[f64]) -> Vec<f32> {
    values.iter().map(|&v| v as f32).collect()
}

#[test]
fn four_thousand_rows_of_blt() {
    let theta = [0.9999999999921251, 0.9944453083640997, 0.8985923474607591, 0.4912001418098778];
    let omega = [0.0070314825502323835, 0.10613806907600574, 0.1898159060327625, 0.1966594748073734];
    let coefficients =
        Coefficients::Blt { theta: rounded(&theta), omega: rounded(&omega), output_scale: Vec::new() };
    let mut s = [0f64; 4];
    let worst = distance(&Case::new("BLT", 4_000, coefficients), |z, made| {
        if made.is_empty() {
            s = [0.0; 4];
        }
        let row = z[z.len() - 1] - (0..4).map(|j| omega[j] * s[j]).sum::<f64>();
        s = std::array::from_fn(|j| theta[j] * s[j] + row);
        row
    });
    assert!(worst < LIMIT, "{worst:e}");
}

#[test]
fn a_thousand_rows_of_a_wide_band() {
    let c = square_root(400);
    let rows = BandRows::Toeplitz { lags: rounded(&c[1..]), inverse_diagonal: 1.0 };
    let coefficients = Coefficients::Banded(Banded { bands: 400, rows, output_scale: Vec::new() });
    let worst = distance(&Case::new("banded", 1_000, coefficients), |z, made| {
        let t = z.len() - 1;
        z[t] - (1..400.min(t + 1)).map(|i| c[i] * made[t - i]).sum::<f64>()
    });
    assert!(worst < LIMIT, "{worst:e}");
}

#[test]
fn dense_and_banded_inverses() {
    // (1 − x)^{1/2}: the inverse of the square root.
    let mut s = vec![1.0f64];
    for k in 1..300 {
        s.push(s[k - 1] * (2.0 * k as f64 - 3.0) / (2.0 * k as f64));
    }
    let packed: Vec<f64> = (0..300).flat_map(|t| s[..=t].iter().rev().copied().collect::<Vec<_>>()).collect();
    let dense = Coefficients::Inverse(Inverse::Dense { rows: rounded(&packed) });
    let toeplitz = Coefficients::Inverse(Inverse::Toeplitz { coefficients: rounded(&s[..50]) });
    for (case, reach) in [(Case::new("dense", 300, dense), 300), (Case::new("inverse", 300, toeplitz), 50)] {
        let worst = distance(&case, |z, _| {
            let t = z.len() - 1;
            (0..reach.min(t + 1)).map(|i| s[i] * z[t - i]).sum()
        });
        assert!(worst < LIMIT, "{worst:e}");
    }
}
