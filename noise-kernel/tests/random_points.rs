//! Random keystreams and random points of rows, on every instruction set this processor has: 10⁴ by default, 10⁶ with
//! RUSTLE_LONG=1.

#![allow(clippy::unwrap_used)]

mod common;

use common::{Case, Choices, all_rows, bits, cases};
use noise_kernel::{Backend, BranchKey, Generator, Oracle, Rounds, Stream};
use rand_chacha::{ChaCha12Rng, ChaCha20Rng};
use rand_core::{Rng, SeedableRng};
use rayon::ThreadPoolBuilder;
use std::ops::Range;

fn many() -> u64 {
    if std::env::var_os("RUSTLE_LONG").is_some() { 1_000_000 } else { 10_000 }
}

fn any_key(choices: &mut Choices) -> BranchKey {
    BranchKey::from_array(std::array::from_fn(|_| choices.bits() as u8))
}

/// A number of any length, as likely near a power of two as not.
fn any(choices: &mut Choices) -> u64 {
    let number = choices.bits() >> choices.below(64);
    match choices.below(4) {
        0 => number,
        1 => number << choices.below(64),
        2 => (1 << choices.below(64)) + choices.below(3),
        _ => (1u64 << choices.below(64)).wrapping_sub(choices.below(3)),
    }
}

/// The same words of `rand_chacha`, in the order of [`Stream::keystream`].
macro_rules! words {
    ($rng:ty, $key:expr, $number:expr, $first:expr) => {{
        let mut rng = <$rng>::from_seed($key);
        rng.set_stream($number);
        rng.set_word_pos(u128::from($first) * 16);
        let mut words = [[0u32; 16]; 16];
        for lane in 0..16 {
            words.iter_mut().for_each(|word| word[lane] = rng.next_u32());
        }
        words
    }};
}

/// A draw is 16 ChaCha blocks. Blocks to 2⁶⁰ hold normals' own words, those from 2⁶³, which is word 2⁶⁷, their
/// extensions: all counters there are, so that nothing between is left out.
#[test]
fn random_keystreams_of_every_backend_are_rand_chachas() {
    for backend in Backend::available() {
        let mut choices = Choices(21);
        let mut highest = 0;
        for _ in 0..many() {
            let key = any_key(&mut choices);
            let number = any(&mut choices);
            let first = any(&mut choices) & !15;
            let rounds = if choices.below(2) == 0 { Rounds::Twenty } else { Rounds::Twelve };
            let expected = match rounds {
                Rounds::Twenty => words!(ChaCha20Rng, *key.secret_bytes(), number, first),
                Rounds::Twelve => words!(ChaCha12Rng, *key.secret_bytes(), number, first),
            };
            let stream = Stream::new(&key, rounds).with_backend(backend).unwrap();
            let mut ours = [[f32::NAN; 16]; 16];
            stream.keystream(number, first, &mut ours);
            let equal = ours.map(|word| word.map(f32::to_bits)) == expected;
            assert!(equal, "{backend}, {rounds:?}, stream {number}, block {first}");
            highest = highest.max(first);
        }
        println!("{backend}: {} draws to word {}, 0 differ", many(), (u128::from(highest) + 16) * 16);
        assert_eq!(highest, u64::MAX - 15);
    }
}

/// Points of the rows of one case, key and range that are looked at.
const POINTS: u64 = 64;

/// Rows from a random one on, some at a time, of a random range.
struct Part<'a> {
    case: &'a Case,
    key: BranchKey,
    rounds: Rounds,
    backend: Backend,
    first_row: u64,
    range: Range<u64>,
}

impl<'a> Part<'a> {
    fn any(cases: &'a [Case], backends: &[Backend], choices: &mut Choices) -> Self {
        let case = &cases[choices.below(cases.len() as u64) as usize];
        let width = 1 + choices.below(1_200);
        let start = any(choices).min(u64::MAX - width);
        Self {
            case,
            key: any_key(choices),
            rounds: if choices.below(4) == 0 { Rounds::Twelve } else { Rounds::Twenty },
            backend: backends[choices.below(backends.len() as u64) as usize],
            first_row: choices.below(case.iterations),
            range: start..start + width,
        }
    }

    fn streamed(&self, choices: &mut Choices) -> Vec<Vec<f32>> {
        let stream = Stream::new(&self.key, self.rounds).with_backend(self.backend).unwrap();
        let mut generator: Generator = self.case.generator(stream, 1.375, self.range.clone());
        generator.skip(self.first_row).unwrap();
        all_rows(&mut generator, || 1 + choices.below(20) as usize)
    }

    fn recomputed(&self) -> Vec<Vec<f32>> {
        let coefficients = self.case.coefficients.clone();
        let n = self.case.iterations;
        let oracle = Oracle::new(self.key.clone(), self.rounds, coefficients, n, 1.375).unwrap();
        oracle.rows(self.first_row..n, self.range.clone()).unwrap()
    }
}

#[test]
fn random_points_of_every_mechanism_are_the_oracles() {
    let pools = [1, 2, 3].map(|n| ThreadPoolBuilder::new().num_threads(n).build().unwrap());
    let cases = cases();
    let backends = Backend::available();
    let mut choices = Choices(22);
    let mut points = 0;
    let mut values = 0;
    let mut parts = 0;
    while points < many() {
        let part = Part::any(&cases, &backends, &mut choices);
        let pool = &pools[choices.below(3) as usize];
        let streamed = bits(&pool.install(|| part.streamed(&mut choices)));
        let recomputed = bits(&part.recomputed());
        let Part { case, backend, first_row, range, .. } = &part;
        for _ in 0..POINTS {
            let row = choices.below(recomputed.len() as u64) as usize;
            let at = choices.below(range.end - range.start) as usize;
            let equal = streamed[row][at] == recomputed[row][at];
            let row = first_row + row as u64;
            let index = range.start + at as u64;
            assert!(equal, "{} on {backend}, row {row}, coordinate {index}", case.name);
        }
        assert!(streamed == recomputed, "{} on {backend}, rows from {first_row}, {range:?}", case.name);
        points += POINTS;
        values += recomputed.iter().map(Vec::len).sum::<usize>();
        parts += 1;
    }
    println!("{points} points of {parts} parts of rows, all their {values} values the oracle's");
}
