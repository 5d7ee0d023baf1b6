//! Sixteen neighbouring ChaCha blocks at once, in lane order: word w of all sixteen side by side, so that no
//! transposition is ever needed.

use crate::prefetch::Prefetch;
use crate::simd::Simd;
use crate::simd::scalar::Scalar;

/// The rounds of ChaCha. Twelve is an explicit choice and part of a plan's digest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rounds {
    /// ChaCha20.
    #[default]
    Twenty,
    /// ChaCha12.
    Twelve,
}

pub(crate) const LANES: usize = 16;

/// `[word][lane]`: 16 words of each of 16 neighbouring ChaCha blocks, as the bits of binary32 values: they become
/// normals in place.
pub(crate) type Group = [[f32; LANES]; 16];

const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

const fn double_rounds(twenty: bool) -> usize {
    if twenty { 10 } else { 6 }
}

/// The number of times [`group`] fetches a part of the memory needed next: before each vector of blocks or, where one
/// vector is all of them, before each double round.
pub(crate) const fn fetches(lanes: usize, twenty: bool) -> usize {
    if lanes == LANES { double_rounds(twenty) } else { LANES / lanes }
}

/// Fills `out` with blocks `first..first + 16` of a stream. `first` is a multiple of 16, so that the high half
/// of the block counter is the same for all lanes.
#[inline(always)]
pub(crate) fn group<S: Simd, const TWENTY: bool>(
    s: S,
    key: &[u32; 8],
    stream: u64,
    first: u64,
    ahead: &mut Prefetch<'_>,
    out: &mut Group,
) {
    for at in (0..LANES).step_by(S::LANES) {
        if S::LANES < LANES {
            ahead.fetch(s);
        }
        let counter_low = s.add(s.splat(first as u32 | at as u32), s.lane_numbers());
        let words = blocks::<S, TWENTY>(s, key, stream, counter_low, (first >> 32) as u32, ahead);
        for (row, word) in out.iter_mut().zip(words) {
            s.store_f(s.floats(word), row, at);
        }
    }
}

/// One block: the plainest way, for the words that are seldom needed.
pub(crate) fn block<const TWENTY: bool>(key: &[u32; 8], stream: u64, counter: u64) -> [u32; 16] {
    let low = counter as u32;
    let high = (counter >> 32) as u32;
    blocks::<Scalar, TWENTY>(Scalar, key, stream, low, high, &mut Prefetch::default())
}

#[inline(always)]
fn blocks<S: Simd, const TWENTY: bool>(
    s: S,
    key: &[u32; 8],
    stream: u64,
    counter_low: S::U,
    counter_high: u32,
    ahead: &mut Prefetch<'_>,
) -> [S::U; 16] {
    let [c0, c1, c2, c3] = CONSTANTS;
    let [k0, k1, k2, k3, k4, k5, k6, k7] = *key;
    let s0 = stream as u32;
    let s1 = (stream >> 32) as u32;
    let words = [c0, c1, c2, c3, k0, k1, k2, k3, k4, k5, k6, k7, 0, counter_high, s0, s1];
    let mut start = [counter_low; 16];
    for (vector, word) in start.iter_mut().zip(words) {
        *vector = s.splat(word);
    }
    start[12] = counter_low;
    let mut x = start;
    if S::LANES > 1 {
        for _ in 0..double_rounds(TWENTY) {
            if S::LANES == LANES {
                ahead.fetch(s);
            }
            double_round(s, &mut x);
        }
    } else {
        // Written out: a loop here would keep the loop over lanes from being turned into vectors.
        double_round(s, &mut x);
        double_round(s, &mut x);
        double_round(s, &mut x);
        double_round(s, &mut x);
        double_round(s, &mut x);
        double_round(s, &mut x);
        if TWENTY {
            double_round(s, &mut x);
            double_round(s, &mut x);
            double_round(s, &mut x);
            double_round(s, &mut x);
        }
    }
    for (word, first) in x.iter_mut().zip(start) {
        *word = s.add(*word, first);
    }
    x
}

/// One double round. Two quarter rounds at once fill the pipes and still leave a register or two; of all orders this
/// one was fastest.
#[inline(always)]
fn double_round<S: Simd>(s: S, x: &mut [S::U; 16]) {
    quarter_rounds(s, x, [0, 4, 8, 12], [1, 5, 9, 13]);
    quarter_rounds(s, x, [2, 6, 10, 14], [3, 7, 11, 15]);
    quarter_rounds(s, x, [3, 4, 9, 14], [0, 5, 10, 15]);
    quarter_rounds(s, x, [1, 6, 11, 12], [2, 7, 8, 13]);
}

#[inline(always)]
fn quarter_rounds<S: Simd>(s: S, x: &mut [S::U; 16], one: [usize; 4], two: [usize; 4]) {
    macro_rules! both {
        ($into:expr, $from:expr, $turned:expr, $rotate:ident) => {
            x[one[$into]] = s.add(x[one[$into]], x[one[$from]]);
            x[two[$into]] = s.add(x[two[$into]], x[two[$from]]);
            x[one[$turned]] = s.xor(x[one[$turned]], x[one[$into]]);
            x[two[$turned]] = s.xor(x[two[$turned]], x[two[$into]]);
            x[one[$turned]] = s.$rotate(x[one[$turned]]);
            x[two[$turned]] = s.$rotate(x[two[$turned]]);
        };
    }
    both!(0, 1, 3, rotate_16);
    both!(2, 3, 1, rotate_12);
    both!(0, 1, 3, rotate_8);
    both!(2, 3, 1, rotate_7);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::{ChaCha12Rng, ChaCha20Rng};
    use rand_core::{Rng, SeedableRng};

    fn at(key: [u32; 8], stream: u64, counter: u64) -> (ChaCha20Rng, ChaCha12Rng) {
        let mut seed = [0; 32];
        for (bytes, word) in seed.chunks_exact_mut(4).zip(key) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let mut twenty = ChaCha20Rng::from_seed(seed);
        let mut twelve = ChaCha12Rng::from_seed(seed);
        twenty.set_stream(stream);
        twelve.set_stream(stream);
        twenty.set_word_pos(u128::from(counter) * 16);
        twelve.set_word_pos(u128::from(counter) * 16);
        (twenty, twelve)
    }

    fn check(key: [u32; 8], stream: u64, first: u64) {
        let (mut twenty, mut twelve) = at(key, stream, first);
        let mut ours: [Group; 2] = [[[0.0; LANES]; 16]; 2];
        group::<_, true>(Scalar, &key, stream, first, &mut Prefetch::default(), &mut ours[0]);
        group::<_, false>(Scalar, &key, stream, first, &mut Prefetch::default(), &mut ours[1]);
        for position in 0..16 * LANES {
            let lane = position / 16;
            let word = position % 16;
            assert_eq!(ours[0][word][lane].to_bits(), twenty.next_u32());
            assert_eq!(ours[1][word][lane].to_bits(), twelve.next_u32());
        }
    }

    #[test]
    fn the_first_words_at_the_edges_are_rand_chachas() {
        // The counter is 64 bits: past 2³² blocks it must carry into its high half.
        for first in [0, 16, 0xffff_fff0, 1 << 32, (1 << 58) - 16, u64::MAX - 15] {
            for stream in [0, 1, 0xffff_ffff, 1 << 32, u64::MAX] {
                check([0x0123_4567; 8], stream, first);
            }
        }
    }

    /// Extension words come one block at a time, from counters of 2⁶³ and more: word 2⁶⁷ and beyond.
    fn check_block(key: [u32; 8], stream: u64, counter: u64) {
        let (mut twenty, mut twelve) = at(key, stream, counter);
        let ours = (block::<true>(&key, stream, counter), block::<false>(&key, stream, counter));
        for word in 0..16 {
            assert_eq!((ours.0[word], ours.1[word]), (twenty.next_u32(), twelve.next_u32()));
        }
    }

    #[test]
    fn a_block_alone_is_rand_chachas_to_the_last_there_is() {
        for counter in [0, (1 << 60) - 1, 1 << 63, (1 << 63) + (1 << 59) - 1, u64::MAX] {
            check_block([0x0123_4567; 8], 1 << 33, counter);
        }
        let mut dice = dice::Dice::new(1);
        let count = if std::env::var_os("RUSTLE_LONG").is_some() { 1_000_000 } else { 10_000 };
        for _ in 0..count {
            let key = std::array::from_fn(|_| dice.roll() as u32);
            check_block(key, dice.roll(), dice.roll() | 1 << 63);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_words_are_rand_chachas(key: [u32; 8], stream: u64, first: u64) {
            check(key, stream, first & !15);
        }
    }
}
