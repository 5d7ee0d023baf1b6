//! Rows that are made again: right ones pass, a bit that differs is found and named, and nothing is sound after it.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Case, stream};
use noise_kernel::{Backend, History, KernelError, Recheck, RowGenerator};

const START: u64 = 700;
const RANGE: std::ops::Range<u64> = START..5_000;

fn made(generator: &mut RowGenerator, count: usize) -> Vec<Vec<f32>> {
    let mut rows = vec![vec![0f32; (RANGE.end - RANGE.start) as usize]; count];
    let mut out: Vec<&mut [f32]> = rows.iter_mut().map(Vec::as_mut_slice).collect();
    generator.generate(&mut out).unwrap();
    rows
}

fn borrowed(rows: &[Vec<f32>]) -> Vec<&[f32]> {
    rows.iter().map(Vec::as_slice).collect()
}

/// Makes all rows of a case, with every block checked.
fn check_case(case: &Case, made_by: Backend, history: History) {
    let recheck = Recheck::new(made_by, 1).unwrap();
    let stream = stream().with_backend(made_by).unwrap();
    let generator = case.generator(stream, 1.5, RANGE).with_history(history).unwrap();
    let mut generator = RowGenerator::Floats(generator);
    while generator.remaining() > 0 {
        let count = generator.remaining().min(7) as usize;
        let sample = recheck.sample(&generator).unwrap();
        let rows = made(&mut generator, count);
        recheck.check(sample, &generator, &borrowed(&rows)).unwrap_or_else(|error| {
            panic!("{} on {made_by}: {error}", case.name);
        });
    }
    recheck.ensure_sound().unwrap();
}

#[test]
fn right_rows_of_every_mechanism_pass_on_every_backend() {
    for case in common::cases() {
        for made_by in [Backend::Auto.resolve().unwrap(), Backend::Portable] {
            check_case(&case, made_by, History::Redraw);
        }
    }
}

#[test]
fn past_normals_that_are_kept_are_checked_by_others_that_are_drawn() {
    let case = Case::new("inverse", 60, common::inverse(9));
    check_case(&case, Backend::Auto.resolve().unwrap(), History::Auto { limit_bytes: 1 << 30 });
}

#[test]
fn a_wrong_bit_is_found_and_named_and_nothing_is_sound_after_it() {
    let case = Case::new("blt", 40, common::blt(3));
    for (row, coordinate) in [(8, 0), (10, 1_999), (11, 4_299)] {
        let recheck = Recheck::new(Backend::Auto, 1).unwrap();
        let mut generator = RowGenerator::Floats(case.generator(stream(), 1.5, RANGE));
        generator.skip(8).unwrap();
        let sample = recheck.sample(&generator).unwrap();
        let mut rows = made(&mut generator, 4);
        let value = &mut rows[row - 8][coordinate];
        *value = f32::from_bits(value.to_bits() ^ 1);
        let error = recheck.check(sample, &generator, &borrowed(&rows)).unwrap_err();
        let place = match &error {
            KernelError::WrongRow { row, coordinate, .. } => (*row as usize, *coordinate),
            other => panic!("{other}"),
        };
        assert_eq!(place, (row, START + coordinate as u64));
        assert_eq!(recheck.ensure_sound(), Err(error.clone()));
        assert_eq!(recheck.sample(&generator).err(), Some(error));
    }
}

#[test]
fn one_block_in_so_many_is_checked_beginning_with_the_first_call() {
    let case = Case::new("identity", 1_000, plan::Coefficients::Identity);
    // Nine blocks a call, one in twelve of them: calls in which a bit is wrong in every block.
    let blocks = 9;
    let mut found = Vec::new();
    for call in 0..40u64 {
        let recheck = Recheck::new(Backend::Auto, 12).unwrap();
        let mut generator = RowGenerator::Floats(case.generator(stream(), 1.5, RANGE));
        for before in 0..=call {
            let sample = recheck.sample(&generator).unwrap();
            let mut rows = made(&mut generator, 1);
            if before == call {
                rows[0].iter_mut().for_each(|value| *value = -*value);
            }
            if recheck.check(sample, &generator, &borrowed(&rows)).is_err() {
                found.push(call);
            }
        }
    }
    assert_eq!(found[0], 0);
    let expected = 40 * blocks / 12;
    assert!((expected..=expected + 1).contains(&found.len()), "{found:?}");
    let none = Recheck::new(Backend::Auto, 0).unwrap();
    let mut generator = RowGenerator::Floats(case.generator(stream(), 1.5, RANGE));
    let sample = none.sample(&generator).unwrap();
    let mut rows = made(&mut generator, 1);
    rows[0][0] += 1.0;
    none.check(sample, &generator, &borrowed(&rows)).unwrap();
}

#[test]
fn every_block_has_its_turn() {
    let case = Case::new("identity", 1_000, plan::Coefficients::Identity);
    for block in START / 512..RANGE.end.div_ceil(512) {
        let recheck = Recheck::new(Backend::Auto, 9).unwrap();
        let mut generator = RowGenerator::Floats(case.generator(stream(), 1.5, RANGE));
        let wrong = ((block * 512).max(START) - START) as usize;
        let found = (0..40).any(|_| {
            let sample = recheck.sample(&generator).unwrap();
            let mut rows = made(&mut generator, 1);
            rows[0][wrong] += 1.0;
            recheck.check(sample, &generator, &borrowed(&rows)).is_err()
        });
        assert!(found, "block {block}");
    }
}
