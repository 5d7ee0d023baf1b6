//! Brute force and dense matrices that the tests compare with.
#![allow(dead_code)]

use strategy::{Blt, Participation, Strategy};

pub type Matrix = Vec<Vec<f64>>;

/// The published BLT parameters of McMahan, Xu, Zhang (2024), Appendix A: b100, b400, b1000.
pub fn published() -> [Blt; 3] {
    [
        (
            [0.989739971007307, 0.7352001759538236, 0.16776199983448145, 0.1677619998016191],
            [0.20502892852480875, 0.23357939425278557, 0.03479503245420878, 0.03479509876050538],
        ),
        (
            [0.9999999999921251, 0.9944453083640997, 0.8985923474607591, 0.4912001418098778],
            [0.0070314825502323835, 0.10613806907600574, 0.1898159060327625, 0.1966594748073734],
        ),
        (
            [0.9999999999983397, 0.9973412136664378, 0.9584629472313878, 0.6581796870749317],
            [0.008657392263671862, 0.05890891298180163, 0.14548176930698697, 0.2770117005326523],
        ),
    ]
    .map(|(theta, omega)| Blt::new(theta.to_vec(), omega.to_vec()).unwrap())
}

/// All rows of C, filled up with zeros.
pub fn matrix(strategy: &Strategy, n: usize) -> Matrix {
    rows(n, |t| strategy.c_row(n as u64, t).unwrap())
}

/// All rows of C⁻¹, filled up with zeros.
pub fn inverse(strategy: &Strategy, n: usize) -> Matrix {
    rows(n, |t| strategy.c_inverse_row(n as u64, t).unwrap())
}

fn rows(n: usize, row: impl Fn(u64) -> Vec<f64>) -> Matrix {
    (0..n)
        .map(|t| {
            let mut row = row(t as u64);
            assert_eq!(row.len(), t + 1);
            row.resize(n, 0.0);
            row
        })
        .collect()
}

/// (rms, max, last) error from C⁻¹ by the definition.
pub fn errors(inverse: &Matrix) -> (f64, f64, f64) {
    let n = inverse.len();
    let mut sum = vec![0.0; n];
    let squares: Vec<f64> = inverse
        .iter()
        .map(|row| {
            sum.iter_mut().zip(row).for_each(|(s, x)| *s += x);
            sum.iter().map(|s| s * s).sum()
        })
        .collect();
    let max = squares.iter().copied().fold(0.0, f64::max);
    ((squares.iter().sum::<f64>() / n as f64).sqrt(), max.sqrt(), squares[n - 1].sqrt())
}

/// Every allowed pattern of rounds below n.
pub fn patterns(n: usize, rule: Participation) -> Vec<Vec<usize>> {
    (1_u32..1 << n)
        .map(|mask| (0..n).filter(|r| mask >> r & 1 == 1).collect::<Vec<_>>())
        .filter(|p| p.len() as u64 <= rule.max_participations)
        .filter(|p| p.windows(2).all(|w| (w[1] - w[0]) as u64 >= rule.min_sep))
        .collect()
}

/// max over patterns and over contributions ±1 of ‖C u‖: the sensitivity for non-negative CᵀC, and a lower
/// bound of it otherwise.
pub fn sensitivity(c: &Matrix, rule: Participation) -> f64 {
    let norm = |pattern: &[usize], signs: u32| {
        let sign = |j: usize| if signs >> j & 1 == 1 { -1.0 } else { 1.0 };
        c.iter()
            .map(|row| pattern.iter().enumerate().map(|(j, r)| sign(j) * row[*r]).sum::<f64>().powi(2))
            .sum::<f64>()
    };
    patterns(c.len(), rule)
        .iter()
        .flat_map(|p| (0..1_u32 << (p.len() - 1)).map(move |signs| norm(p, signs)))
        .fold(0.0, f64::max)
        .sqrt()
}

pub fn close(a: f64, b: f64, relative: f64) -> bool {
    (a - b).abs() <= relative * b.abs()
}
