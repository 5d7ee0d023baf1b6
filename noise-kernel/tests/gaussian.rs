//! The values are standard normal and independent. Keys are fixed, so a test passes always or never.
//!
//! 10⁷ draws by default, 2³⁰ with RUSTLE_LONG=1.

#![allow(clippy::unwrap_used)]

mod common;

use common::stream;
use noise_kernel::{JobKey, LARGEST_NORMAL, Rounds, Stream};
use std::f64::consts::TAU;

/// Cells of width 2⁻¹⁶ from −8 to 8.
const PER_UNIT: usize = 1 << 16;
const REACH: usize = 8;
const CELLS: usize = 2 * REACH * PER_UNIT;
/// Coordinates of a row drawn together.
const WIDTH: u64 = 1 << 18;

fn draws() -> u64 {
    if std::env::var_os("RUSTLE_LONG").is_some() { 1 << 30 } else { 10_000_000 }
}

/// Counts of draws in each cell, over rows and coordinates.
fn histogram(draws: u64) -> Vec<u64> {
    let mut counts = vec![0u64; CELLS];
    let mut row = vec![0f32; WIDTH as usize];
    for number in 0..draws.div_ceil(WIDTH) {
        stream().iid(number, 0..WIDTH, &mut row).unwrap();
        for &z in &row {
            assert!(f64::from(z.abs()) <= LARGEST_NORMAL);
            let cell = (f64::from(z) + REACH as f64) * PER_UNIT as f64;
            counts[(cell.max(0.0) as usize).min(CELLS - 1)] += 1;
        }
    }
    counts
}

/// The standard normal's probability of each cell: Simpson's rule, the tails beyond ±8 (6e-16) left out.
fn probabilities() -> Vec<f64> {
    let density = |x: f64| (-x * x / 2.0).exp() / TAU.sqrt();
    let h = 1.0 / PER_UNIT as f64;
    let cell = |i: usize| {
        let x = i as f64 * h - REACH as f64;
        (density(x) + 4.0 * density(x + h / 2.0) + density(x + h)) * h / 6.0
    };
    (0..CELLS).map(cell).collect()
}

fn total(values: &[u64]) -> f64 {
    values.iter().sum::<u64>() as f64
}

#[test]
fn the_distribution_is_standard_normal() {
    let counts = histogram(draws());
    let expected = probabilities();
    let n = total(&counts);
    kolmogorov_smirnov_and_anderson_darling(&counts, &expected, n);
    chi_square(&counts, &expected, n);
    tails(&counts, &expected, n);
    moments(&counts, n);
}

fn kolmogorov_smirnov_and_anderson_darling(counts: &[u64], expected: &[f64], n: f64) {
    let mut seen = 0u64;
    let mut below = 0f64;
    let mut largest = 0f64;
    let mut anderson = 0f64;
    for (&count, &p) in counts.iter().zip(expected) {
        seen += count;
        below += p;
        let gap = seen as f64 / n - below;
        largest = largest.max(gap.abs());
        let spread = below * (1.0 - below);
        // Beyond the first and last expected draw the weight is unbounded; the tail test covers that.
        if spread > 1.0 / n {
            anderson += n * gap * gap / spread * p;
        }
    }
    let ks = largest * n.sqrt();
    println!("{n} draws: KS {ks:.3}, Anderson-Darling {anderson:.3}");
    // p-values of about 1e-6.
    assert!(ks < 2.7, "KS {ks}");
    assert!(anderson < 12.0, "A² {anderson}");
}

fn chi_square(counts: &[u64], expected: &[f64], n: f64) {
    let wide = PER_UNIT / 16;
    let mut sum = 0f64;
    let mut cells = 0f64;
    let mut worst = 0f64;
    for (i, (counts, expected)) in counts.chunks(wide).zip(expected.chunks(wide)).enumerate() {
        let count = total(counts);
        let mean = expected.iter().sum::<f64>() * n;
        let centre = (i as f64 + 0.5) / 16.0 - REACH as f64;
        if centre.abs() > 5.0 || mean < 5.0 {
            continue;
        }
        let score = (count - mean) / mean.sqrt();
        assert!(score.abs() < 5.0, "cell at {centre}: {count} draws, {mean} expected");
        worst = worst.max(score.abs());
        sum += score * score;
        cells += 1.0;
    }
    let score = (sum - cells) / (2.0 * cells).sqrt();
    println!("χ² {sum:.1} over {cells} cells, score {score:.2}, worst cell {worst:.2}");
    assert!(cells > 120.0 && score.abs() < 5.0);
}

fn tails(counts: &[u64], expected: &[f64], n: f64) {
    for halves in 4..=12 {
        let cut = halves * PER_UNIT / 2;
        let low = CELLS / 2 - cut;
        let high = CELLS / 2 + cut;
        for (side, range) in [("below", 0..low), ("above", high..CELLS)] {
            let count = total(&counts[range.clone()]);
            let mean = expected[range].iter().sum::<f64>() * n;
            println!("{side} {}σ: {count} draws, {mean:.2} expected", halves as f64 / 2.0);
            assert!((count - mean).abs() < 5.0 * mean.sqrt() + 3.0, "{side} {halves}/2: {count}, {mean}");
        }
    }
}

fn moments(counts: &[u64], n: f64) {
    let centre = |i: usize| (i as f64 + 0.5) / PER_UNIT as f64 - REACH as f64;
    // (power, mean, variance of the power)
    for (power, mean, variance) in [(1, 0.0, 1.0), (2, 1.0, 2.0), (3, 0.0, 15.0), (4, 3.0, 96.0)] {
        let sum: f64 = counts.iter().enumerate().map(|(i, &c)| c as f64 * centre(i).powi(power)).sum();
        let score = (sum / n - mean) / f64::sqrt(variance / n);
        println!("moment {power}: score {score:.2}");
        assert!(score.abs() < 5.0, "moment {power}: score {score}");
    }
}

/// Scores of the correlation of two sequences, of their squares, and of one with the other's square.
fn correlations(name: &str, x: &[f32], y: &[f32]) {
    let mut sums = [0f64; 4];
    for (&x, &y) in x.iter().zip(y) {
        let x = f64::from(x);
        let y = f64::from(y);
        let xx = x * x - 1.0;
        let yy = y * y - 1.0;
        let products = [x * y, xx * yy, x * yy, xx * y];
        sums.iter_mut().zip(products).for_each(|(sum, product)| *sum += product);
    }
    let n = x.len().min(y.len()) as f64;
    let scores: Vec<f64> = sums.iter().zip([1.0, 4.0, 2.0, 2.0]).map(|(s, v)| s / f64::sqrt(v * n)).collect();
    println!("{name}: {scores:.2?}");
    assert!(scores.iter().all(|s| s.abs() < 5.0), "{name}: {scores:?}");
}

fn row(stream: &Stream, number: u64, width: usize) -> Vec<f32> {
    let mut row = vec![0.0; width];
    stream.iid(number, 0..width as u64, &mut row).unwrap();
    row
}

#[test]
fn coordinates_rows_branches_and_jobs_are_uncorrelated() {
    let width = if std::env::var_os("RUSTLE_LONG").is_some() { 1 << 26 } else { 1 << 21 };
    let zero = row(&stream(), 0, width);
    for lag in [1, 2, 3, 8, 15, 16, 17, 31, 32, 48, 64, 160, 320, 480, 496, 512, 528, 1_024, 4_096, 65_536] {
        correlations(&format!("coordinates {lag} apart"), &zero, &zero[lag..]);
    }
    for number in [1, 2, 32, 1 << 32, 1 << 59] {
        correlations(&format!("rows 0 and {number}"), &zero, &row(&stream(), number, width));
    }
    let key = JobKey::from_bytes(&std::array::from_fn::<u8, 32, _>(|i| i as u8)).unwrap();
    let context = |job_nonce, digest| noise_kernel::NoiseContext {
        job_nonce: [job_nonce; 32],
        plan_digest: [digest; 32],
        dimension: 1_300,
        layout_digest: [0xa5; 32],
    };
    let own = Stream::new(&key.branch(&context(1, 0x5a), &[3; 32]), Rounds::Twenty);
    let own = row(&own, 0, width);
    for (job_nonce, branch_nonce, digest) in [(1, 4, 0x5a), (1, 3, 0x5b), (2, 3, 0x5a)] {
        let other = key.branch(&context(job_nonce, digest), &[branch_nonce; 32]);
        let other = row(&Stream::new(&other, Rounds::Twenty), 0, width);
        correlations(&format!("{job_nonce} {branch_nonce} {digest:x}"), &own, &other);
    }
    let twelve = Stream::new(&common::branch_key(), Rounds::Twelve);
    correlations("twenty and twelve rounds", &zero, &row(&twelve, 0, width));
}
