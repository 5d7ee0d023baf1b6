//! Measures what it costs to make one noise block in 1,024 again: rows with and without, in turn, and the ratio of
//! their lower quartiles. `cargo run --release -p noise-kernel --example recheck_cost`
#![allow(clippy::unwrap_used)] // a measurement ends where something fails

use noise_kernel::{Backend, BranchKey, Generator, Recheck, Rounds, RowGenerator, Stream};
use plan::{Coefficients, Inverse};
use std::sync::Arc;
use std::time::{Duration, Instant};

const COORDINATES: u64 = 1 << 19;
const ROUNDS: usize = 41;
const AT_ONCE: usize = 8;

fn main() {
    let inverse = Inverse::Toeplitz { coefficients: (0..8).map(|j| 0.5f32.powi(j + 1)).collect() };
    let cases = [
        ("identity", Coefficients::Identity),
        (
            "blt-4",
            Coefficients::Blt {
                theta: vec![0.9, 0.8, 0.7, 0.5],
                omega: vec![0.1, 0.05, 0.02, 0.01],
                output_scale: Vec::new(),
            },
        ),
        ("band-inverse-8", Coefficients::Inverse(inverse)),
    ];
    for (name, coefficients) in cases {
        let [without, with] = quartiles(coefficients);
        println!(
            "{name}: {without:?} without, {with:?} with, ratio {:.4}",
            with.as_secs_f64() / without.as_secs_f64()
        );
    }
}

/// Times of one call without and with rechecks.
fn quartiles(coefficients: Coefficients) -> [Duration; 2] {
    let stream = Stream::new(&BranchKey::from_array([7; 32]), Rounds::Twenty);
    let iterations = 1 << 40;
    let generator = Generator::new(stream, Arc::new(coefficients), iterations, 1.0, 0..COORDINATES).unwrap();
    let mut generator = RowGenerator::Floats(generator);
    let mut rows = vec![vec![0f32; COORDINATES as usize]; AT_ONCE];
    let rechecks = [0, 1_024].map(|one_in| Recheck::new(Backend::Auto, one_in).unwrap());
    let mut times = [Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (recheck, times) in rechecks.iter().zip(&mut times) {
            let began = Instant::now();
            let sample = recheck.sample(&generator).unwrap();
            let mut out: Vec<&mut [f32]> = rows.iter_mut().map(Vec::as_mut_slice).collect();
            generator.generate(&mut out).unwrap();
            let made: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
            recheck.check(sample, &generator, &made).unwrap();
            times.push(began.elapsed());
        }
    }
    times.map(|mut times| {
        times.sort();
        times[times.len() / 4]
    })
}
