//! Rows of each mechanism on a range whose state and output stay in cache, one thread, one and eight at once.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use noise_kernel::{BranchKey, Generator, Rounds, Stream};
use plan::{BandRows, Banded, Coefficients, Inverse, Tree, TreeSegment};
use std::sync::Arc;

/// 8 rows of output and 8 of state are 128 KiB; of a tree's levels, few are touched.
const COORDINATES: u64 = 4 * 512;
const ITERATIONS: u64 = 1 << 40;

/// Mechanisms without coefficients for each row, so that there are always rows left.
fn mechanisms() -> [(&'static str, Coefficients); 7] {
    let powers = |base: f32, count: i32| (0..count).map(|j| base.powi(j + 1)).collect::<Vec<_>>();
    let blt = |buffers| Coefficients::Blt {
        theta: powers(0.9, buffers),
        omega: powers(0.4, buffers),
        output_scale: Vec::new(),
    };
    let band = |bands: usize| {
        let rows = BandRows::Toeplitz { lags: powers(0.5, bands as i32 - 1), inverse_diagonal: 1.0 };
        Coefficients::Banded(Banded { bands, rows, output_scale: Vec::new() })
    };
    let inverse = |coefficients| Coefficients::Inverse(Inverse::Toeplitz { coefficients });
    let segments = vec![TreeSegment { start: 0, rows: ITERATIONS, virtual_steps: 0 }];
    [
        ("identity", Coefficients::Identity),
        ("blt-1", blt(1)),
        ("blt-4", blt(4)),
        ("band-toeplitz-8", band(8)),
        ("band-inverse-8", inverse(powers(0.5, 8))),
        ("lambda-cgd", inverse(vec![1.0, -0.9])),
        ("tree", Coefficients::Tree(Tree { segments })),
    ]
}

fn rows(criterion: &mut Criterion) {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("one thread");
    for count in [1, 8] {
        let mut group = criterion.benchmark_group(format!("{count} rows of {COORDINATES} coordinates"));
        group.throughput(Throughput::Elements(count as u64 * COORDINATES));
        for (name, coefficients) in mechanisms() {
            let stream = Stream::new(&BranchKey::from_array([7; 32]), Rounds::Twenty);
            let coefficients = Arc::new(coefficients);
            let mut generator = Generator::new(stream, coefficients, ITERATIONS, 1.0, 0..COORDINATES)
                .expect("coefficients that fit");
            generator.skip(64).expect("rows are left");
            let mut buffers = vec![vec![0f32; COORDINATES as usize]; count];
            group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                pool.install(|| {
                    let mut out: Vec<&mut [f32]> = buffers.iter_mut().map(Vec::as_mut_slice).collect();
                    bencher.iter(|| generator.generate(&mut out).expect("rows are left"));
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, rows);
criterion_main!(benches);
