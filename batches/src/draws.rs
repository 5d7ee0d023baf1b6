//! Exact uniform integers, coins and subsets from a ChaCha20 stream.

use chacha20::ChaCha20Rng;
use rand_core::{Rng, SeedableRng};

use crate::seed::Key;

/// A stream that is read in order, and wiped when dropped.
pub(crate) struct Draws {
    rng: ChaCha20Rng,
    bytes: u64,
    bytes_left: u32,
}

impl Key {
    /// Opens stream `number` at its first word.
    pub fn draws(&self, number: u64) -> Draws {
        Draws::new(self.bytes(), number)
    }
}

impl Draws {
    pub fn new(key: &[u8; 32], stream: u64) -> Self {
        let mut rng = ChaCha20Rng::from_seed(*key);
        rng.set_stream(stream);
        Self { rng, bytes: 0, bytes_left: 0 }
    }

    /// Returns the next word.
    pub fn word(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// Returns the next byte of a word, the least significant first.
    fn byte(&mut self) -> u8 {
        if self.bytes_left == 0 {
            (self.bytes, self.bytes_left) = (self.word(), 8);
        }
        let byte = self.bytes as u8;
        self.bytes >>= 8;
        self.bytes_left -= 1;
        byte
    }

    /// Returns true with probability `p`·2⁻¹²⁸. It reads bytes of a uniform number only as far as the comparison needs.
    pub fn happens(&mut self, p: u128) -> bool {
        if p == 0 {
            return false;
        }
        for digit in p.to_be_bytes() {
            let byte = self.byte();
            if byte != digit {
                return byte < digit;
            }
        }
        false
    }

    /// Returns a uniform integer below `n`, which is 1 or more.
    pub fn below(&mut self, n: u64) -> u64 {
        loop {
            if let Some(value) = scaled(self.word(), n) {
                return value;
            }
        }
    }

    /// Returns a uniform integer below a large `n`, which is 1 or more.
    pub fn below_wide(&mut self, n: u128) -> u128 {
        let mask = u128::MAX.checked_shr((n - 1).leading_zeros()).unwrap_or(0);
        loop {
            let value = (u128::from(self.word()) << 64 | u128::from(self.word())) & mask;
            if value < n {
                return value;
            }
        }
    }

    /// Draws `k` of 0..`n`, or all where `n` is smaller, ascending, into `out`. Every such subset is equally likely (Floyd's
    /// algorithm).
    pub fn subset(&mut self, k: u64, n: u64, out: &mut Vec<u64>) {
        out.clear();
        if k >= n {
            out.extend(0..n);
            return;
        }
        for last in n - k..n {
            let pick = self.below(last + 1);
            match out.binary_search(&pick) {
                Ok(_) => out.push(last),
                Err(place) => out.insert(place, pick),
            }
        }
    }

    /// Keeps a uniformly random subset of `cap` ids where there are more, in their order.
    pub fn cut(&mut self, ids: &mut Vec<u64>, cap: u64) {
        let mut seen = ids.len() as u64;
        let mut wanted = cap;
        if seen <= cap {
            return;
        }
        ids.retain(|_| {
            let kept = self.below(seen) < wanted;
            seen -= 1;
            wanted -= u64::from(kept);
            kept
        });
    }
}

/// Returns ⌊word·n/2⁶⁴⌋, or `None` for the few words that would make small values more likely (Lemire's method).
fn scaled(word: u64, n: u64) -> Option<u64> {
    let product = u128::from(word) * u128::from(n);
    let low = product as u64;
    // 2⁶⁴ mod n words are too many; the division is needed only where one might be among them.
    (low >= n || low >= n.wrapping_neg() % n).then_some((product >> 64) as u64)
}

/// A uniform integer for every record, each at its own place of a stream, to be read in any order.
pub(crate) struct RecordDraws {
    rng: ChaCha20Rng,
    again: Key,
    chunk: Option<u64>,
    words: zeroize::Zeroizing<[u64; CHUNK as usize]>,
}

/// Words drawn at once: four ChaCha blocks, which the generator computes together.
const CHUNK: u64 = 32;

impl RecordDraws {
    /// Reads words under `key`; `again` is for records whose word is refused.
    pub fn new(key: &Key, again: Key) -> Self {
        Self { rng: key.draws(0).rng, again, chunk: None, words: zeroize::Zeroizing::new([0; 32]) }
    }

    /// Returns a uniform integer below `n`, which is 1 or more: the same for the same record and n.
    pub fn below(&mut self, record: u64, n: u64) -> u64 {
        let chunk = record / CHUNK;
        if self.chunk != Some(chunk) {
            self.rng.set_word_pos(u128::from(chunk) * u128::from(2 * CHUNK));
            self.words.fill_with(|| self.rng.next_u64());
            self.chunk = Some(chunk);
        }
        let word = self.words[(record % CHUNK) as usize];
        scaled(word, n).unwrap_or_else(|| self.again.draws(record).below(n))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(byte: u8) -> Key {
        crate::seed::Keys::new([byte; 32].into(), [0; 32]).derive("test")
    }

    #[test]
    fn refused_words_are_as_many_as_make_all_values_equally_likely() {
        // n = 2⁶³ + 1: 2⁶⁴ mod n = 2⁶³ − 1 words are refused, those whose product's low half is below that.
        let n = (1_u64 << 63) + 1;
        assert_eq!(scaled(0, n), None);
        assert_eq!(scaled(1, n), Some(0));
        for n in [1, 2, 3, 7, 10, 1 << 40, u64::MAX] {
            assert_eq!(scaled(u64::MAX, n), Some(n - 1));
            assert_eq!(scaled(0, n).is_none(), n.wrapping_neg() % n != 0, "{n}");
        }
    }

    #[test]
    fn fates_are_the_same_in_any_order_also_where_a_word_is_refused() {
        // About half of all words are refused.
        let n = (1_u64 << 63) + 1;
        let make = || RecordDraws::new(&key(1), key(2));
        let mut one = make();
        let mut other = make();
        let forward: Vec<u64> = (0..200).map(|record| one.below(record, n)).collect();
        let mut backward: Vec<u64> = (0..200).rev().map(|record| other.below(record, n)).collect();
        backward.reverse();
        assert_eq!(forward, backward);
        assert!(forward.iter().all(|&value| value < n));
    }

    #[test]
    fn wide_draws_cover_their_range() {
        let mut draws = key(3).draws(0);
        for n in [1, 2, 3, 1 << 64, (1 << 100) + 1, u128::MAX] {
            assert!((0..64).all(|_| draws.below_wide(n) < n));
        }
        let mut seen = [0; 5];
        (0..5000).for_each(|_| seen[draws.below_wide(5) as usize] += 1);
        assert!(seen.iter().all(|&count: &i32| (count - 1000).abs() < 150), "{seen:?}");
    }

    #[test]
    fn coins_fall_as_often_as_they_should() {
        let mut draws = key(4).draws(0);
        // A third is 0x5555…, so every byte may be decisive; five standard deviations of 30000 throws are
        // 408.
        let heads = (0..30_000).filter(|_| draws.happens(u128::MAX / 3)).count();
        assert!(heads.abs_diff(10_000) < 408, "{heads}");
        assert!(!draws.happens(0));
    }

    #[test]
    fn subsets_and_cuts_are_uniform() {
        let mut draws = key(5).draws(0);
        let mut out = Vec::new();
        // Ten subsets of 2 of 5; five standard deviations of 10000/10 are 150.
        let mut counts = std::collections::BTreeMap::new();
        let mut cuts = std::collections::BTreeMap::new();
        for _ in 0..10_000 {
            draws.subset(2, 5, &mut out);
            *counts.entry(out.clone()).or_insert(0_i64) += 1;
            let mut ids = vec![10, 11, 12, 13, 14];
            draws.cut(&mut ids, 2);
            *cuts.entry(ids).or_insert(0_i64) += 1;
        }
        for counts in [counts, cuts] {
            assert_eq!(counts.len(), 10);
            assert!(counts.values().all(|count| (count - 1000).abs() < 150), "{counts:?}");
        }
        draws.subset(9, 3, &mut out);
        assert_eq!(out, [0, 1, 2]);
    }
}
