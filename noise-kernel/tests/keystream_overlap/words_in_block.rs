//! The words of its noise block that each of the 512 coordinates takes, found by trial from the values themselves.

use crate::block::{BLOCK, Block, GROUPS, PAIR_ROWS, ZERO_BLOCK};
use crate::{BranchKey, Rounds, Stream, oracle_normal};
use rand_chacha::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};
use std::collections::HashMap;
use std::sync::OnceLock;

/// Words of a group, and of the extension words of a noise block.
const WORDS: usize = 256;

/// The words of one coordinate of a block: their numbers, counted over the block's groups and, apart from them, over
/// the blocks of its extension words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DrawWords {
    pub radius: usize,
    pub angle: usize,
    pub extension: usize,
    /// The second value of its pair of words.
    pub is_sine: bool,
}

const KEY: [u8; 32] = [0x4b; 32];
const STREAM: u64 = 5;

/// `count` words of the keystream from ChaCha block `counter` on, as `rand_chacha` has them.
pub(super) fn keystream_words(key: &[u8; 32], stream: u64, counter: u64, count: usize) -> Vec<u32> {
    let mut rng = ChaCha20Rng::from_seed(*key);
    rng.set_stream(stream);
    rng.set_word_pos(u128::from(counter) * 16);
    (0..count).map(|_| rng.next_u32()).collect()
}

pub(super) fn is_coarse(a: u32) -> bool {
    a.min(!a) < crate::gaussian::COARSE
}

/// The values of one noise block, and the words of its own groups.
fn block_and_words(stream: &Stream, number: u64) -> (Block, Vec<u32>) {
    let mut values = ZERO_BLOCK;
    stream.fill_block(STREAM, number, &mut values);
    let counters = (0..GROUPS).map(|group| stream.address(STREAM, number).counter(group));
    (values, counters.flat_map(|counter| keystream_words(&KEY, STREAM, counter, WORDS)).collect())
}

fn extensions(stream: &Stream, number: u64) -> Vec<u32> {
    let counters = (0..PAIR_ROWS).map(|row| stream.address(STREAM, number).extension(row));
    counters.flat_map(|counter| keystream_words(&KEY, STREAM, counter, 16)).collect()
}

/// Keeps of the candidates those that were seen again; where there are none yet, takes all.
fn narrow<T: PartialEq>(candidates: &mut Option<Vec<T>>, seen: Vec<T>) {
    match candidates {
        Some(candidates) => candidates.retain(|candidate| seen.contains(candidate)),
        None => *candidates = Some(seen),
    }
}

fn only<T: Copy>(candidates: Option<Vec<T>>) -> T {
    match candidates.as_deref() {
        Some([one]) => *one,
        other => panic!("{} candidates are left", other.map_or(0, <[T]>::len)),
    }
}

/// (word of the radius, word of the angle, whether it is the sine) of each coordinate, from blocks whose radii need no
/// extension: all pairs of words are tried.
fn own_words(stream: &Stream) -> Vec<(usize, usize, bool)> {
    let mut candidates = vec![None; BLOCK];
    let plain = (0..)
        .map(|number| block_and_words(stream, number))
        .filter(|(_, own)| !own.iter().any(|&a| is_coarse(a)));
    for (values, own) in plain.take(4) {
        let wanted: HashMap<u32, usize> = (0..BLOCK).map(|at| (values[at].to_bits(), at)).collect();
        assert_eq!(wanted.len(), BLOCK, "no value comes twice");
        let mut seen = vec![vec![]; BLOCK];
        for (i, &a) in own.iter().enumerate() {
            for (j, &c) in own.iter().enumerate() {
                let (cosine, sine) = oracle_normal::pair(a, || unreachable!("no radius needs more"), c);
                for (value, is_sine) in [(cosine, false), (sine, true)] {
                    if let Some(&at) = wanted.get(&value.to_bits()) {
                        seen[at].push((i, j, is_sine));
                    }
                }
            }
        }
        candidates.iter_mut().zip(seen).for_each(|(candidates, seen)| narrow(candidates, seen));
    }
    candidates.into_iter().map(only).collect()
}

/// The extension word of each coordinate, from the values that needed one: each shows a few bits of it.
fn extension_words(stream: &Stream, own: &[(usize, usize, bool)]) -> Vec<usize> {
    let mut candidates = vec![None; BLOCK];
    let mut number = 0;
    while candidates.iter().any(|left: &Option<Vec<_>>| left.as_ref().is_none_or(|left| left.len() > 1)) {
        let (values, words) = block_and_words(stream, number);
        if words.iter().any(|&a| is_coarse(a)) {
            let extensions = extensions(stream, number);
            let needed = own.iter().enumerate().filter(|(_, (radius, ..))| is_coarse(words[*radius]));
            for (at, &(radius, angle, is_sine)) in needed {
                let gives = |&e: &usize| {
                    let (cosine, sine) = oracle_normal::pair(words[radius], || extensions[e], words[angle]);
                    values[at].to_bits() == if is_sine { sine } else { cosine }.to_bits()
                };
                narrow(&mut candidates[at], (0..WORDS).filter(gives).collect());
            }
        }
        number += 1;
        assert!(number < 1 << 18, "an extension word is none of those that it could be");
    }
    candidates.into_iter().map(only).collect()
}

/// The words of every coordinate of a block, found once in a process.
pub(super) fn words_in_block() -> &'static [DrawWords] {
    static FOUND: OnceLock<Vec<DrawWords>> = OnceLock::new();
    FOUND.get_or_init(|| {
        let stream = Stream::new(&BranchKey::from_array(KEY), Rounds::Twenty);
        let own = own_words(&stream);
        let extensions = extension_words(&stream, &own);
        let both = own.into_iter().zip(extensions);
        both.map(|((radius, angle, is_sine), extension)| DrawWords { radius, angle, extension, is_sine })
            .collect()
    })
}

#[test]
fn the_two_halves_of_a_pair_have_its_words_to_themselves() {
    let mut sorted = words_in_block().to_vec();
    sorted.sort();
    let (pairs, _) = sorted.as_chunks::<2>();
    for [one, two] in pairs {
        assert_eq!(DrawWords { is_sine: true, ..*one }, *two);
        assert!(!one.is_sine);
    }
    let mut own: Vec<_> = pairs.iter().flat_map(|[pair, _]| [pair.radius, pair.angle]).collect();
    own.sort();
    assert!(own.into_iter().eq(0..GROUPS * WORDS), "every word of the block, once");
    let mut extensions: Vec<_> = pairs.iter().map(|[pair, _]| pair.extension).collect();
    extensions.sort();
    assert!(extensions.into_iter().eq(0..WORDS), "every extension word, once");
}
