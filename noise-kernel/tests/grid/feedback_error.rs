//! F of a BLT in binary64 beside the real number: within η, and η is not vacuous.
//!
//! η = Σ_j |ω_j|·½ulp(2R_j)·min(T, 1/(1 − |θ_j|)) + (J + 1)·½ulp(2Σ|ω_j|R_j), R_j = 13·s·(deviation of S_j for s = 1),
//! ulp(v) the spacing of binary64 just below 2^⌈log₂ v⌉.

use crate::cases::{Case, all_rows, blt};
use noise_kernel::grid::GridDeviations;

/// Fraction bits of the exact sums.
const FRACTION: u32 = 64;
const ROWS: usize = 400;

/// A coefficient that is a multiple of 2⁻⁵³.
fn steps(x: f64) -> i128 {
    let steps = x * 2f64.powi(53);
    assert_eq!(steps.fract(), 0.0);
    steps as i128
}

/// x·c, rounded down by less than 2⁻⁶⁴; c in steps of 2⁻⁵³.
fn times(x: i128, c: i128) -> i128 {
    (x >> 53) * c + (((x & ((1 << 53) - 1)) * c) >> 53)
}

fn half_ulp(v: f64) -> f64 {
    2f64.powi(v.log2().ceil() as i32 - 54)
}

/// Deviations of the buffers for s = 1: what a unit in one row leaves in each.
fn deviations(theta: &[f64], omega: &[f64]) -> Vec<f64> {
    let mut buffers = vec![0.0; theta.len()];
    let mut squares = vec![0.0; theta.len()];
    for t in 0..ROWS {
        let fed_back: f64 = omega.iter().zip(&buffers).map(|(w, s)| w * s).sum();
        let n = if t == 0 { 1.0 } else { -fed_back };
        for (j, theta) in theta.iter().enumerate() {
            buffers[j] = theta * buffers[j] + n;
            squares[j] += buffers[j] * buffers[j];
        }
    }
    squares.iter().map(|square: &f64| square.sqrt()).collect()
}

#[test]
fn the_feedback_of_a_blt_is_within_its_bound() {
    let grid = |x: f64| (x * 2f64.powi(53)).round() / 2f64.powi(53);
    let theta = [0.9995, 0.98, 0.8, 0.3].map(grid);
    let omega = [0.015, 0.06, 0.15, 0.2].map(grid);
    let s = 134_217_728.0;
    let largest = deviations(&theta, &omega).iter().map(|d| 13.0 * s * d).collect::<Vec<_>>();
    let each = (0..4).map(|j| {
        let growth = (ROWS as f64).min(1.0 / (1.0 - theta[j]));
        omega[j] * half_ulp(2.0 * largest[j]) * growth
    });
    let all: f64 = (0..4).map(|j| omega[j] * largest[j]).sum();
    let eta = each.sum::<f64>() + 5.0 * half_ulp(2.0 * all);

    let case = Case::new("blt", blt(&theta, &omega), GridDeviations::Every(s), ROWS as u64);
    let rows = all_rows(&mut case.generator(0..512), || 50);
    let mut worst: f64 = 0.0;
    for i in 0..512 {
        let mut near = [0.0f64; 4];
        let mut exact = [0i128; 4];
        for row in &rows {
            let even = omega[2].mul_add(near[2], omega[0] * near[0]);
            let odd = omega[3].mul_add(near[3], omega[1] * near[1]);
            let f: i128 = (0..4).map(|j| times(exact[j], steps(omega[j]))).sum();
            let apart = exact_difference(even + odd, f).unsigned_abs();
            worst = worst.max(apart as f64 / 2f64.powi(FRACTION as i32));
            for j in 0..4 {
                near[j] = theta[j].mul_add(near[j], f64::from(row[i]));
                exact[j] = times(exact[j], steps(theta[j])) + (i128::from(row[i]) << FRACTION);
            }
        }
    }
    println!("largest error {worst:e} of {eta:e}");
    assert!(worst <= eta, "{worst:e} is beyond {eta:e}");
    assert!(worst >= eta / 1e4, "{worst:e} is far below {eta:e}");
}

/// near − exact, in steps of 2⁻⁶⁴.
fn exact_difference(near: f64, exact: i128) -> i128 {
    // The whole part and the rest, each a whole number of steps.
    let whole = near.trunc();
    ((whole as i128) << FRACTION) + ((near - whole) * 2f64.powi(FRACTION as i32)) as i128 - exact
}
