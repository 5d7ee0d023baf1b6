//! Sixteen neighbouring ChaCha blocks at once, in lane order: word w of all sixteen side by side.
//!
//! The loop over lanes is outermost and its body is straight-line scalar code, so that the compiler turns lanes
//! into vector elements on every instruction set and no transposition is ever needed.

pub(crate) const LANES: usize = 16;

/// `[word][lane]`: 16 words of each of 16 neighbouring ChaCha blocks.
pub(crate) type Group = [[u32; LANES]; 16];

const CONSTANTS: [u32; 4] = [0x6170_7865, 0x3320_646e, 0x7962_2d32, 0x6b20_6574];

/// Fills `out` with blocks `first..first + 16` of a stream. `first` is a multiple of 16, so that the high half
/// of the block counter is the same for all lanes.
#[inline(always)]
pub(crate) fn group<const TWENTY: bool>(key: &[u32; 8], stream: u64, first: u64, out: &mut Group) {
    for lane in 0..LANES {
        let words = block::<TWENTY>(key, stream, first as u32 | lane as u32, (first >> 32) as u32);
        for (row, word) in out.iter_mut().zip(words) {
            row[lane] = word;
        }
    }
}

#[inline(always)]
fn block<const TWENTY: bool>(key: &[u32; 8], stream: u64, counter_low: u32, counter_high: u32) -> [u32; 16] {
    let [c0, c1, c2, c3] = CONSTANTS;
    let [k0, k1, k2, k3, k4, k5, k6, k7] = *key;
    let (s0, s1) = (stream as u32, (stream >> 32) as u32);
    let start = [c0, c1, c2, c3, k0, k1, k2, k3, k4, k5, k6, k7, counter_low, counter_high, s0, s1];
    let mut x = start;
    // Written out: a loop here would keep the loop over lanes from being vectorised.
    double_round(&mut x);
    double_round(&mut x);
    double_round(&mut x);
    double_round(&mut x);
    double_round(&mut x);
    double_round(&mut x);
    if TWENTY {
        double_round(&mut x);
        double_round(&mut x);
        double_round(&mut x);
        double_round(&mut x);
    }
    for (word, first) in x.iter_mut().zip(start) {
        *word = word.wrapping_add(first);
    }
    x
}

#[inline(always)]
fn double_round(x: &mut [u32; 16]) {
    quarter_round(x, 0, 4, 8, 12);
    quarter_round(x, 1, 5, 9, 13);
    quarter_round(x, 2, 6, 10, 14);
    quarter_round(x, 3, 7, 11, 15);
    quarter_round(x, 0, 5, 10, 15);
    quarter_round(x, 1, 6, 11, 12);
    quarter_round(x, 2, 7, 8, 13);
    quarter_round(x, 3, 4, 9, 14);
}

#[inline(always)]
fn quarter_round(x: &mut [u32; 16], a: usize, b: usize, c: usize, d: usize) {
    x[a] = x[a].wrapping_add(x[b]);
    x[d] = (x[d] ^ x[a]).rotate_left(16);
    x[c] = x[c].wrapping_add(x[d]);
    x[b] = (x[b] ^ x[c]).rotate_left(12);
    x[a] = x[a].wrapping_add(x[b]);
    x[d] = (x[d] ^ x[a]).rotate_left(8);
    x[c] = x[c].wrapping_add(x[d]);
    x[b] = (x[b] ^ x[c]).rotate_left(7);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_chacha::{ChaCha12Rng, ChaCha20Rng};
    use rand_core::{Rng, SeedableRng};

    fn check(key: [u32; 8], stream: u64, first: u64) {
        let mut seed = [0; 32];
        for (bytes, word) in seed.chunks_exact_mut(4).zip(key) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        let mut twenty = ChaCha20Rng::from_seed(seed);
        let mut twelve = ChaCha12Rng::from_seed(seed);
        twenty.set_stream(stream);
        twelve.set_stream(stream);
        twenty.set_word_pos(u128::from(first) * 16);
        twelve.set_word_pos(u128::from(first) * 16);
        let mut ours: [Group; 2] = [[[0; LANES]; 16]; 2];
        group::<true>(&key, stream, first, &mut ours[0]);
        group::<false>(&key, stream, first, &mut ours[1]);
        for position in 0..16 * LANES {
            let (lane, word) = (position / 16, position % 16);
            assert_eq!(ours[0][word][lane], twenty.next_u32());
            assert_eq!(ours[1][word][lane], twelve.next_u32());
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

    proptest::proptest! {
        #[test]
        fn any_words_are_rand_chachas(key: [u32; 8], stream: u64, first: u64) {
            check(key, stream, first & !15);
        }
    }
}
