//! The rows of the job that the noise ranks have released, exchanged before the first noise rank opens the ledger: for
//! every branch of which a row has left, how far, and under which commitment. A ledger that is an old copy, even in a branch
//! that the job has left since, is refused before anything is written to it.
//!
//! Ranks do not know which ledger it will be. They send what they have of every ledger that had a job of this name, and the
//! first noise rank passes over what is of another ledger than its own.

use std::{collections::BTreeMap, vec};

use ledger::{Ledger, LedgerError};
use noise_worker::release_log::ReleaseLog;
use proto::{Commitment, JobId, Nonce, model::JobMark};
use release::watermarks::{UnknownJob, Watermark, check_not_stale};

use crate::Rank;

/// The version of this exchange, which noise ranks compare in the handshake.
pub const EXCHANGE_VERSION: u32 = 2;

/// Bytes of one mark: branch and next row, little-endian, the ids of the ledger and the job, and the commitment, whose
/// first byte is 0 where there is none. Then zeros.
const MARK_BYTES: usize = 120;

/// Marks in one part. Every rank receives the parts of all others at once; a job of more branches takes more parts.
const MARKS_PER_PART: usize = 33;

/// A part as it is sent: the number of marks still to come with those of this part, in 8 bytes little-endian, then the
/// marks.
pub type Part = [u8; 8 + MARK_BYTES * MARKS_PER_PART];

/// A branch of a job in a ledger: the ids of ledger and job, and its number.
type Branch = (Nonce, Nonce, u64);

/// The highest release of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Release {
    next_row: u64,
    commitment: Option<Commitment>,
}

fn encoded(ledger: &Nonce, mark: &JobMark) -> [u8; MARK_BYTES] {
    let mut bytes = [0; MARK_BYTES];
    bytes[..8].copy_from_slice(&mark.branch.to_le_bytes());
    bytes[8..16].copy_from_slice(&mark.next_row.to_le_bytes());
    bytes[16..48].copy_from_slice(ledger.as_bytes());
    bytes[48..80].copy_from_slice(mark.nonce.as_bytes());
    if let Some(commitment) = mark.commitment {
        bytes[80..80 + Commitment::BYTES].copy_from_slice(&commitment.to_bytes());
    }
    bytes
}

/// Reads a mark. What is no commitment reads as none, which no row is bound to.
fn decoded(bytes: &[u8; MARK_BYTES]) -> (Branch, Release) {
    let [branch, next_row] = [0, 8].map(|at| u64::from_le_bytes(array(bytes, at)));
    let [ledger, nonce] = [16, 48].map(|at| Nonce::from_bytes(array(bytes, at)));
    let commitment = Commitment::try_from(&bytes[80..80 + Commitment::BYTES]).ok();
    ((ledger, nonce, branch), Release { next_row, commitment })
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|offset| bytes[at + offset])
}

/// One rank's marks, sent part by part.
pub struct WatermarkSender(vec::IntoIter<(Nonce, JobMark)>);

impl WatermarkSender {
    /// Reads the marks of a job from this rank's own log, of whichever ledger.
    pub fn new(log: &ReleaseLog, job: &JobId) -> Self {
        let of_job = log.all().into_iter().filter(|(_, mark)| mark.job == *job);
        Self(of_job.collect::<Vec<_>>().into_iter())
    }

    /// Returns the next part, which is empty once all marks are sent: other ranks may have more.
    pub fn next_part(&mut self) -> Part {
        let mut part = [0; _];
        let (left, marks) = part.split_at_mut(8);
        left.copy_from_slice(&(self.0.len() as u64).to_le_bytes());
        for (to, (ledger, mark)) in marks.as_chunks_mut::<MARK_BYTES>().0.iter_mut().zip(&mut self.0) {
            *to = encoded(&ledger, &mark);
        }
        part
    }
}

/// The highest release that any rank has of each branch, and the rank that has it: several of one row, where ranks have
/// released it under different commitments.
#[derive(Default)]
pub struct Watermarks(BTreeMap<Branch, Vec<(Release, Rank)>>);

impl Watermarks {
    /// Takes one part of each noise rank. Returns whether any of them has more to send.
    pub fn take(&mut self, parts: impl IntoIterator<Item = (Rank, Part)>) -> bool {
        let mut has_more = false;
        for (rank, part) in parts {
            let left = u64::from_le_bytes(array(&part, 0));
            let marks = part[8..].as_chunks::<MARK_BYTES>().0;
            for bytes in marks.iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
                let (branch, release) = decoded(bytes);
                keep_highest(self.0.entry(branch).or_default(), release, rank);
            }
            has_more |= left > MARKS_PER_PART as u64;
        }
        has_more
    }

    /// Checks that the ledger has every row that a rank has released under it, to the same commitment, and every branch.
    /// Writes nothing. Fails with [`LedgerError::Behind`] where it does not.
    pub fn check_against(&self, ledger: &Ledger, job: &JobId) -> Result<(), LedgerError> {
        let id = ledger.id()?;
        let of_ledger = self.0.iter().filter(|((of, ..), _)| *of == id);
        let of_branches = of_ledger.flat_map(|(of, highest)| highest.iter().map(move |it| (of, it)));
        let watermark = |(&(_, nonce, branch), &(release, rank)): (&Branch, &(Release, Rank))| Watermark {
            witness: format!("rank {rank}"),
            nonce,
            branch,
            next_row: release.next_row,
            commitment: release.commitment,
        };
        let watermarks: Vec<_> = of_branches.map(watermark).collect();
        // The launch would create the job anew in a ledger that has lost it.
        check_not_stale(ledger, job, &watermarks, UnknownJob::Refuse)
    }
}

/// Of one row, a release under another commitment is kept beside the first: the ledger can agree with one of them alone.
fn keep_highest(highest: &mut Vec<(Release, Rank)>, release: Release, rank: Rank) {
    let known = highest.first().map_or(0, |(known, _)| known.next_row);
    if release.next_row > known {
        highest.clear();
    }
    if release.next_row >= known && highest.iter().all(|(known, _)| *known != release) {
        highest.push((release, rank));
    }
}

#[cfg(test)]
mod tests;
