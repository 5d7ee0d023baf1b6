//! What the first rank says of a launch by itself, and all others take over: flags of theirs that differ would have
//! them wait for one another, or make a row that is bound to something else.

use anyhow::Context;
use proto::{Commitment, RowRange};

const WORDS: usize = 3;

/// As it is broadcast.
pub type Bytes = [u8; 8 * WORDS + Commitment::BYTES];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    pub rows: RowRange,
    pub checkpoint_every: u64,
    pub commitment: Commitment,
}

impl Agreed {
    pub fn to_bytes(self) -> Bytes {
        let mut bytes = [0; _];
        let (words, commitment) = bytes.split_at_mut(8 * WORDS);
        let said = [self.rows.start, self.rows.end, self.checkpoint_every];
        words.as_chunks_mut::<8>().0.iter_mut().zip(said).for_each(|(word, said)| *word = said.to_le_bytes());
        commitment.copy_from_slice(&self.commitment.to_bytes());
        bytes
    }

    pub fn of(bytes: &Bytes) -> anyhow::Result<Self> {
        let (words, commitment) = bytes.split_at(8 * WORDS);
        let word = |at: usize| words.as_chunks::<8>().0.get(at).map_or(0, |word| u64::from_le_bytes(*word));
        Ok(Self {
            rows: RowRange { start: word(0), end: word(1) },
            checkpoint_every: word(2),
            commitment: Commitment::try_from(commitment).context("what the first noise rank says")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ranks_read_what_the_first_one_says() {
        let rows = RowRange { start: 3, end: u64::MAX };
        let said = Agreed { rows, checkpoint_every: 7, commitment: Commitment::exact([9; 32]) };
        assert_eq!(Agreed::of(&said.to_bytes()).unwrap(), said);
        assert!(Agreed::of(&[0; _]).is_err(), "nothing was said");
    }
}
