//! The rows of the job that the noise ranks have released, exchanged before the first noise rank opens the ledger: for
//! every branch of which a row has left, how far. A ledger that is an old copy, even in a branch that the job has left
//! since, is refused before anything is written to it.

use std::{collections::BTreeMap, vec};

use ledger::{Ledger, LedgerError};
use noise_worker::release_log::ReleaseLog;
use proto::JobId;
use release::watermarks::{UnknownJob, Watermark, check_not_stale};

use crate::Rank;

/// The version of this exchange, which noise ranks compare in the handshake.
pub const EXCHANGE_VERSION: u32 = 1;

/// Marks in one part. Every rank receives the parts of all others at once; a job of more branches takes more parts.
const MARKS_PER_PART: usize = 255;

/// A part as it is sent: the number of marks still to come with those of this part, then the marks, each a branch and its
/// next row. In words of 8 bytes, little-endian, of which the second is 0.
pub type Part = [u8; 16 * (1 + MARKS_PER_PART)];

/// One rank's marks, sent part by part.
pub struct WatermarkSender(vec::IntoIter<(u64, u64)>);

impl WatermarkSender {
    /// Reads the marks of a job from this rank's own log.
    pub fn new(log: &ReleaseLog, job: &JobId) -> Self {
        let of_job = log.all().into_iter().filter(|mark| mark.job == *job);
        let marks: Vec<_> = of_job.map(|mark| (mark.branch, mark.next_row)).collect();
        Self(marks.into_iter())
    }

    /// Returns the next part, which is empty once all marks are sent: other ranks may have more.
    pub fn next_part(&mut self) -> Part {
        let left = self.0.len() as u64;
        let marks = self.0.by_ref().take(MARKS_PER_PART);
        let mut part = [0; _];
        for (to, (first, second)) in chunks_mut(&mut part).zip([(left, 0)].into_iter().chain(marks)) {
            to[..8].copy_from_slice(&first.to_le_bytes());
            to[8..].copy_from_slice(&second.to_le_bytes());
        }
        part
    }
}

fn chunks_mut(part: &mut Part) -> impl Iterator<Item = &mut [u8; 16]> {
    part.as_chunks_mut().0.iter_mut()
}

/// The highest next row that any rank has of each branch, and the rank that has it.
#[derive(Default)]
pub struct Watermarks(BTreeMap<u64, (u64, Rank)>);

impl Watermarks {
    /// Takes one part of each noise rank. Returns whether any of them has more to send.
    pub fn take(&mut self, parts: impl IntoIterator<Item = (Rank, Part)>) -> bool {
        let mut has_more = false;
        for (rank, part) in parts {
            let words = part.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
            let words: Vec<u64> = words.collect();
            let left = words[0];
            let marks = words[2..].as_chunks::<2>().0;
            for &[branch, next_row] in marks.iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
                let highest = self.0.entry(branch).or_insert((next_row, rank));
                if next_row > highest.0 {
                    *highest = (next_row, rank);
                }
            }
            has_more |= left > MARKS_PER_PART as u64;
        }
        has_more
    }

    /// Checks that the ledger has every row that a rank has released, and every branch. Writes nothing. Fails with
    /// [`LedgerError::Behind`] where it does not.
    pub fn check_against(&self, ledger: &Ledger, job: &JobId) -> Result<(), LedgerError> {
        let watermark = |(&branch, &(next_row, rank)): (&u64, &(u64, Rank))| Watermark {
            witness: format!("rank {rank}"),
            branch,
            next_row,
        };
        let watermarks: Vec<_> = self.0.iter().map(watermark).collect();
        // The launch would create the job anew in a ledger that has lost it.
        check_not_stale(ledger, job, &watermarks, UnknownJob::Refuse)
    }
}

#[cfg(test)]
mod tests;
