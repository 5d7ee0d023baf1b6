//! No two draws share a word of keystream, but for the two halves of a pair, which are made from the same words.
//!
//! A draw is a coordinate of a row of a branch of a job. The place of its words comes from the code that makes noise:
//! the key of [`JobKey`], the streams of [`Stream`] and of a tree's steps, the ChaCha blocks of `BlockAddress`. Which
//! words of those blocks a draw takes is found from the values themselves ([`words_in_block`]). Nothing else enters:
//! no shard, lease or checkpoint.
//!
//! These files are compiled into the crate as unit tests, because they read private addresses.

mod near_pairs;
mod small_box;
mod streams_of_rows;
mod words_in_block;

use crate::block::BLOCK;
use crate::{JobKey, NoiseContext, Rounds, Stream, oracle_normal};
use dice::Dice;
use plan::Coefficients;
use words_in_block::{is_coarse, keystream_words, words_in_block};

/// The nonce of a branch.
fn nonce(branch: u64) -> [u8; 32] {
    let mut nonce = [0x77; 32];
    nonce[..8].copy_from_slice(&branch.to_le_bytes());
    nonce
}

/// Everything that a draw depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tuple {
    /// The job's key and nonce, the digest of its plan, and its dimension.
    secret: [u8; 32],
    job_nonce: [u8; 32],
    digest: [u8; 32],
    dimension: u64,
    branch: u64,
    row: u64,
    index: u64,
}

impl Tuple {
    fn stream(&self) -> Stream {
        let key = JobKey::from_bytes(&self.secret).unwrap();
        let context = NoiseContext {
            job_nonce: self.job_nonce,
            plan_digest: self.digest,
            dimension: self.dimension,
            layout_digest: [2; 32],
        };
        let keys = key.row_keys(&context, &[(0, nonce(self.branch))]).unwrap();
        Stream::of_rows(&keys, &Coefficients::Identity, Rounds::Twenty)
    }

    /// The coordinate whose value is the other half of this one's pair.
    fn is_mate(&self, other: &Tuple) -> bool {
        *self == Tuple { index: other.index ^ 16, ..other.clone() }
    }
}

/// The place of a draw's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Draw {
    key: [u32; 8],
    stream: u64,
    /// Positions in the keystream, in words: radius, angle, and the extension that the radius seldom needs.
    words: [u128; 3],
    is_sine: bool,
}

impl Draw {
    fn of(stream: &Stream, row: u64, index: u64) -> Self {
        let place = stream.address(row, index / BLOCK as u64);
        let found = words_in_block()[(index % BLOCK as u64) as usize];
        let own = |word: usize| u128::from(place.counter(word / 256)) * 16 + word as u128 % 256;
        let extension = found.extension;
        let extension = u128::from(place.extension(extension / 16)) * 16 + extension as u128 % 16;
        let words = [own(found.radius), own(found.angle), extension];
        Self { key: *place.key, stream: place.stream, words, is_sine: found.is_sine }
    }

    fn overlaps(&self, other: &Draw) -> bool {
        let shares = |word: &u128| other.words.contains(word);
        self.key == other.key && self.stream == other.stream && self.words.iter().any(shares)
    }

    /// The word at a position of its keystream, as `rand_chacha` has it.
    fn word(&self, position: u128) -> u32 {
        let key = std::array::from_fn(|i| self.key[i / 4].to_le_bytes()[i % 4]);
        keystream_words(&key, self.stream, (position / 16) as u64, 16)[(position % 16) as usize]
    }

    /// The value that its words make.
    fn value(&self) -> f32 {
        let [radius, angle, extension] = self.words;
        let (cosine, sine) =
            oracle_normal::pair(self.word(radius), || self.word(extension), self.word(angle));
        if self.is_sine { sine } else { cosine }
    }
}

fn many(slice: u64, full: u64) -> u64 {
    if std::env::var_os("RUSTLE_LONG").is_some() { full } else { slice }
}

/// Rows that a mechanism may have: at most 2⁶⁰. Small numbers, borders and all others are equally likely.
fn any_row(dice: &mut Dice) -> u64 {
    any(dice) & ((1 << 60) - 1)
}

/// A number of any length, as likely near a power of two as not.
fn any(dice: &mut Dice) -> u64 {
    let number = dice.roll() >> dice.below(64);
    match dice.below(4) {
        0 => number,
        1 => number << dice.below(64),
        2 => (1 << dice.below(64)) + dice.below(3),
        _ => (1u64 << dice.below(64)).wrapping_sub(dice.below(3)),
    }
}

fn any_tuple(dice: &mut Dice) -> Tuple {
    let mut bytes = || std::array::from_fn(|_| dice.roll() as u8);
    let secret = bytes();
    let digest = bytes();
    let job_nonce = bytes();
    let dimension = 1 + dice.below(1 << 40);
    let branch = any(dice);
    let row = any_row(dice);
    let index = any(dice);
    Tuple { secret, job_nonce, digest, dimension, branch, row, index }
}

#[test]
fn the_words_of_a_draw_are_those_its_value_is_made_of() {
    let mut dice = Dice::new(1);
    let mut extended = 0;
    let count = many(20_000, 1_000_000);
    for _ in 0..count {
        let tuple = any_tuple(&mut dice);
        let stream = tuple.stream();
        let draw = Draw::of(&stream, tuple.row, tuple.index);
        let mut normals = [0.0; BLOCK];
        stream.fill_block(tuple.row, tuple.index / BLOCK as u64, &mut normals);
        let value = normals[(tuple.index % BLOCK as u64) as usize];
        assert_eq!(value.to_bits(), draw.value().to_bits(), "{tuple:?} {draw:?}");
        extended += u64::from(is_coarse(draw.word(draw.words[0])));
    }
    println!("{count} draws, {extended} with an extension word");
    assert!(extended * 5_000 > count);
}
