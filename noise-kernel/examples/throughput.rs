//! Rough speed of this machine: `cargo run --release -p noise-kernel --example throughput [coordinates]`.

use noise_kernel::{Backend, BranchKey, Generator, Rounds, Stream};
use plan::{BandRows, Banded, Coefficients, Inverse};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let coordinates: u64 = std::env::args().nth(1).map_or(Ok(10_000_000), |a| a.parse())?;
    let band = |bands: usize| {
        let lags = (1..bands).map(|i| 0.3 / i as f32).collect();
        let rows = BandRows::Toeplitz { lags, inverse_diagonal: 1.0 };
        Coefficients::Banded(Banded { bands, rows, output_scale: Vec::new() })
    };
    let mechanisms = [
        ("identity", 8, coordinates, Coefficients::Identity),
        (
            "BLT d=4",
            8,
            coordinates,
            Coefficients::Blt { theta: vec![0.99, 0.9, 0.7, 0.3], omega: vec![0.01, 0.1, 0.2, 0.2] },
        ),
        ("banded p=8", 8, coordinates, band(8)),
        ("banded p=64", 16, coordinates / 16, band(64)),
        ("banded p=400", 16, coordinates / 64, band(400)),
        (
            "inverse p=4",
            16,
            coordinates,
            Coefficients::Inverse(Inverse::Toeplitz { coefficients: vec![1.0, -0.5, -0.125, -0.0625] }),
        ),
    ];
    for backend in Backend::available() {
        for (name, rows, coordinates, coefficients) in &mechanisms {
            let stream =
                Stream::new(&BranchKey::from_array([7; 32]), Rounds::Twenty).with_backend(backend)?;
            let coefficients = Arc::new(coefficients.clone());
            let mut generator = Generator::new(stream, coefficients, 100_000, 1.0, 0..*coordinates)?;
            let mut buffers = vec![vec![0.0f32; *coordinates as usize]; *rows];
            let mut best = f64::INFINITY;
            let end = Instant::now() + Duration::from_millis(800);
            while Instant::now() < end {
                let mut out: Vec<&mut [f32]> = buffers.iter_mut().map(|b| &mut b[..]).collect();
                let start = Instant::now();
                generator.generate(&mut out)?;
                best = best.min(start.elapsed().as_secs_f64());
            }
            let speed = *rows as f64 * *coordinates as f64 / best / 1e6;
            println!(
                "{backend:?} {name}: {speed:.0} M coordinates/s, {} threads",
                rayon::current_num_threads()
            );
        }
    }
    Ok(())
}
