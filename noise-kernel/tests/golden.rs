//! Frozen test vectors of stream version 1, as in docs/noise-stream.md. A change here is a new version.

mod common;

use common::{Case, all_rows, branch_key, stream};
use noise_kernel::{JobKey, Rounds, STREAM_VERSION, Stream};
use plan::{BandRows, Banded, Coefficients, Inverse};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

#[test]
fn keys() {
    assert_eq!(STREAM_VERSION, 1);
    let key = JobKey::from_bytes(&std::array::from_fn::<u8, 32, _>(|i| i as u8)).unwrap();
    assert_eq!(hex::encode(key.commitment()), "@commitment");
    assert_eq!(hex::encode(branch_key().secret_bytes()), "@branch");
}

#[test]
fn keystream() {
    let mut rng = ChaCha20Rng::from_seed(*branch_key().secret_bytes());
    rng.set_stream(7);
    rng.set_word_pos(768 * 5);
    let words: Vec<String> = (0..4).map(|_| format!("{:08x}", rng.next_u32())).collect();
    assert_eq!(words.join(" "), "@words");
}

#[test]
fn normals() {
    let first = |number, start: u64, rounds| {
        let mut row = [0f32; 4];
        Stream::new(&branch_key(), rounds).iid(number, start..start + 4, &mut row).unwrap();
        row.map(|v| format!("{:08x}", v.to_bits())).join(" ")
    };
    assert_eq!(first(0, 0, Rounds::Twenty), "@n0");
    assert_eq!(first(0, 14, Rounds::Twenty), "@n1");
    assert_eq!(first(7, 2_560, Rounds::Twenty), "@n2");
    assert_eq!(first(7, 494, Rounds::Twenty), "@n3");
    assert_eq!(first((1 << 40) + 1, 1 << 45, Rounds::Twenty), "@n4");
    assert_eq!(first(0, 0, Rounds::Twelve), "@n5");
}

fn banded(bands: usize, rows: BandRows, output_scale: Vec<f32>) -> Coefficients {
    Coefficients::Banded(Banded { bands, rows, output_scale })
}

/// The mechanisms of section 8 of the specification.
fn mechanisms() -> Vec<(Case, &'static str)> {
    let toeplitz = || BandRows::Toeplitz { lags: vec![0.5, 0.375], inverse_diagonal: 1.0 };
    let per_row = BandRows::PerRow {
        lags: (0..8).map(|t| if t == 0 { 0.0 } else { 0.5 + t as f32 / 128.0 }).collect(),
        inverse_diagonal: vec![0.75; 8],
    };
    let dense = (0..5).flat_map(|t| (0..=t).map(move |j| 0.5f32.powi(t - j))).collect();
    let (n, tree) = common::tree(&[(5, 3), (6, 0)]);
    let blt = Coefficients::Blt { theta: vec![0.875, 0.5], omega: vec![0.25, 0.125] };
    let inverse = Coefficients::Inverse(Inverse::Toeplitz { coefficients: vec![1.0, -0.5, -0.125] });
    let scales = (0..40).map(|t| 1.0 + t as f32 / 64.0).collect();
    vec![
        (Case::new("identity", 3, Coefficients::Identity), "@identity"),
        (Case::new("blt", 8, blt), "@blt"),
        (Case::new("banded", 40, banded(3, toeplitz(), vec![])), "@banded"),
        (Case::new("scaled", 40, banded(3, toeplitz(), scales)), "@scaled"),
        (Case::new("perrow", 8, banded(2, per_row, vec![])), "@perrow"),
        (Case::new("inverse", 40, inverse), "@inverse"),
        (Case::new("dense", 5, Coefficients::Inverse(Inverse::Dense { rows: dense })), "@dense"),
        (Case::new("tree", n, tree), "@tree"),
    ]
}

#[test]
fn rows_of_each_mechanism() {
    for (case, expected) in mechanisms() {
        let rows = all_rows(&mut case.generator(stream(), 1.5, 100..1_300), || 3);
        let mut hash = Sha256::new();
        for value in rows.iter().flatten() {
            hash.update(value.to_le_bytes());
        }
        assert_eq!(hex::encode(hash.finalize()), expected, "{}", case.name);
    }
}
