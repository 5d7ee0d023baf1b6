//! The options of a launch by itself, as the first rank broadcasts them. All others take them over: flags that differ
//! between ranks would make them wait for one another, or generate a row that is bound to something else.

use anyhow::Context;
use proto::{Commitment, RowRange};

const WORDS: usize = 3;

/// The options as they are broadcast.
pub type Bytes = [u8; 8 * WORDS + Commitment::BYTES];

/// The rows that a launch generates, and how it generates them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchOptions {
    /// The rows to generate.
    pub rows: RowRange,
    /// Rows between checkpoints; 0 for one at the end only.
    pub checkpoint_every: u64,
    /// The commitment that the rows are bound to.
    pub commitment: Commitment,
}

impl LaunchOptions {
    /// Returns the bytes to broadcast.
    pub fn to_bytes(self) -> Bytes {
        let mut bytes = [0; _];
        let (words, commitment) = bytes.split_at_mut(8 * WORDS);
        let numbers = [self.rows.start, self.rows.end, self.checkpoint_every];
        let words = words.as_chunks_mut::<8>().0.iter_mut();
        words.zip(numbers).for_each(|(word, number)| *word = number.to_le_bytes());
        commitment.copy_from_slice(&self.commitment.to_bytes());
        bytes
    }

    /// Reads the bytes of a broadcast. Fails where they hold no commitment.
    pub fn from_bytes(bytes: &Bytes) -> anyhow::Result<Self> {
        let (words, commitment) = bytes.split_at(8 * WORDS);
        let word = |at: usize| words.as_chunks::<8>().0.get(at).map_or(0, |word| u64::from_le_bytes(*word));
        Ok(Self {
            rows: RowRange { start: word(0), end: word(1) },
            checkpoint_every: word(2),
            commitment: Commitment::try_from(commitment).context("the options of the first noise rank")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ranks_read_what_the_first_one_says() {
        let rows = RowRange { start: 3, end: u64::MAX };
        let options = LaunchOptions { rows, checkpoint_every: 7, commitment: Commitment::exact([9; 32]) };
        assert_eq!(LaunchOptions::from_bytes(&options.to_bytes()).unwrap(), options);
        assert!(LaunchOptions::from_bytes(&[0; _]).is_err(), "nothing was sent");
    }
}
