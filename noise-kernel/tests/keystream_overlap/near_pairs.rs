//! Pairs of draws that are nearly the same: a million by default, 10⁸ with RUSTLE_LONG=1.

use super::{Draw, Tuple, any, any_row, any_tuple, many};
use dice::Dice;
use rayon::prelude::*;

/// Pairs of one task, from dice of its own.
const TASK: u64 = 50_000;

type Change = fn(&mut Tuple, &mut Dice);

const CHANGES: [(&str, Change); 17] = [
    ("another row", |t, dice| t.row = any_row(dice)),
    ("another coordinate", |t, dice| t.index = any(dice)),
    ("another coordinate of the block", |t, dice| t.index ^= dice.below(512)),
    ("another branch", |t, dice| t.branch = any(dice)),
    ("the next row", |t, _| t.row = t.row.wrapping_add(1) % (1 << 60)),
    ("the next coordinate", |t, _| t.index = t.index.wrapping_add(1)),
    ("the next block", |t, _| t.index = t.index.wrapping_add(512)),
    ("the next branch", |t, _| t.branch = t.branch.wrapping_add(1)),
    ("a bit of the row", |t, dice| t.row ^= 1 << dice.below(60)),
    ("a bit of the coordinate", |t, dice| t.index ^= 1 << dice.below(64)),
    ("a bit of the branch", |t, dice| t.branch ^= 1 << dice.below(64)),
    ("a bit of the job's key", |t, dice| flip(&mut t.secret, dice)),
    ("a bit of the plan's digest", |t, dice| flip(&mut t.digest, dice)),
    ("a bit of the job's nonce", |t, dice| flip(&mut t.job_nonce, dice)),
    ("a bit of the dimension", |t, dice| t.dimension ^= 1 << dice.below(40)),
    ("row and coordinate changed places", |t, _| {
        (t.row, t.index) = (t.index % (1 << 60), t.row);
    }),
    ("row and branch changed places", |t, _| (t.row, t.branch) = (t.branch % (1 << 60), t.row)),
];

fn flip(bytes: &mut [u8; 32], dice: &mut Dice) {
    bytes[dice.below(32) as usize] ^= 1 << dice.below(8);
}

/// Numbers of pairs: all, those of one key and stream, and the halves of one pair of words.
#[derive(Clone, Copy, Default)]
struct PairCounts {
    pairs: u64,
    in_one_stream: u64,
    halves: u64,
}

impl PairCounts {
    fn count(&mut self, one: &Tuple, two: &Tuple) {
        let [first, second] = [one, two].map(|t| Draw::of(&t.stream(), t.row, t.index));
        self.pairs += 1;
        self.in_one_stream += u64::from((first.key, first.stream) == (second.key, second.stream));
        if first.overlaps(&second) {
            assert!(one.is_mate(two), "{one:?} and {two:?} share words: {first:?}, {second:?}");
            assert_eq!(first.words, second.words);
            assert_ne!(first.is_sine, second.is_sine);
            self.halves += 1;
        } else {
            assert!(!one.is_mate(two), "{one:?} and {two:?} are a pair and share nothing");
        }
    }

    fn and(mut self, other: PairCounts) -> PairCounts {
        self.pairs += other.pairs;
        self.in_one_stream += other.in_one_stream;
        self.halves += other.halves;
        self
    }
}

fn task(seed: u64) -> [PairCounts; CHANGES.len()] {
    let mut dice = Dice::named(seed, "near draws");
    let mut seen = [PairCounts::default(); CHANGES.len()];
    while seen.iter().map(|seen| seen.pairs).sum::<u64>() < TASK {
        let one = any_tuple(&mut dice);
        let kind = dice.below(CHANGES.len() as u64) as usize;
        let mut two = one.clone();
        CHANGES[kind].1(&mut two, &mut dice);
        if one != two {
            seen[kind].count(&one, &two);
        }
    }
    seen
}

#[test]
fn no_two_draws_that_are_nearly_the_same_share_a_word() {
    let tasks = many(1_000_000, 100_000_000) / TASK;
    let none = || [PairCounts::default(); CHANGES.len()];
    let all = (0..tasks).into_par_iter().map(task);
    let all = all.reduce(none, |one, two| std::array::from_fn(|kind| one[kind].and(two[kind])));
    for ((name, _), seen) in CHANGES.iter().zip(all) {
        let PairCounts { pairs, in_one_stream, halves } = seen;
        println!("{name}: {pairs} pairs, {in_one_stream} in one stream, {halves} the halves of one pair");
        assert!(pairs > 0, "{name}");
    }
    let PairCounts { pairs, in_one_stream, halves } =
        all.into_iter().fold(PairCounts::default(), PairCounts::and);
    println!("{pairs} pairs, {in_one_stream} in one stream, {halves} halves of one pair, 0 overlaps");
    assert_eq!(pairs, tasks * TASK);
    assert!(in_one_stream * 4 > pairs && halves * 1_000 > pairs);
}
