//! Wrong input is refused with a named value, and changes nothing.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Case, banded, blt, branch_key, stream};
use noise_kernel::{Backend, Generator, JobKey, KernelError, Oracle, Rounds};
use plan::{BandRows, Banded, Coefficients, Inverse, Tree, TreeSegment};
use std::sync::Arc;

fn made(coefficients: Coefficients, n: u64) -> Result<Generator, KernelError> {
    Generator::new(stream(), Arc::new(coefficients), n, 1.0, 0..100)
}

#[test]
fn rows_past_the_last_are_refused_and_nothing_changes() {
    let mut generator = Case::new("blt", 5, blt(2)).generator(stream(), 1.0, 0..100);
    generator.skip(3).unwrap();
    let before = generator.state().to_vec();
    let mut rows = vec![vec![7.0f32; 100]; 3];
    let mut buffers: Vec<&mut [f32]> = rows.iter_mut().map(|r| &mut r[..]).collect();
    let beyond = KernelError::RowBeyondIterations { row: 5, iterations: 5 };
    assert_eq!(generator.generate(&mut buffers), Err(beyond.clone()));
    assert_eq!(generator.skip(3), Err(beyond.clone()));
    assert_eq!(generator.skip(u64::MAX), Err(beyond));
    let mut short = [0.0; 99];
    let wrong = KernelError::BufferLength { index: 0, got: 99, expected: 100 };
    assert_eq!(generator.generate(&mut [&mut short[..]]), Err(wrong));
    assert!(rows.iter().flatten().all(|&v| v == 7.0));
    assert_eq!((generator.state(), generator.next_row(), generator.remaining()), (&before[..], 3, 2));
    assert_eq!(generator.generate(&mut []), Ok(()));
}

#[test]
fn coefficients_that_do_not_fit_are_refused() {
    let blt = |theta: &[f32], omega: &[f32]| Coefficients::Blt {
        theta: theta.into(),
        omega: omega.into(),
        output_scale: Vec::new(),
    };
    let tree = |start, rows, virtual_steps| {
        Coefficients::Tree(Tree { segments: vec![TreeSegment { start, rows, virtual_steps }] })
    };
    let refused = [
        blt(&[], &[]),
        blt(&[0.5], &[0.1, 0.1]),
        blt(&[f32::NAN], &[0.1]),
        blt(&[0.5], &[f32::INFINITY]),
        banded(5, 9),
        Coefficients::Inverse(Inverse::Toeplitz { coefficients: vec![] }),
        Coefficients::Inverse(Inverse::Toeplitz { coefficients: vec![1e-45] }),
        Coefficients::Inverse(Inverse::Dense { rows: vec![1.0; 54] }),
        Coefficients::Inverse(Inverse::Dense { rows: (0..55).map(|i| f32::from(i != 54)).collect() }),
        Coefficients::Inverse(Inverse::Dense { rows: (0..55).map(|i| f32::from(i != 2)).collect() }),
        Coefficients::Banded(Banded {
            bands: 1,
            rows: BandRows::Toeplitz { lags: vec![], inverse_diagonal: 3e38 },
            output_scale: vec![],
        }),
        Coefficients::Tree(Tree { segments: vec![] }),
        tree(1, 10, 0),
        tree(0, 9, 0),
        tree(0, 11, 0),
        tree(0, 10, 5),
        tree(0, 10, u64::MAX),
    ];
    for coefficients in refused {
        let error = made(coefficients.clone(), 10).err().unwrap();
        assert!(matches!(error, KernelError::Coefficients { .. }), "{coefficients:?}: {error}");
        assert!(Oracle::new(branch_key(), Rounds::Twenty, Arc::new(coefficients), 10, 1.0).is_err());
    }
    assert!(made(Coefficients::Identity, 0).is_err());
    assert!(made(tree(0, 10, 6), 10).is_ok());
}

#[test]
fn ranges_scales_states_and_keys_are_checked() {
    let new = |range, scale| Generator::new(stream(), Arc::new(blt(1)), 10, scale, range);
    assert_eq!(new(5..5, 1.0).err(), Some(KernelError::EmptyRange { start: 5, end: 5 }));
    #[allow(clippy::reversed_empty_ranges)]
    let reversed = new(6..5, 1.0);
    assert_eq!(reversed.err(), Some(KernelError::EmptyRange { start: 6, end: 5 }));
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        assert!(matches!(new(0..5, scale).err(), Some(KernelError::Scale { .. })));
    }
    assert!(matches!(new(0..u64::MAX, 1.0).err(), Some(KernelError::TooLarge { .. })));
    let restore = |length, row| {
        Generator::restore(stream(), Arc::new(blt(1)), 10, 1.0, 0..513, row, &[&vec![0.0; length]])
    };
    assert_eq!(restore(1_023, 0).err(), Some(KernelError::StateLength { got: 1_023, expected: 1_024 }));
    assert!(matches!(restore(1_024, 11).err(), Some(KernelError::RowBeyondIterations { .. })));
    assert_eq!(restore(1_024, 10).unwrap().remaining(), 0);
    for length in [0, 31, 33] {
        assert!(matches!(JobKey::from_bytes(&vec![1; length]), Err(KernelError::KeyLength { .. })));
    }
    let foreign = if cfg!(target_arch = "aarch64") { Backend::Avx2 } else { Backend::Neon };
    let error = stream().with_backend(foreign).err().unwrap().to_string();
    assert!(
        error.contains(&format!("{foreign} is not available")) && error.contains("auto, portable"),
        "{error}"
    );
    let error = "gpu".parse::<Backend>().unwrap_err().to_string();
    assert!(error.contains("gpu") && error.contains("avx512, neon"), "{error}");
    assert_eq!(
        format!("{:?} {:?}", JobKey::from_bytes(&[9; 32]).unwrap(), branch_key()),
        "JobKey(secret) BranchKey(secret)"
    );
}
