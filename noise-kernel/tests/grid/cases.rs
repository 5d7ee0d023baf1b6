//! Mechanisms of every family, and their rows.

use noise_kernel::grid::{
    GridBandRows, GridBanded, GridDeviations, GridFamily, GridGenerator, GridInverse, GridMechanism,
    GridOracle,
};
use noise_kernel::{Backend, BranchKey, Rounds, Stream};
use plan::{Tree, TreeSegment};
use std::ops::Range;
use std::sync::Arc;

/// 0.9·2²⁴ in binary64, the deviation of the vectors.
pub const DEVIATION: f64 = 15_099_494.4;

pub struct Case {
    pub name: String,
    pub mechanism: Arc<GridMechanism>,
}

impl Case {
    pub fn new(name: impl ToString, family: GridFamily, deviations: GridDeviations, n: u64) -> Self {
        let mechanism = Arc::new(GridMechanism::new(family, deviations, n).unwrap());
        Self { name: name.to_string(), mechanism }
    }

    pub fn generator(&self, range: Range<u64>) -> GridGenerator {
        GridGenerator::new(stream(), self.mechanism.clone(), range).unwrap()
    }

    pub fn on(&self, backend: Backend, range: Range<u64>) -> GridGenerator {
        let stream = stream().with_backend(backend).unwrap();
        GridGenerator::new(stream, self.mechanism.clone(), range).unwrap()
    }

    pub fn oracle(&self) -> GridOracle {
        GridOracle::new(branch_key(), Rounds::Twenty, self.mechanism.clone())
    }
}

/// The branch key of the vectors of docs/noise-stream.md, section 8.
pub fn branch_key() -> BranchKey {
    let mut key = [0; 32];
    hex::decode_to_slice("31cc913d4a03407cc1b5b17f6260feb01adb4134e9b04c2be95e0fe53cf4f3f3", &mut key)
        .unwrap();
    BranchKey::from_array(key)
}

pub fn stream() -> Stream {
    Stream::new(&branch_key(), Rounds::Twenty)
}

pub fn blt(theta: &[f64], omega: &[f64]) -> GridFamily {
    GridFamily::Blt { theta: theta.to_vec(), omega: omega.to_vec() }
}

pub fn banded(lags: &[f64]) -> GridFamily {
    GridFamily::Banded(GridBanded { bands: lags.len() + 1, rows: GridBandRows::Toeplitz(lags.to_vec()) })
}

/// The square-root band rounded to multiples of 2⁻¹⁸.
pub fn square_root(bands: usize) -> GridFamily {
    let mut c = 1.0;
    let lags = (1..bands).map(|k| {
        c *= (2 * k - 1) as f64 / (2 * k) as f64;
        (c * 262_144.0).round() / 262_144.0
    });
    banded(&lags.collect::<Vec<_>>())
}

pub fn tree(segments: &[(u64, u64)]) -> (GridFamily, u64) {
    let mut start = 0;
    let mut list = Vec::new();
    for &(rows, virtual_steps) in segments {
        list.push(TreeSegment { start, rows, virtual_steps });
        start += rows;
    }
    (GridFamily::Tree(Tree { segments: list }), start)
}

/// A few rows of every family, with deviations that differ between rows where that is possible.
pub fn cases() -> Vec<Case> {
    let every = GridDeviations::Every(DEVIATION);
    let rising = |n: u64| GridDeviations::PerRow((0..n).map(|t| DEVIATION + 0.37 * t as f64).collect());
    let theta = [0.99, 0.95, 0.9, 0.8, 0.6, 0.3, 0.2, 0.1, -0.05];
    let omega = [0.01, 0.02, 0.05, 0.1, 0.2, 0.1, 0.05, 0.02, -0.01];
    let mut cases = vec![Case::new("identity", GridFamily::Identity, rising(9), 9)];
    for d in [1, 2, 3, 4, 8, 9] {
        cases.push(Case::new(format!("blt {d}"), blt(&theta[..d], &omega[..d]), rising(17), 17));
    }
    for p in [1, 2, 5, 33, 40] {
        cases.push(Case::new(format!("banded {p}"), square_root(p), rising(45), 45));
    }
    cases.push(Case::new("banded longer than n", square_root(60), every.clone(), 12));
    let lags = (0..20 * 2).map(|i| if i < 1 || i == 3 { 0.0 } else { f64::from(i % 7 - 3) / 16.0 });
    let rows = GridBandRows::PerRow(lags.collect());
    cases.push(Case::new("per row", GridFamily::Banded(GridBanded { bands: 3, rows }), rising(20), 20));
    let coefficients: Vec<f64> = (0..9).map(|i| [1.0, -0.61, 0.0, 0.1][i % 4] / (i + 1) as f64).collect();
    let inverse = GridInverse::Toeplitz(coefficients);
    cases.push(Case::new("inverse 9", GridFamily::Inverse(inverse), rising(22), 22));
    let rows = (0..15u32).map(|i| 1.0 - 0.13 * f64::from(i));
    cases.push(Case::new("dense", GridFamily::Inverse(GridInverse::Dense(rows.collect())), rising(5), 5));
    for segments in [&[(1, 0)][..], &[(16, 0)], &[(5, 3), (4, 0), (1, 0), (7, 1)]] {
        let (family, n) = tree(segments);
        cases.push(Case::new(format!("tree {segments:?}"), family, every.clone(), n));
    }
    cases
}

/// Makes the rows left, some at a time, into buffers full of a value that no row has.
pub fn all_rows(generator: &mut GridGenerator, mut at_once: impl FnMut() -> usize) -> Vec<Vec<i32>> {
    let width = (generator.range().end - generator.range().start) as usize;
    let mut rows = Vec::new();
    while generator.remaining() > 0 {
        let count = at_once().min(generator.remaining() as usize);
        let mut some = vec![vec![i32::MIN; width]; count];
        let mut buffers: Vec<&mut [i32]> = some.iter_mut().map(|row| &mut row[..]).collect();
        generator.generate(&mut buffers).unwrap();
        rows.extend(some);
    }
    rows
}
