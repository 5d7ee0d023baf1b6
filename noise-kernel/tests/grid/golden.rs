//! Frozen vectors of docs/grid-stream.md, which `tools/grid_vectors.py` makes. A change here is a new version.

use crate::cases::{Case, DEVIATION, all_rows, banded, blt, branch_key, tree};
use noise_kernel::grid::{GridDeviations, GridFamily, GridGenerator, GridInverse};
use noise_kernel::{Backend, BranchKey, Rounds, RowKeys};
use sha2::{Digest, Sha256};

const SPECIFICATION: &str = include_str!("../../../docs/grid-stream.md");
/// The page that the second branch key stands on.
const STREAM: &str = include_str!("../../../docs/noise-stream.md");
/// The coordinates of all vectors.
const COORDINATES: [usize; 8] = [0, 1, 2, 3, 16, 17, 511, 512];
const THETA: [f64; 4] = [0.875, 0.5, 0.25, 0.125];
const OMEGA: [f64; 4] = [0.25, 0.125, 0.0625, 0.03125];

#[test]
fn the_specification_has_these_vectors() {
    let own = include_str!("golden.rs");
    let is_vector = |s: &&str| s.len() >= 40 && s.chars().all(|c| " -".contains(c) || c.is_ascii_hexdigit());
    let vectors: Vec<&str> = own.split('"').filter(is_vector).collect();
    assert_eq!(vectors.len(), 5 + 5 + 7 + 1);
    for vector in vectors {
        assert!(SPECIFICATION.contains(vector) || STREAM.contains(vector), "{vector}");
    }
}

fn case(name: &str, family: GridFamily, n: u64) -> Case {
    Case::new(name, family, GridDeviations::Every(DEVIATION), n)
}

/// The vectors' coordinates of a row.
fn picked(row: &[i32]) -> String {
    COORDINATES.map(|i| row[i].to_string()).join(" ")
}

fn digest(rows: &[Vec<i32>]) -> String {
    let mut hash = Sha256::new();
    for row in rows {
        COORDINATES.iter().for_each(|&i| hash.update(row[i].to_le_bytes()));
    }
    hex::encode(hash.finalize())
}

/// A family, its SHA-256 over 8 rows, and one row of it.
fn families() -> Vec<(Case, &'static str, usize, &'static str)> {
    vec![
        (
            case("identity", GridFamily::Identity, 8),
            "2768b0c3aec0a7a614bfd6fe4ffd36ea965afc29f99c08a0680a0ac3698132d3",
            1,
            "-4054634 -16836868 19929175 21355579 13178211 27017949 671284 22572967",
        ),
        (
            case("blt", blt(&THETA, &OMEGA), 8),
            "0b4746f19ec298e4dc1cae3a51bdb94c06e1d2bef5205df7fcff45d69f5fc69f",
            5,
            "-18832448 5707099 -1869032 9309780 19675126 -13320476 925479 -35462642",
        ),
        (
            case("banded", banded(&[0.5, 0.375]), 8),
            "75e6721f9b9edf1ab874f89fc5d769b3feb76a649bc5ae6d4ff64023efe6e556",
            5,
            "-22642535 -3371612 -144446 10379827 26577708 -17007902 -773762 -37605006",
        ),
        (
            case("inverse", GridFamily::Inverse(GridInverse::Toeplitz(vec![1.0, -0.5, -0.125])), 8),
            "dc293a65d2a03032d8683404326c7c34b5e989047ae6c539f80600d2e17b7e4b",
            5,
            "-18697788 4639595 25541 11269094 21102390 -12223976 72027 -34746830",
        ),
        (
            case("tree", tree(&[(8, 0)]).0, 8),
            "75c4d85d1973f20bafe5f0fc88eb878392c7c2eedcaf9760f0b377e08ef94303",
            7,
            "15245986 16265370 -31929371 -7325078 -7548447 -11359411 -2756324 -4779015",
        ),
    ]
}

#[test]
fn every_family_on_every_backend() {
    for (case, expected, row, values) in families() {
        for backend in Backend::available() {
            let rows = all_rows(&mut case.on(backend, 0..513), || 3);
            assert_eq!(picked(&rows[row]), values, "{} on {backend}", case.name);
            assert_eq!(digest(&rows), expected, "{} on {backend}", case.name);
        }
    }
}

#[test]
fn the_oracle_has_them_too() {
    for (case, expected, _, _) in families() {
        let oracle = case.oracle();
        let mut hash = Sha256::new();
        let columns = COORDINATES.map(|i| oracle.rows(0..8, i as u64..i as u64 + 1).unwrap());
        for row in 0..8 {
            columns.iter().for_each(|column| hash.update(column[row][0].to_le_bytes()));
        }
        assert_eq!(hex::encode(hash.finalize()), expected, "{}", case.name);
    }
}

fn rows_of(case: &Case, keys: &RowKeys, rounds: Rounds) -> Vec<Vec<i32>> {
    let stream = case.mechanism.stream(keys, rounds);
    all_rows(&mut GridGenerator::new(stream, case.mechanism.clone(), 0..513).unwrap(), || 3)
}

#[test]
fn twelve_rounds_and_deviations_by_row() {
    let keys = RowKeys::from(branch_key());
    let short = case("identity", GridFamily::Identity, 3);
    let expected = "98c04f4f547ca3bb8aa04123eaee798c33c0dfab182b2b0764bc1a80c1e020e5";
    assert_eq!(digest(&rows_of(&short, &keys, Rounds::Twelve)), expected);
    let rising = || GridDeviations::PerRow((0..8).map(|t| DEVIATION * (1.0 + f64::from(t) / 64.0)).collect());
    let inverse = GridFamily::Inverse(GridInverse::Toeplitz(vec![1.0, -0.5, -0.125]));
    for (family, expected) in [
        (blt(&THETA, &OMEGA), "27bf38388dde125f46bce0ac768520ccd5bd81fc5cecb207cf721252e5de5644"),
        (banded(&[0.5, 0.375]), "ab8aecd9dd7d07b81f2bb856292b947cbdf82ddd08fbfbdc070e5d9b343d4ad1"),
        (inverse, "15b7cd348e5277d19fac240ebdb32612aa6f32af037f8021639df3be6d3374d9"),
    ] {
        let case = Case::new("rising", family, rising(), 8);
        assert_eq!(digest(&rows_of(&case, &keys, Rounds::Twenty)), expected);
    }
}

#[test]
fn completed_trees_and_lineages() {
    let mut second = [0; 32];
    let hex = "9e2af2d53da639278eb2500af3e5a4a54228d157d863256ad140e97c8644f231";
    hex::decode_to_slice(hex, &mut second).unwrap();
    let rewound = RowKeys::from_keys(vec![(0, branch_key()), (2, BranchKey::from_array(second))]).unwrap();
    let plain = RowKeys::from(branch_key());
    let (family, n) = tree(&[(5, 3), (6, 0)]);
    let trees = case("trees", family, n);
    let blt = case("blt", blt(&THETA, &OMEGA), 8);
    for (case, keys, expected) in [
        (&trees, &plain, "badc6bd9e1c7b8f7a318742d8e0752441f8033ccde773b6a2f5b93e776cda67c"),
        (&trees, &rewound, "9202ab6e2243d7773968a0ab474f479e169909562aef34eb8159e50a4bc7c19e"),
        (&blt, &rewound, "aad8c19fe9fa3e268f3cb69fe66e615260c005a77d19a9ac5c681103108abf98"),
    ] {
        assert_eq!(digest(&rows_of(case, keys, Rounds::Twenty)), expected, "{}", case.name);
    }
}
