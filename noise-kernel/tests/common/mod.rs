//! Mechanisms of every kind, and a small generator of test choices.
#![allow(dead_code)] // each test file uses its own part

use noise_kernel::{BranchKey, Generator, Rounds, Stream};
use plan::{BandRows, Banded, Coefficients, Inverse, Tree, TreeSegment};
use std::ops::Range;
use std::sync::Arc;

pub struct Case {
    pub name: String,
    pub iterations: u64,
    pub coefficients: Arc<Coefficients>,
}

impl Case {
    pub fn new(name: impl ToString, iterations: u64, coefficients: Coefficients) -> Self {
        Self { name: name.to_string(), iterations, coefficients: Arc::new(coefficients) }
    }

    pub fn generator(&self, stream: Stream, scale: f32, range: Range<u64>) -> Generator {
        Generator::new(stream, self.coefficients.clone(), self.iterations, scale, range).unwrap()
    }
}

/// SplitMix64: choices of the tests, never noise.
pub struct Choices(pub u64);

impl Choices {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.bits() % end
    }

    pub fn unit(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u32 << 24) as f32
    }
}

/// The branch key of the vectors of docs/noise-stream.md, section 8.
pub fn branch_key() -> BranchKey {
    BranchKey::from_array([
        0x31, 0xcc, 0x91, 0x3d, 0x4a, 0x03, 0x40, 0x7c, 0xc1, 0xb5, 0xb1, 0x7f, 0x62, 0x60, 0xfe, 0xb0, 0x1a,
        0xdb, 0x41, 0x34, 0xe9, 0xb0, 0x4c, 0x2b, 0xe9, 0x5e, 0x0f, 0xe5, 0x3c, 0xf4, 0xf3, 0xf3,
    ])
}

pub fn stream() -> Stream {
    Stream::new(&branch_key(), Rounds::Twenty)
}

pub fn blt(d: usize) -> Coefficients {
    let theta = [0.99, 0.95, 0.9, 0.8, 0.6, 0.3, 0.2, 0.1, 0.05];
    let omega = [0.01, 0.02, 0.05, 0.1, 0.2, 0.1, 0.05, 0.02, 0.01];
    Coefficients::Blt { theta: theta[..d].to_vec(), omega: omega[..d].to_vec(), output_scale: Vec::new() }
}

/// A BLT whose rows have output scales.
pub fn scaled_blt(d: usize, rows: usize) -> Coefficients {
    let Coefficients::Blt { theta, omega, .. } = blt(d) else { unreachable!("a BLT") };
    Coefficients::Blt { theta, omega, output_scale: (0..rows).map(|t| 1.0 + 0.01 * t as f32).collect() }
}

/// Square-root coefficients: c_k = c_{k−1}(2k−1)/(2k).
pub fn square_root(bands: usize) -> Vec<f64> {
    let mut c = vec![1.0];
    for k in 1..bands {
        c.push(c[k - 1] * (2 * k - 1) as f64 / (2 * k) as f64);
    }
    c
}

pub fn banded(bands: usize, scaled_rows: usize) -> Coefficients {
    let lags = square_root(bands)[1..].iter().map(|&c| c as f32).collect();
    let rows = BandRows::Toeplitz { lags, inverse_diagonal: 0.75 };
    let output_scale = (0..scaled_rows).map(|t| 1.0 + 0.01 * t as f32).collect();
    Coefficients::Banded(Banded { bands, rows, output_scale })
}

pub fn per_row(bands: usize, n: usize) -> Coefficients {
    let mut choices = Choices(11);
    let mut lags = Vec::new();
    for t in 0..n {
        lags.extend((1..bands).map(|i| if i > t { 0.0 } else { choices.unit() / i as f32 }));
    }
    let inverse_diagonal = (0..n).map(|_| 0.5 + choices.unit()).collect();
    Coefficients::Banded(Banded {
        bands,
        rows: BandRows::PerRow { lags, inverse_diagonal },
        output_scale: Vec::new(),
    })
}

pub fn inverse(p: usize) -> Coefficients {
    let mut choices = Choices(12);
    let coefficients = (0..p).map(|i| (choices.unit() - 0.7) / (i + 1) as f32).collect();
    Coefficients::Inverse(Inverse::Toeplitz { coefficients })
}

pub fn dense(n: usize) -> Coefficients {
    let mut choices = Choices(13);
    let rows = (0..n * (n + 1) / 2).map(|_| choices.unit() - 0.5).collect();
    Coefficients::Inverse(Inverse::Dense { rows })
}

pub fn tree(segments: &[(u64, u64)]) -> (u64, Coefficients) {
    let mut start = 0;
    let mut list = Vec::new();
    for &(rows, virtual_steps) in segments {
        list.push(TreeSegment { start, rows, virtual_steps });
        start += rows;
    }
    (start, Coefficients::Tree(Tree { segments: list }))
}

pub fn cases() -> Vec<Case> {
    let mut cases = vec![Case::new("identity", 9, Coefficients::Identity)];
    cases.extend((1..=9).map(|d| Case::new(format!("blt {d}"), 40, blt(d))));
    for p in [1, 2, 5, 33, 64, 100] {
        cases.push(Case::new(format!("banded {p}"), 140, banded(p, 0)));
        cases.push(Case::new(format!("banded {p}, scaled"), 70, banded(p, 70)));
    }
    cases.push(Case::new("banded longer than n", 20, banded(100, 0)));
    cases.push(Case::new("banded, one row", 1, banded(5, 0)));
    cases.push(Case::new("per row 3", 70, per_row(3, 70)));
    cases.push(Case::new("per row 40", 75, per_row(40, 75)));
    cases.extend([1, 2, 5, 33, 90].map(|p| Case::new(format!("inverse {p}"), 100, inverse(p))));
    cases.push(Case::new("dense", 75, dense(75)));
    for segments in [&[(1, 0)][..], &[(37, 0)], &[(64, 0)], &[(5, 3), (8, 0), (1, 0), (11, 5), (7, 0)]] {
        let (n, coefficients) = tree(segments);
        cases.push(Case::new(format!("tree {segments:?}"), n, coefficients));
    }
    cases
}

/// Makes the rows left, some at a time, into buffers full of NaN.
pub fn all_rows(generator: &mut Generator, mut at_once: impl FnMut() -> usize) -> Vec<Vec<f32>> {
    let width = (generator.range().end - generator.range().start) as usize;
    let mut rows = Vec::new();
    while generator.remaining() > 0 {
        let count = at_once().min(generator.remaining() as usize);
        let mut some = vec![vec![f32::NAN; width]; count];
        let mut buffers: Vec<&mut [f32]> = some.iter_mut().map(|row| &mut row[..]).collect();
        generator.generate(&mut buffers).unwrap();
        rows.extend(some);
    }
    rows
}

pub fn bits(rows: &[Vec<f32>]) -> Vec<Vec<u32>> {
    rows.iter().map(|row| row.iter().map(|v| v.to_bits()).collect()).collect()
}
