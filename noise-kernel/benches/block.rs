//! One block of 512 normals, keystream and transform, on each instruction set, one core.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use noise_kernel::{BLOCK, Backend, BranchKey, Rounds, Stream};
use std::hint::black_box;

fn normals(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("block of 512 normals");
    group.throughput(Throughput::Elements(BLOCK as u64));
    for backend in Backend::available() {
        for rounds in [Rounds::Twenty, Rounds::Twelve] {
            let stream = Stream::new(&BranchKey::from_array([7; 32]), rounds);
            let stream = stream.with_backend(backend).expect("this backend is available");
            let mut out = [0f32; BLOCK];
            let mut block = 0;
            let id = BenchmarkId::new(format!("{backend:?}").to_lowercase(), format!("{rounds:?} rounds"));
            group.bench_function(id, |bencher| {
                bencher.iter(|| {
                    block += 1;
                    stream.fill_block(3, block, black_box(&mut out));
                })
            });
        }
    }
    group.finish();
}

criterion_group!(benches, normals);
criterion_main!(benches);
