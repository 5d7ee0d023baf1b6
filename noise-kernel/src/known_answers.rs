//! Rows that every processor must make alike, compared with the digests of docs/noise-stream.md and docs/grid-stream.md.

use crate::grid::{GridDeviations, GridFamily, GridGenerator, GridMechanism, GridRowError};
use crate::{Backend, BranchKey, Generator, KernelError, Rounds, Stream};
use plan::{BandRows, Banded, Coefficients, Inverse, Tree, TreeSegment};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// The branch key of section 8 of docs/noise-stream.md, and of docs/grid-stream.md.
const KEY: [u8; 32] = [
    0x31, 0xcc, 0x91, 0x3d, 0x4a, 0x03, 0x40, 0x7c, 0xc1, 0xb5, 0xb1, 0x7f, 0x62, 0x60, 0xfe, 0xb0, 0x1a,
    0xdb, 0x41, 0x34, 0xe9, 0xb0, 0x4c, 0x2b, 0xe9, 0x5e, 0x0f, 0xe5, 0x3c, 0xf4, 0xf3, 0xf3,
];
/// The coordinates that the digests of rows on a grid cover.
const ON_GRID: [usize; 8] = [0, 1, 2, 3, 16, 17, 511, 512];
/// The digest of the rows on a grid, at these coordinates.
const GRID: &str = "0b4746f19ec298e4dc1cae3a51bdb94c06e1d2bef5205df7fcff45d69f5fc69f";
/// Rows of one call.
const AT_ONCE: usize = 3;

/// A mechanism, the number of its rows, and their SHA-256.
type KnownRows = (&'static str, Coefficients, u64, Rounds, &'static str);

/// Makes rows of known noise on a backend, on the calling thread's core where that is pinned, and compares them with
/// what is specified. It takes some milliseconds.
///
/// # Errors
/// [`KernelError::KnownAnswer`] for other rows, [`KernelError::Backend`] for a backend that this processor does not have.
pub fn check_known_answers(backend: Backend) -> Result<(), KernelError> {
    mechanisms().into_iter().try_for_each(|known| check(backend, known))?;
    check_grid(backend)
}

fn mechanisms() -> [KnownRows; 6] {
    let scales = (0..40u8).map(|t| 1.0 + f32::from(t) / 64.0).collect();
    let rows = BandRows::Toeplitz { lags: vec![0.5, 0.375], inverse_diagonal: 1.0 };
    let segments = vec![
        TreeSegment { start: 0, rows: 5, virtual_steps: 3 },
        TreeSegment { start: 5, rows: 6, virtual_steps: 0 },
    ];
    [
        (
            "identity mechanism",
            Coefficients::Identity,
            3,
            Rounds::Twenty,
            "5f678a50d9b610233c8157de8677f4e06b66f8d4bd08207047727c63f81941a3",
        ),
        (
            "identity mechanism of 12 rounds",
            Coefficients::Identity,
            3,
            Rounds::Twelve,
            "64265fba767a94d351ca53bd3cc98a41109dbfe901d17981c2cf825ea1febc93",
        ),
        (
            "BLT",
            Coefficients::Blt {
                theta: vec![0.875, 0.5, 0.25, 0.125],
                omega: vec![0.25, 0.125, 0.0625, 0.03125],
                output_scale: Vec::new(),
            },
            8,
            Rounds::Twenty,
            "fe8373a3e308c1fd77020b20210c78d78242b08f2dd357bcfa867d4c06990554",
        ),
        (
            "banded mechanism",
            Coefficients::Banded(Banded { bands: 3, rows, output_scale: scales }),
            40,
            Rounds::Twenty,
            "e8f7f07a7893d03b965fbe1751415f6be6b2d0c5cd5bca3d5579fc11be20784d",
        ),
        (
            "mechanism banded in C⁻¹",
            Coefficients::Inverse(Inverse::Toeplitz { coefficients: vec![1.0, -0.5, -0.125] }),
            40,
            Rounds::Twenty,
            "38816a2604c2b72327ace88d1a0b0c916cdd5817679360da8a3f49eb68088acc",
        ),
        (
            "tree",
            Coefficients::Tree(Tree { segments }),
            11,
            Rounds::Twenty,
            "14a75719f59268600d43d827b5995a7626f0eb0c1e18e4ae0769f35ccacd10b9",
        ),
    ]
}

fn check(
    backend: Backend,
    (what, coefficients, iterations, rounds, expected): KnownRows,
) -> Result<(), KernelError> {
    let stream = Stream::new(&BranchKey::from_array(KEY), rounds).with_backend(backend)?;
    let range = 100..1_300;
    let mut rows = vec![vec![0f32; 1_200]; AT_ONCE];
    let mut generator = Generator::new(stream, Arc::new(coefficients), iterations, 1.5, range)?;
    let mut hash = Sha256::new();
    while generator.remaining() > 0 {
        let count = generator.remaining().min(AT_ONCE as u64) as usize;
        let mut out: Vec<&mut [f32]> = rows[..count].iter_mut().map(Vec::as_mut_slice).collect();
        generator.generate(&mut out)?;
        rows[..count].iter().flatten().for_each(|value| hash.update(value.to_le_bytes()));
    }
    compare(backend, what, hash, expected)
}

fn check_grid(backend: Backend) -> Result<(), KernelError> {
    let family =
        GridFamily::Blt { theta: vec![0.875, 0.5, 0.25, 0.125], omega: vec![0.25, 0.125, 0.0625, 0.03125] };
    let of_kernel = |error: GridRowError| match error {
        GridRowError::Argument(error) => error,
        // The vectors' rows fit i32: a processor that finds another computes wrongly.
        other => wrong(backend, "BLT on a grid", other.to_string(), GRID),
    };
    let mechanism = GridMechanism::new(family, GridDeviations::Every(15_099_494.4), 8)?;
    let stream = Stream::new(&BranchKey::from_array(KEY), Rounds::Twenty).with_backend(backend)?;
    let mut generator = GridGenerator::new(stream, Arc::new(mechanism), 0..513)?;
    let mut hash = Sha256::new();
    let mut row = vec![0i32; 513];
    while generator.remaining() > 0 {
        generator.generate(&mut [&mut row]).map_err(of_kernel)?;
        ON_GRID.iter().for_each(|&at| hash.update(row[at].to_le_bytes()));
    }
    compare(backend, "BLT on a grid", hash, GRID)
}

fn compare(
    backend: Backend,
    what: &'static str,
    hash: Sha256,
    expected: &'static str,
) -> Result<(), KernelError> {
    let got: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if got == expected { Ok(()) } else { Err(wrong(backend, what, got, expected)) }
}

fn wrong(backend: Backend, what: &'static str, got: String, expected: &'static str) -> KernelError {
    KernelError::KnownAnswer { backend, what, got, expected }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Oracle;

    #[test]
    fn every_backend_of_this_processor_has_them() {
        for backend in Backend::available() {
            check_known_answers(backend).expect("a sound processor");
        }
    }

    /// The vectors of documents, and the one of 12 rounds that no document has.
    #[test]
    fn they_are_the_oracles() {
        for (what, coefficients, iterations, rounds, expected) in mechanisms() {
            let key = BranchKey::from_array(KEY);
            let oracle =
                Oracle::new(key, rounds, Arc::new(coefficients), iterations, 1.5).expect("coefficients");
            let rows = oracle.rows(0..iterations, 100..1_300).expect("rows");
            let mut hash = Sha256::new();
            rows.iter().flatten().for_each(|value| hash.update(value.to_le_bytes()));
            compare(Backend::Portable, what, hash, expected).expect("the oracle's rows");
        }
    }

    #[test]
    fn another_bit_is_an_error_that_names_the_backend() {
        let [mut known, ..] = mechanisms();
        known.4 = "00";
        let error = check(Backend::Portable, known).expect_err("another digest");
        let text = error.to_string();
        assert!(text.contains("portable") && text.contains("identity") && text.contains("not 00"), "{text}");
    }
}
