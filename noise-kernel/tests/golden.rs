//! Frozen test vectors of stream version 3, as in docs/noise-stream.md. A change here is a new version.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Case, all_rows, branch_key, stream};
use noise_kernel::{BranchKey, JobKey, NoiseContext, Rounds, RowKeys, STREAM_VERSION, Stream};
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
    assert_eq!(vectors.len(), 3 + 9 + 9 + 4);
    for vector in vectors {
        assert!(SPECIFICATION.contains(vector), "{vector}");
    }
}

fn hex_or_space(c: char) -> bool {
    c == ' ' || c.is_ascii_hexdigit()
}

#[test]
fn keys() {
    assert_eq!(STREAM_VERSION, 3);
    let key = JobKey::from_bytes(&std::array::from_fn::<u8, 32, _>(|i| i as u8)).unwrap();
    assert_eq!(
        hex::encode(key.commitment()),
        "5cb962a3d41825e991da56f540ec8627dac5ec72409f4b488eafffd8ead5d727"
    );
    assert_eq!(
        hex::encode(branch_key().secret_bytes()),
        "31cc913d4a03407cc1b5b17f6260feb01adb4134e9b04c2be95e0fe53cf4f3f3"
    );
    let context = NoiseContext {
        job_nonce: [0x11; 32],
        plan_digest: [0x5a; 32],
        dimension: 1300,
        layout_digest: [0xa5; 32],
    };
    assert_eq!(
        hex::encode(key.branch(&context, &[0x22; 32]).secret_bytes()),
        "9a5abb98571d4109de785899077b1b2a429b8f77a12d309340021c60254fc6cb"
    );
}

/// Two jobs whose nonce, plan, dimension or layout differ, and two branches, have nothing in common.
#[test]
fn every_part_of_the_context_makes_another_key() {
    let key = JobKey::from_bytes(&[7; 32]).unwrap();
    let context =
        NoiseContext { job_nonce: [1; 32], plan_digest: [2; 32], dimension: 3, layout_digest: [4; 32] };
    let contexts = [
        context.clone(),
        NoiseContext { job_nonce: [9; 32], ..context.clone() },
        NoiseContext { plan_digest: [9; 32], ..context.clone() },
        NoiseContext { dimension: 9, ..context.clone() },
        NoiseContext { layout_digest: [9; 32], ..context.clone() },
    ];
    let mut keys = std::collections::BTreeSet::new();
    for context in &contexts {
        for nonce in [[1; 32], [5; 32]] {
            keys.insert(*key.branch(context, &nonce).secret_bytes());
        }
    }
    // An exchange of parts is another key too.
    let swapped = NoiseContext { job_nonce: [2; 32], plan_digest: [1; 32], ..context };
    keys.insert(*key.branch(&swapped, &[1; 32]).secret_bytes());
    keys.insert(*JobKey::from_bytes(&[8; 32]).unwrap().branch(&swapped, &[1; 32]).secret_bytes());
    assert_eq!(keys.len(), 12);
    assert_ne!(key.checkpoint_key(&[1; 32]), key.checkpoint_key(&[2; 32]));
}

#[test]
fn keystream() {
    let mut rng = ChaCha20Rng::from_seed(*branch_key().secret_bytes());
    rng.set_stream(7);
    rng.set_word_pos(512 * 5);
    let words: Vec<String> = (0..4).map(|_| format!("{:08x}", rng.next_u32())).collect();
    assert_eq!(words.join(" "), "abcb77be a0f773a7 fbca8005 c3ea26f7");
}

#[test]
fn normals() {
    let first = |number, start: u64, rounds| {
        let mut row = [0f32; 4];
        Stream::new(&branch_key(), rounds).iid(number, start..start + 4, &mut row).unwrap();
        row.map(|v| format!("{:08x}", v.to_bits())).join(" ")
    };
    assert_eq!(first(0, 0, Rounds::Twenty), "3f1b2a2a 3fb4e037 3f549b2b 3de9c9f7");
    assert_eq!(first(0, 14, Rounds::Twenty), "3f5f88bd be8dadbf 3f6346fc 401d86b5");
    assert_eq!(first(7, 2_560, Rounds::Twenty), "bf1dccdd 3f4c361e beec7660 3e0bad94");
    assert_eq!(first(7, 494, Rounds::Twenty), "3cf05167 3ec76b54 bff52672 bfd6e52c");
    assert_eq!(first((1 << 40) + 1, 1 << 45, Rounds::Twenty), "3f1f1216 bf81215c 3f3f0fa1 3e94d100");
    // The first of these and the second of those need their extension words.
    assert_eq!(first(0, 484, Rounds::Twenty), "c08b46ad bf25c61e 3f645d43 3e95f073");
    assert_eq!(first(0, 4_620, Rounds::Twenty), "3e8209f3 bbbf91d4 3e6e578a 3e8dac47");
    assert_eq!(first(0, 0, Rounds::Twelve), "bea64938 bdb15406 3eeeccfe 3f232d30");
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
    let blt = |output_scale| Coefficients::Blt {
        theta: vec![0.875, 0.5, 0.25, 0.125],
        omega: vec![0.25, 0.125, 0.0625, 0.03125],
        output_scale,
    };
    let inverse = Coefficients::Inverse(Inverse::Toeplitz { coefficients: vec![1.0, -0.5, -0.125] });
    let scales = |rows: u8| (0..rows).map(|t| 1.0 + f32::from(t) / 64.0).collect();
    vec![
        (
            Case::new("identity", 3, Coefficients::Identity),
            "5f678a50d9b610233c8157de8677f4e06b66f8d4bd08207047727c63f81941a3",
        ),
        (
            Case::new("blt", 8, blt(vec![])),
            "fe8373a3e308c1fd77020b20210c78d78242b08f2dd357bcfa867d4c06990554",
        ),
        (
            Case::new("blt, scaled", 8, blt(scales(8))),
            "b99a73ad9f32759c0680e461fd212b476fcebb5a83d6eac90dc0a61b76540676",
        ),
        (
            Case::new("banded", 40, banded(3, toeplitz(), vec![])),
            "11de01b8689b657ecf505be2fa47caeab7a4ae87bcd77484f05bc1399c9d5853",
        ),
        (
            Case::new("scaled", 40, banded(3, toeplitz(), scales(40))),
            "e8f7f07a7893d03b965fbe1751415f6be6b2d0c5cd5bca3d5579fc11be20784d",
        ),
        (
            Case::new("perrow", 8, banded(2, per_row, vec![])),
            "5bb382bd1b41d803a1c3e35e8b561acae080d969c51ed0e6412ec73cf499ef50",
        ),
        (
            Case::new("inverse", 40, inverse),
            "38816a2604c2b72327ace88d1a0b0c916cdd5817679360da8a3f49eb68088acc",
        ),
        (
            Case::new("dense", 5, Coefficients::Inverse(Inverse::Dense { rows: dense })),
            "3e03337fe1e258ba1982cba5f696fa4a3dd603e29fd19f1bdcc8e7962cd63c96",
        ),
        (Case::new("tree", n, tree), "14a75719f59268600d43d827b5995a7626f0eb0c1e18e4ae0769f35ccacd10b9"),
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

/// Section 12: the mechanisms of section 8, rewound to row 2.
#[test]
fn rows_of_a_lineage() {
    let mut second = [0; 32];
    let hex = "9e2af2d53da639278eb2500af3e5a4a54228d157d863256ad140e97c8644f231";
    hex::decode_to_slice(hex, &mut second).unwrap();
    let keys = RowKeys::from_keys(vec![(0, branch_key()), (2, BranchKey::from_array(second))]).unwrap();
    let expected = [
        ("identity", "2db2b35db519aa217d57545a054678b8fb9658768d8b8cd690935866cb6e843b"),
        ("blt", "833af2f6b7ecbbfb7e660c10dc15ebfe938097f38b55d8a716ca45d485a7b404"),
        ("tree", "bf65e5181943455c72d630117106d6dc388460e1d48541060d246ac6a1de16c0"),
    ];
    for (name, expected) in expected {
        let (case, _) = mechanisms().into_iter().find(|(case, _)| case.name == name).unwrap();
        let stream = Stream::of_rows(&keys, &case.coefficients, Rounds::Twenty);
        let rows = all_rows(&mut case.generator(stream, 1.5, 100..1_300), || 3);
        let mut hash = Sha256::new();
        for value in rows.iter().flatten() {
            hash.update(value.to_le_bytes());
        }
        assert_eq!(hex::encode(hash.finalize()), expected, "{name}");
    }
}
