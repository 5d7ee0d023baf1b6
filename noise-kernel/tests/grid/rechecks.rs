//! Rows that are made again on another backend: right ones pass, a bit that differs is found.

use noise_kernel::{Backend, KernelError, Recheck, RowGenerator};

use crate::cases::cases;

const START: u64 = 300;
const RANGE: std::ops::Range<u64> = START..1_700;

fn made(generator: &mut RowGenerator, count: usize) -> Vec<Vec<f32>> {
    let mut rows = vec![vec![0f32; (RANGE.end - RANGE.start) as usize]; count];
    let mut out: Vec<&mut [f32]> = rows.iter_mut().map(Vec::as_mut_slice).collect();
    generator.generate(&mut out).unwrap();
    rows
}

fn borrowed(rows: &[Vec<f32>]) -> Vec<&[f32]> {
    rows.iter().map(Vec::as_slice).collect()
}

#[test]
fn right_rows_and_states_of_every_family_pass() {
    for case in cases() {
        let recheck = Recheck::new(Backend::Auto, 1).unwrap();
        let mut generator = RowGenerator::Integers(case.generator(RANGE));
        while generator.remaining() > 0 {
            let count = generator.remaining().min(4) as usize;
            let sample = recheck.sample(&generator).unwrap();
            let rows = made(&mut generator, count);
            recheck
                .check(sample, &generator, &borrowed(&rows))
                .unwrap_or_else(|error| panic!("{}: {error}", case.name));
        }
        recheck.ensure_sound().unwrap();
    }
}

#[test]
fn an_integer_that_is_off_by_one_is_found_and_named() {
    for case in cases() {
        let recheck = Recheck::new(Backend::Auto, 1).unwrap();
        let mut generator = RowGenerator::Integers(case.generator(RANGE));
        generator.skip(1).unwrap();
        let count = generator.remaining().min(3) as usize;
        if count == 0 {
            continue;
        }
        let sample = recheck.sample(&generator).unwrap();
        let mut rows = made(&mut generator, count);
        let value = &mut rows[count - 1][900];
        *value = f32::from_bits(value.to_bits().wrapping_add(1));
        let error = recheck.check(sample, &generator, &borrowed(&rows)).unwrap_err();
        let KernelError::WrongRow { row, coordinate, .. } = error else { panic!("{error}") };
        assert_eq!((row, coordinate), (count as u64, START + 900), "{}", case.name);
        assert!(recheck.ensure_sound().is_err());
    }
}
