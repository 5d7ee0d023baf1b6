//! The distribution of rows: frequencies, low bits, moments, and covariances between rows.
//!
//! RUSTLE_LONG draws 10⁹ for each deviation.

use crate::cases::{Case, DEVIATION, banded, blt, stream};
use noise_kernel::grid::{GridDeviations, GridFamily, GridGenerator};
use std::f64::consts::TAU;

/// Calls `each` with rows of independent noise.
fn draw(deviation: f64, mut each: impl FnMut(&[i32])) -> f64 {
    let rows = if std::env::var_os("RUSTLE_LONG").is_some() { 5_000 } else { 10 };
    let case = Case::new("identity", GridFamily::Identity, GridDeviations::Every(deviation), rows);
    let mut generator = GridGenerator::new(stream(), case.mechanism.clone(), 0..200_192).unwrap();
    let mut row = vec![0; 200_192];
    while generator.remaining() > 0 {
        generator.generate(&mut [&mut row]).unwrap();
        each(&row);
    }
    rows as f64 * 200_192.0
}

/// A standard normal that is χ² with `cells` − 1 degrees of freedom but for its scale (Wilson and Hilferty).
fn score(sum: f64, cells: usize) -> f64 {
    let k = (cells - 1) as f64;
    ((sum / k).cbrt() - (1.0 - 2.0 / (9.0 * k))) / (2.0 / (9.0 * k)).sqrt()
}

/// The probability that ⌊s·z + ½⌋ is n: the density's integral over a cell, by Simpson's rule.
fn probability(n: i64, s: f64) -> f64 {
    let density = |x: f64| (-x * x / 2.0).exp() / TAU.sqrt();
    let h = 1.0 / s / 40.0;
    let from = (n as f64 - 0.5) / s;
    let weight = |i: u32| if i == 0 || i == 40 { 1.0 } else { f64::from(2 + 2 * (i % 2)) };
    (0..=40).map(|i| weight(i) * density(from + f64::from(i) * h)).sum::<f64>() * h / 3.0
}

#[test]
fn values_are_as_frequent_as_the_rounded_gaussian_has_them() {
    for s in [1.0, 6.5, 64.0] {
        let most = (5.0 * s) as i64;
        let mut counts = vec![0u64; 2 * most as usize + 1];
        let n = draw(s, |row| {
            for &value in row {
                if i64::from(value).abs() <= most {
                    counts[(i64::from(value) + most) as usize] += 1;
                }
            }
        });
        let mut sum = 0.0;
        let mut cells = 0;
        let mut left = (n - counts.iter().sum::<u64>() as f64, n);
        for (&count, value) in counts.iter().zip(-most..) {
            let mean = n * probability(value, s);
            left.1 -= mean;
            if mean < 10.0 {
                left = (left.0 + count as f64, left.1 + mean);
                continue;
            }
            sum += (count as f64 - mean).powi(2) / mean;
            cells += 1;
        }
        sum += (left.0 - left.1).powi(2) / left.1.max(1.0);
        let score = score(sum, cells + 1);
        println!("s = {s}: χ² {sum:.1} of {cells} cells, score {score:.2}");
        // p in [10⁻⁴, 1 − 10⁻⁴].
        assert!(score.abs() < 3.72, "s = {s}: score {score}");
    }
}

#[test]
fn low_bits_are_uniform_and_moments_those_of_the_gaussian() {
    let s = 134_217_728.0;
    let mut low = vec![0u64; 4_096];
    let mut sums = [0.0; 4];
    let mut pairs = 0.0;
    let n = draw(s, |row| {
        for &value in row {
            low[(value & 4_095) as usize] += 1;
            let z = f64::from(value) / s;
            for (sum, power) in sums.iter_mut().zip([z, z * z, z.powi(3), z.powi(4)]) {
                *sum += power;
            }
        }
        // Cosine and sine of a pair: 16 coordinates apart.
        for pair in row.as_chunks::<32>().0 {
            pairs += (0..16).map(|l| f64::from(pair[l]) / s * (f64::from(pair[16 + l]) / s)).sum::<f64>();
        }
    });
    let mean = n / 4_096.0;
    let sum = low.iter().map(|&count| (count as f64 - mean).powi(2) / mean).sum();
    println!("low bits: score {:.2}", score(sum, 4_096));
    assert!(score(sum, 4_096).abs() < 3.72);
    for (power, (sum, (mean, variance))) in
        (1..).zip(sums.iter().zip([(0.0, 1.0), (1.0, 2.0), (0.0, 15.0), (3.0, 96.0)]))
    {
        let score = (sum / n - mean) / f64::sqrt(variance / n);
        println!("moment {power}: score {score:.2}");
        assert!(score.abs() < 5.0, "moment {power}: score {score}");
    }
    let score = pairs / (n / 2.0).sqrt();
    println!("pairs: score {score:.2}");
    assert!(score.abs() < 5.0, "pairs: score {score}");
}

/// C⁻¹ by its columns: what each family makes of a unit in one row.
fn impulse(c: impl Fn(usize) -> f64, n: usize) -> Vec<f64> {
    let mut response: Vec<f64> = Vec::new();
    for t in 0..n {
        let fed_back: f64 = (0..t).map(|j| c(t - j) * response[j]).sum();
        response.push(if t == 0 { 1.0 } else { -fed_back });
    }
    response
}

#[test]
fn rows_have_the_covariance_of_the_mechanism() {
    let theta = [0.9f64, 0.5];
    let omega = [0.2, 0.1];
    let of_blt = |lag: usize| (0..2).map(|j| omega[j] * theta[j].powi(lag as i32 - 1)).sum::<f64>();
    let of_band = |lag: usize| [1.0, 0.5, 0.375].get(lag).copied().unwrap_or(0.0);
    let families = [(blt(&theta, &omega), impulse(of_blt, 6)), (banded(&[0.5, 0.375]), impulse(of_band, 6))];
    for (family, response) in families {
        let case = Case::new("covariance", family, GridDeviations::Every(DEVIATION), 6);
        let width = 100_352;
        let rows = crate::cases::all_rows(&mut case.generator(0..width), || 6);
        for t in 0..6 {
            for u in 0..=t {
                let expected: f64 = (0..=u).map(|j| response[t - j] * response[u - j]).sum();
                let products = rows[t].iter().zip(&rows[u]).map(|(&a, &b)| f64::from(a) * f64::from(b));
                let found = products.sum::<f64>() / DEVIATION.powi(2) / width as f64;
                let of = |t: usize| response[..=t].iter().map(|x| x * x).sum::<f64>();
                let error = ((of(t) * of(u) + expected * expected) / width as f64).sqrt();
                assert!((found - expected).abs() < 5.0 * error, "rows {t} and {u}: {found}, {expected}");
            }
        }
    }
}
