//! What the noise ranks' own records have of the job, told to all of them before the first one opens the ledger: of every
//! branch of which a row has left, how far. Where the ledger is an old copy, also of a branch that the job has left since,
//! nothing is written to it.

use std::{collections::BTreeMap, vec};

use ledger::{Ledger, LedgerError};
use mpi::Rank;
use proto::JobId;

use crate::marks::Marks;

/// Of what is said here.
pub const NOISE_VERSION: u32 = 1;

/// Marks in one part. Every rank hears what all others say at once; a job of more branches takes more parts.
const MOST: usize = 255;

/// How many marks are still to be told, with those of this part, and the marks: branch and next row. In words of 8
/// bytes, little-endian, of which the second is 0.
pub type Part = [u8; 16 * (1 + MOST)];

/// One rank's marks, a part at a time.
pub struct Telling(vec::IntoIter<(u64, u64)>);

impl Telling {
    pub fn of(marks: &Marks, job: &JobId) -> Self {
        let of_job = marks.all().into_iter().filter(|mark| mark.job == *job);
        let marks: Vec<_> = of_job.map(|mark| (mark.branch, mark.next_row)).collect();
        Self(marks.into_iter())
    }

    /// Empty once all are told: others may have more.
    pub fn next_part(&mut self) -> Part {
        let left = self.0.len() as u64;
        let marks = self.0.by_ref().take(MOST);
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

/// The highest that any rank has of each branch, and who has it.
#[derive(Default)]
pub struct Told(BTreeMap<u64, (u64, Rank)>);

impl Told {
    /// Takes one part of each noise rank. Whether any of them has more to say.
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
            has_more |= left > MOST as u64;
        }
        has_more
    }

    /// Error: a rank's own record has rows that the ledger does not know to be bound, on whichever branch, or a branch that
    /// it does not know. Nothing is written.
    pub fn is_known_to(&self, ledger: &Ledger, job: &JobId) -> Result<(), LedgerError> {
        let record = ledger.job(job)?;
        for (&branch, &(next_row, rank)) in &self.0 {
            let known = match &record {
                // Of the mark's own branch: a rewind takes back nothing that was released before it.
                Some(record) => {
                    let of = branch.min(record.branch);
                    Some((of, ledger.binding_summary(job, of)?.next_row))
                }
                None => None,
            };
            if known.map_or((branch, next_row) == (0, 0), |(of, known)| branch == of && next_row <= known) {
                continue;
            }
            return Err(LedgerError::Behind {
                job: job.to_string(),
                known: known
                    .map_or("nothing".to_owned(), |(of, known)| format!("branch {of} up to row {known}")),
                witness: format!("rank {rank}"),
                seen: format!("branch {branch} up to row {next_row}"),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
