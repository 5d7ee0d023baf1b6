//! The attack on floating-point noise that `docs/grid.md` describes, on rows of this crate.
//!
//! Someone knows two candidates x₀ and x₁ of a sum and sees fl(x + n) bit for bit. Where no binary32 n has fl(x₁ + n) = y, y
//! proves that the sum was not x₁. One coordinate in hundreds says so, and a vector has hundreds.

#![allow(clippy::unwrap_used)]

mod common;

use common::stream;
use noise_kernel::grid::{GridDeviations, GridFamily, GridGenerator, GridMechanism};
use noise_kernel::{BranchKey, Generator, Rounds, Stream};
use plan::Coefficients;
use std::sync::Arc;

/// The embedding of a word that one record alone has.
const COORDINATES: usize = 512;
const RELEASES: u64 = 1000;

/// Binary32 numbers tried on each side of y − x.
const NEIGHBOURS: usize = 3;

/// Returns true where no binary32 number added to `x` gives `y`.
fn is_proof(x: f32, y: f32) -> bool {
    let near = y - x;
    let mut up = near;
    let mut down = near;
    let mut found = x + near == y;
    for _ in 0..NEIGHBOURS {
        (up, down) = (up.next_up(), down.next_down());
        found = found || x + up == y || x + down == y;
    }
    !found
}

/// A candidate of norm `norm` in a direction that is drawn at random, by a key of its own.
fn candidate(norm: f64) -> Vec<f32> {
    let stream = Stream::new(&BranchKey::from_array([7; 32]), Rounds::Twenty);
    let identity = Arc::new(Coefficients::Identity);
    let mut generator = Generator::new(stream, identity, 1, 1.0, 0..COORDINATES as u64).unwrap();
    let mut direction = vec![0.0f32; COORDINATES];
    generator.generate(&mut [&mut direction]).unwrap();
    let length = direction.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
    direction.iter().map(|x| (f64::from(*x) * norm / length) as f32).collect()
}

/// Rows of a mechanism with σ = ζ = 1.
fn rows(coefficients: Coefficients, mut visit: impl FnMut(&[f32])) {
    let coefficients = Arc::new(coefficients);
    let mut generator = Generator::new(stream(), coefficients, RELEASES, 1.0, 0..COORDINATES as u64).unwrap();
    let mut row = vec![0.0; COORDINATES];
    for _ in 0..RELEASES {
        generator.generate(&mut [&mut row]).unwrap();
        visit(&row);
    }
}

/// Returns the share of releases of the sum 0 that prove that it was not x₁, of norm `norm`; and the releases of x₁ that do.
fn proofs(coefficients: Coefficients, norm: f64) -> (f64, u64) {
    let candidate = candidate(norm);
    let mut right = 0u64;
    let mut wrong = 0u64;
    rows(coefficients, |row| {
        let mut pairs = candidate.iter().zip(row);
        right += u64::from(pairs.clone().any(|(x, n)| is_proof(*x, 0.0 + n)));
        wrong += u64::from(pairs.any(|(x, n)| is_proof(*x, x + n)));
    });
    (right as f64 / RELEASES as f64, wrong)
}

/// DP allows a test of these rows to be right in 1.2 % and 4.0 % of releases where it is never wrong.
#[test]
fn rows_of_floats_prove_what_they_were_added_to() {
    for (norm, least) in [(0.03, 0.85), (0.1, 0.99)] {
        let (share, wrong) = proofs(Coefficients::Identity, norm);
        assert!(share >= least, "norm {norm}: {share} of releases; the attack does not work");
        assert_eq!(wrong, 0, "norm {norm}: false proofs");
    }
    let blt = Coefficients::Blt { theta: vec![0.99, 0.5], omega: vec![0.02, 0.1], output_scale: Vec::new() };
    let (share, wrong) = proofs(blt, 0.1);
    assert!(share >= 0.9 && wrong == 0, "blt: {share}, {wrong} false");
}

/// A row of integers may be any integer, so y rules out no sum of integers: there is nothing to find. But the same row, turned
/// to `f32` and added to a sum that is on no grid, gives away as much as a row of floats.
#[test]
fn a_row_of_integers_that_is_added_as_floats_proves_as_much() {
    let scale = f64::from(1 << 24);
    let candidate = candidate(0.1);
    let mut mistaken = 0u64;
    rows(Coefficients::Identity, |row| {
        let as_float = |n: &f32| ((f64::from(*n) * scale).round() / scale) as f32;
        mistaken += u64::from(candidate.iter().zip(row).any(|(x, n)| is_proof(*x, 0.0 + as_float(n))));
    });
    assert!(mistaken as f64 >= 0.9 * RELEASES as f64, "{mistaken} of {RELEASES}");
}

/// Steps of the grid in a unit.
const STEPS: f64 = 16_777_216.0;

/// Independent rows on a grid of deviation 1, each in steps.
fn grid_rows(releases: u64, mut visit: impl FnMut(u64, &[i32])) {
    let deviations = GridDeviations::Every(STEPS);
    let mechanism = Arc::new(GridMechanism::new(GridFamily::Identity, deviations, releases).unwrap());
    let mut generator = GridGenerator::new(stream(), mechanism, 0..COORDINATES as u64).unwrap();
    let mut row = vec![0; COORDINATES];
    for release in 0..releases {
        generator.generate(&mut [&mut row]).unwrap();
        visit(release, &row);
    }
}

/// Returns true where no row of 32 bits, added to the whole number `x`, is published as `y`.
fn is_proof_on_grid(x: i64, y: f32) -> bool {
    let whole = f64::from(y) * STEPS;
    let n = whole as i64 - x;
    whole.fract() != 0.0 || n.unsigned_abs() >= 1 << 31 || published(x + n) != y
}

/// A whole sum as a job publishes it.
fn published(whole: i64) -> f32 {
    (whole as f64 / STEPS) as f32
}

/// On a grid nothing is proved, and the best test is the Gaussian's: right by 2Φ(μ/2) − 1 more often than wrong.
///
/// RUSTLE_LONG sees 10⁹ coordinates.
#[test]
fn rows_on_a_grid_prove_nothing() {
    let releases = if std::env::var_os("RUSTLE_LONG").is_some() { 1_953_126 } else { 40_000 };
    let norm = 0.1;
    let candidate = candidate(norm);
    let moved: Vec<i64> = candidate.iter().map(|x| (f64::from(*x) * STEPS).round() as i64).collect();
    let mut proofs = 0u64;
    let mut mistaken = 0u64;
    let mut above = [0u64; 2];
    grid_rows(releases, |release, row| {
        // Every other release is of the candidate.
        let world = (release % 2) as usize;
        let mut sum = 0.0;
        for (&n, &x) in row.iter().zip(&moved) {
            let y = published(i64::from(n) + if world == 1 { x } else { 0 });
            // Of the other sum.
            proofs += u64::from(is_proof_on_grid(if world == 1 { 0 } else { x }, y));
            sum += f64::from(y) * x as f64 / STEPS;
        }
        above[world] += u64::from(sum > norm * norm / 2.0);
        // The same rows added as floats to sums that are on no grid.
        let mut pairs = candidate.iter().zip(row).zip(&moved);
        mistaken += u64::from(pairs.any(|((x, &n), &m)| is_proof_on_grid(m, x + published(i64::from(n)))));
    });
    assert_eq!(proofs, 0);
    assert!(mistaken > releases / 2, "{mistaken} of {releases} mistaken releases: the attack does not work");
    let half = releases as f64 / 2.0;
    let advantage = (above[1] as f64 - above[0] as f64) / half;
    // 2Φ(0.05) − 1.
    let allowed = 0.039_878;
    println!(
        "{releases} releases: advantage {advantage:.4}, the Gaussian's {allowed:.4}; mistaken {mistaken}"
    );
    assert!((advantage - allowed).abs() < 3.3 * (0.5 / half).sqrt(), "{advantage}");
}
