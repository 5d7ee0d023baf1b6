//! Frozen test vectors of stream version 1, as in docs/noise-stream.md. A change here is a new version.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Case, all_rows, branch_key, stream};
use noise_kernel::{JobKey, Rounds, STREAM_VERSION, Stream};
use plan::{BandRows, Banded, Coefficients, Inverse};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use sha2::{Digest, Sha256};

const SPECIFICATION: &str = include_str!("../../docs/noise-stream.md");

#[test]
fn the_specification_has_these_vectors() {
    let own = include_str!("golden.rs");
    let vectors: Vec<&str> =
        own.split('"').filter(|s| s.len() >= 35 && s.chars().all(hex_or_space)).collect();
    assert_eq!(vectors.len(), 2 + 7 + 8);
    for vector in vectors {
        assert!(SPECIFICATION.contains(vector), "{vector}");
    }
}

fn hex_or_space(c: char) -> bool {
    c == ' ' || c.is_ascii_hexdigit()
}

#[test]
fn keys() {
    assert_eq!(STREAM_VERSION, 1);
    let key = JobKey::from_bytes(&std::array::from_fn::<u8, 32, _>(|i| i as u8)).unwrap();
    assert_eq!(
        hex::encode(key.commitment()),
        "979f241284b115ede2a7bafd23dea247ad0aabb98f686cb9f54220c055afca08"
    );
    assert_eq!(
        hex::encode(branch_key().secret_bytes()),
        "b9ae714516e955640d3ea8b90093964e761d87474bdac4e74ff4f57e8bbf6aa1"
    );
}

#[test]
fn keystream() {
    let mut rng = ChaCha20Rng::from_seed(*branch_key().secret_bytes());
    rng.set_stream(7);
    rng.set_word_pos(768 * 5);
    let words: Vec<String> = (0..4).map(|_| format!("{:08x}", rng.next_u32())).collect();
    assert_eq!(words.join(" "), "13e9a05b 6b4bb65d 089c4eb2 580100bb");
}

#[test]
fn normals() {
    let first = |number, start: u64, rounds| {
        let mut row = [0f32; 4];
        Stream::new(&branch_key(), rounds).iid(number, start..start + 4, &mut row).unwrap();
        row.map(|v| format!("{:08x}", v.to_bits())).join(" ")
    };
    assert_eq!(first(0, 0, Rounds::Twenty), "3c2ebdff bfb02cf9 c0337c39 bfad08ef");
    assert_eq!(first(0, 14, Rounds::Twenty), "3e925f82 bf09329f bedc1a3b bee7e577");
    assert_eq!(first(7, 2_560, Rounds::Twenty), "400d6c35 bfc2ee60 bf758335 bf7afc33");
    assert_eq!(first(7, 494, Rounds::Twenty), "beee4bdc 3ecc8edd 3f6b83fd bf87773f");
    assert_eq!(first((1 << 40) + 1, 1 << 45, Rounds::Twenty), "3f531df6 be8319be c0236965 3f613a5f");
    assert_eq!(first(0, 0, Rounds::Twelve), "3ea7f145 bed016f7 3f93d264 bf9fc759");
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
        (
            Case::new("identity", 3, Coefficients::Identity),
            "b3cd3108e82ff604cfd1ad25ab569640b4cc28a069c6f8c65bef0defcccb9985",
        ),
        (Case::new("blt", 8, blt), "cbd6a01ae9058a09e39727a593bf60c258ce6baacae4ef022a702765b0fe4d0b"),
        (
            Case::new("banded", 40, banded(3, toeplitz(), vec![])),
            "440637a4ce9dc2398f11f75c593b75b6fcda7846337104f909a3a706e8e5acb3",
        ),
        (
            Case::new("scaled", 40, banded(3, toeplitz(), scales)),
            "80daf80539e10e144c15fa57e4f3054546a54b490e05962747d6a5967a5d76a6",
        ),
        (
            Case::new("perrow", 8, banded(2, per_row, vec![])),
            "69fdb9d20467ae2a3f89df88f80b054104c0af591f9259ea0d23d8d9fcd6d63a",
        ),
        (
            Case::new("inverse", 40, inverse),
            "c534755843b05cadbe3792ba04bcee92aee12effaa6d38420071963eb33e1b4a",
        ),
        (
            Case::new("dense", 5, Coefficients::Inverse(Inverse::Dense { rows: dense })),
            "eb88d297a93f130c0a294b68ecc85a6a9795271413fd770c9e0b0c2ee0333e2e",
        ),
        (Case::new("tree", n, tree), "70c1f698bbc12fc9808764d503b6322fef31f2d6b633ae739db31df5162800ae"),
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
