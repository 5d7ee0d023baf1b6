//! Each mechanism once and small, over two threads, on every backend there is, into buffers of every kind: what an
//! interpreter has time for. `make miri` runs it so.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Case, banded, bits, blt, branch_key, dense, inverse, per_row, scaled_blt, stream, tree};
use noise_kernel::{BLOCK, Backend, Generator, Oracle, Rounds, Row, round_bf16};
use plan::Coefficients;
use rayon::ThreadPoolBuilder;
use std::ops::Range;

/// Two blocks, a few coordinates of each.
const WINDOW: Range<u64> = BLOCK as u64 - 3..BLOCK as u64 + 4;
const WIDTH: usize = (WINDOW.end - WINDOW.start) as usize;
const SCALE: f32 = 1.375;

fn small() -> Vec<Case> {
    let (n, segments) = tree(&[(3, 1), (1, 0)]);
    vec![
        Case::new("identity", 4, Coefficients::Identity),
        Case::new("blt 4", 4, blt(4)),
        Case::new("blt 9", 4, blt(9)),
        Case::new("blt 3, scaled", 4, scaled_blt(3, 4)),
        Case::new("banded 3, scaled", 4, banded(3, 4)),
        Case::new("banded 40", 4, banded(40, 0)),
        Case::new("per row 3", 4, per_row(3, 4)),
        Case::new("inverse 3", 4, inverse(3)),
        Case::new("dense", 4, dense(4)),
        Case::new("tree", n, segments),
    ]
}

#[test]
fn small_rows_of_every_mechanism_are_the_oracles() {
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    for case in small() {
        let key = branch_key();
        let coefficients = case.coefficients.clone();
        let oracle = Oracle::new(key, Rounds::Twenty, coefficients, case.iterations, SCALE).unwrap();
        let expected = oracle.rows(0..4, WINDOW).unwrap();
        for backend in Backend::available() {
            let what = format!("{} on {backend}", case.name);
            println!("{what}");
            let mut generator = case.generator(stream().with_backend(backend).unwrap(), SCALE, WINDOW);
            let mut first = [f32::NAN; WIDTH];
            let mut added = [1.0; WIDTH];
            let mut half = [0; WIDTH];
            let two = vec![Row::F32(&mut first), Row::Add(&mut added)];
            pool.install(|| generator.generate_rows(two)).unwrap();
            let coefficients = case.coefficients.clone();
            let state = generator.state().to_vec();
            let stream = stream().with_backend(backend).unwrap();
            let mut generator =
                Generator::restore(stream, coefficients, case.iterations, SCALE, WINDOW, 2, &[&state])
                    .unwrap();
            generator.skip(1).unwrap();
            pool.install(|| generator.generate_rows(vec![Row::Bf16(&mut half)])).unwrap();

            let sums = expected[1].iter().map(|value| 1.0 + value).collect();
            let rows = bits(&[expected[0].clone(), sums]);
            assert!(bits(&[first.to_vec(), added.to_vec()]) == rows, "{what}");
            let rounded = expected[3].iter().map(|&value| round_bf16(value));
            assert!(half.into_iter().eq(rounded), "{what}: bfloat16");
        }
    }
}
