//! Arguments that are refused, and rows that can't be.

use crate::cases::{Case, banded, blt, cases, square_root, stream, tree};
use noise_kernel::KernelError;
use noise_kernel::grid::{
    GridDeviations, GridElement, GridFamily, GridGenerator, GridInverse, GridMechanism, GridRowError,
    GridSnapshot,
};
use std::sync::Arc;

fn refused(family: GridFamily, deviations: GridDeviations, n: u64) -> String {
    match GridMechanism::new(family, deviations, n) {
        Ok(_) => panic!("it was not refused"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn coefficients_that_do_not_fit_are_refused() {
    let every = || GridDeviations::Every(100.0);
    let inverse = |coefficients: &[f64]| GridFamily::Inverse(GridInverse::Toeplitz(coefficients.to_vec()));
    for (family, n, part) in [
        (GridFamily::Identity, 0, "the number of rows is 0"),
        (blt(&[], &[]), 5, "the number of BLT buffers is 0"),
        (blt(&[0.5], &[0.5, 0.25]), 5, "the number of BLT output weights is 2, but must be 1"),
        (blt(&[1.5], &[0.5]), 5, "a BLT decay is 1.5, but must be from −1 to 1"),
        (blt(&[f64::NAN], &[0.5]), 5, "a BLT decay is NaN"),
        (blt(&[0.5], &[f64::INFINITY]), 5, "a BLT output weight is inf"),
        (banded(&[0.5, 0.3]), 5, "a lag is 0.3, but must be a multiple of 2^-22"),
        (banded(&[0.5, 2f64.powi(-23)]), 5, "a multiple of 2^-22"),
        (banded(&[1.0, 2f64.powi(-22)]), 5, "a multiple of 2^-21"),
        (inverse(&[]), 5, "the number of inverse coefficients is 0"),
        (inverse(&[0.0, 1.0]), 5, "the diagonal of the inverse is 0"),
        (inverse(&[1.0, 1e-30]), 5, "an inverse coefficient is 0.000"),
        (GridFamily::Inverse(GridInverse::Dense(vec![1.0; 5])), 3, "is 5, but must be 6"),
        (tree(&[(4, 3)]).0, 4, "a completed tree is 7"),
    ] {
        let error = refused(family, every(), n);
        assert!(error.contains(part), "{error}");
    }
    assert!(GridMechanism::new(banded(&[0.5, 2f64.powi(-22)]), every(), 5).is_ok());
    assert!(GridMechanism::new(square_root(40), every(), 5).is_ok());
}

#[test]
fn deviations_that_do_not_fit_are_refused() {
    for bad in [0.0, 0.5, -3.0, f64::NAN, 166_000_000.0, f64::INFINITY] {
        let error = refused(GridFamily::Identity, GridDeviations::Every(bad), 5);
        assert!(error.contains("must be from 1 to 165191050"), "{error}");
    }
    let short = GridDeviations::PerRow(vec![64.0; 4]);
    assert!(refused(GridFamily::Identity, short, 5).contains("is 4, but must be 5"));
    let rows = GridDeviations::PerRow(vec![64.0; 4]);
    assert!(refused(tree(&[(4, 0)]).0, rows, 4).contains("the same for all nodes"));
}

#[test]
fn rows_past_the_last_and_wrong_buffers_change_nothing() {
    for case in cases() {
        let n = case.mechanism.iterations();
        let mut generator = case.generator(0..600);
        let mut short = vec![0; 599];
        let error = generator.generate(&mut [&mut short]).unwrap_err();
        assert_eq!(error, KernelError::BufferLength { index: 0, got: 599, expected: 600 }.into());
        let error = generator.skip(n + 1).unwrap_err();
        assert_eq!(error, KernelError::RowBeyondIterations { row: n, iterations: n }.into());
        assert_eq!(generator.next_row(), 0);
        generator.skip(n).unwrap();
        assert_eq!(generator.remaining(), 0);
        assert!(case.oracle().rows(0..n + 1, 0..1).is_err());
    }
}

#[test]
fn states_of_another_type_or_length_are_refused() {
    let case = &cases()[1];
    let restored = |snapshot: &GridSnapshot| {
        GridGenerator::restore(stream(), case.mechanism.clone(), 0..512, snapshot).map(|_| ())
    };
    let mut snapshot = case.generator(0..512).snapshot().unwrap();
    assert_eq!((snapshot.element, snapshot.bytes.len()), (GridElement::F64, 4_096));
    assert!(restored(&snapshot).is_ok());
    assert!(!format!("{snapshot:?}").contains("0, 0"), "bytes of a state are shown");
    snapshot.element = GridElement::I32;
    let error = restored(&snapshot).unwrap_err().to_string();
    assert_eq!(error, "the state's values are i32, but this mechanism's are f64");
    snapshot.element = GridElement::F64;
    snapshot.bytes.pop();
    assert!(matches!(restored(&snapshot), Err(GridRowError::Argument(KernelError::StateLength { .. }))));
    snapshot.next_row = 99;
    assert!(matches!(
        restored(&snapshot),
        Err(GridRowError::Argument(KernelError::RowBeyondIterations { .. }))
    ));
}

/// A mechanism whose rows grow without bound: the first value past 2³¹ ends it, and the oracle says the same.
#[test]
fn a_row_out_of_range_is_an_error_and_the_last() {
    let family = || banded(&[-4.0]);
    let case = Case::new("growing", family(), GridDeviations::Every(1e8), 60);
    let mut generator = case.generator(0..1_024);
    let error = generator.skip(60).unwrap_err();
    let GridRowError::RowOutOfRange { row, coordinate, value } = error else { panic!("{error}") };
    assert!(
        value.unsigned_abs() > i32::MAX as u128 && error.to_string().starts_with("row_out_of_range: row ")
    );
    assert!((1..6).contains(&row), "{error}");
    assert_eq!(case.oracle().rows(0..row + 1, coordinate..coordinate + 1).unwrap_err(), error);
    assert_eq!(generator.skip(1).unwrap_err(), GridRowError::Failed(Box::new(error.clone())));
    assert!(generator.snapshot().is_err());
    // Any number of rows at once, the portable way too.
    let mechanism = Arc::new(GridMechanism::new(family(), GridDeviations::Every(1e8), 60).unwrap());
    let portable = stream().with_backend(noise_kernel::Backend::Portable).unwrap();
    let mut other = GridGenerator::new(portable, mechanism, 0..1_024).unwrap();
    let mut rows = vec![vec![0; 1_024]; 60];
    let mut rows: Vec<&mut [i32]> = rows.iter_mut().map(|row| &mut row[..]).collect();
    assert_eq!(other.generate(&mut rows).unwrap_err(), error);
}
