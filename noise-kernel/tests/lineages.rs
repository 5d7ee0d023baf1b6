//! Rows of a rewound job: each has the noise of its branch, bit for bit that of the oracle.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Case, all_rows, bits, cases};
use noise_kernel::{Generator, History, JobKey, NoiseContext, Oracle, Rounds, RowKeys, Stream};
use std::ops::Range;

const SCALE: f32 = 1.375;
const PART: Range<u64> = 300..900;

const CONTEXT: NoiseContext =
    NoiseContext { job_nonce: [3; 32], plan_digest: [1; 32], dimension: 1_300, layout_digest: [2; 32] };

/// A job rewound to row 11, then to 7 and to 30 of what came of it.
const LINEAGE: [(u64, [u8; 32]); 3] = [(0, [3; 32]), (7, [5; 32]), (30, [6; 32])];

fn row_keys(lineage: &[(u64, [u8; 32])]) -> RowKeys {
    let key = JobKey::from_bytes(&[9; 32]).unwrap();
    key.row_keys(&CONTEXT, lineage).unwrap()
}

fn made(case: &Case, lineage: &[(u64, [u8; 32])]) -> Vec<Vec<u32>> {
    let stream = Stream::of_rows(&row_keys(lineage), &case.coefficients, Rounds::Twenty);
    bits(&all_rows(&mut case.generator(stream, SCALE, PART), || 5))
}

#[test]
fn rows_of_a_lineage_are_the_oracles() {
    for case in cases() {
        let coefficients = case.coefficients.clone();
        let oracle =
            Oracle::new(row_keys(&LINEAGE), Rounds::Twenty, coefficients, case.iterations, SCALE).unwrap();
        assert!(
            made(&case, &LINEAGE) == bits(&oracle.rows(0..case.iterations, PART).unwrap()),
            "{}",
            case.name
        );
    }
}

#[test]
fn a_rewind_keeps_the_rows_before_it_and_no_row_after() {
    for case in cases() {
        let before = made(&case, &LINEAGE[..2]);
        let after = made(&case, &LINEAGE);
        let kept = before.iter().zip(&after).take_while(|(old, new)| old == new).count() as u64;
        assert_eq!(kept, case.iterations.min(30), "{}", case.name);
        let equal = before.iter().zip(&after).skip(30).filter(|(old, new)| old == new).count();
        assert_eq!(equal, 0, "{}", case.name);
    }
}

/// A checkpoint from before the rewind, restored under the new lineage.
#[test]
fn the_state_at_the_rewind_is_that_of_the_old_lineage() {
    for case in cases().into_iter().filter(|case| case.iterations > 30) {
        let old = Stream::of_rows(&row_keys(&LINEAGE[..2]), &case.coefficients, Rounds::Twenty);
        let mut before = case.generator(old, SCALE, PART);
        before.skip(30).unwrap();
        let new = Stream::of_rows(&row_keys(&LINEAGE), &case.coefficients, Rounds::Twenty);
        let coefficients = case.coefficients.clone();
        let n = case.iterations;
        let restored = Generator::restore(new, coefficients, n, SCALE, PART, 30, &[before.state()]);
        let rows = all_rows(&mut restored.unwrap().with_history(History::Keep).unwrap(), || 3);
        assert!(bits(&rows) == made(&case, &LINEAGE)[30..], "{}", case.name);
    }
}

#[test]
fn a_lineage_begins_at_row_0_and_rises() {
    let key = JobKey::from_bytes(&[9; 32]).unwrap();
    for rows in [&[][..], &[1], &[0, 0], &[0, 5, 5]] {
        let bad: Vec<_> = rows.iter().map(|row| (*row, [*row as u8; 32])).collect();
        assert!(key.row_keys(&CONTEXT, &bad).is_err(), "{rows:?}");
        let keys = bad.iter().map(|(row, nonce)| (*row, key.branch(&CONTEXT, nonce))).collect();
        assert!(RowKeys::from_keys(keys).is_err(), "{rows:?}");
    }
}
