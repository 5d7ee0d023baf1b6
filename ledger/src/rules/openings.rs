//! Who created a job, opened its branches and adopted its ledger, and when: read from the job's chain.

use proto::JobId;
use serde::{Serialize, Serializer};

use crate::{
    Ledger, Principal, Result, Stamp, chain,
    chain::{
        archive::{ArchivedOpening, JobArchive, Opened},
        entries::{Entries, archive_of},
        event::Event,
        stamp::event_of,
    },
    error::Fail,
    tables::{ADOPTED_ID, ENTRIES, IDENTITY, JOBS, decode, jobs_table},
};

/// An event after which a job's noise is fresh, with who made it and when.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Opening {
    /// What began.
    #[serde(flatten)]
    pub of: Opened,
    /// Who made the entry.
    #[serde(serialize_with = "as_text")]
    pub by: Principal,
    /// Milliseconds since 1970, by the clock of the process that made it.
    pub at_ms: u64,
}

/// The beginnings of the fields of the events that count, whose tag comes first.
const KINDS: [&[u8]; 2] = [br#""event":"branch_opened""#, br#""event":"adopted""#];

impl Ledger {
    /// Returns who created the job, opened each of its branches and adopted its ledger, in the order of its chain.
    ///
    /// # Errors
    /// [`LedgerError::NotFound`](crate::LedgerError::NotFound) where no job has this name.
    pub fn openings(&self, job: &JobId) -> Result<Vec<Opening>> {
        self.store.read(|transaction| {
            let record = jobs_table::existing(&transaction.open_table(JOBS)?, job)?;
            let was_adopted = transaction.open_table(IDENTITY)?.get(ADOPTED_ID)?.is_some();
            // Chains are long, and most jobs have neither branches nor adoptions.
            let last = if record.branch > 0 || was_adopted { u64::MAX } else { 0 };
            let entries = transaction.open_table(ENTRIES)?;
            match archive_of(&entries, job)? {
                Some(archive) => archived_openings(&archive),
                None => {
                    Ok(openings_in(&entries, job, last)?.into_iter().map(|(_, opening)| opening).collect())
                }
            }
        })
    }
}

/// Reads the openings in a job's chain, up to the entry `last`, with the indices of their entries.
pub fn openings_in(entries: &impl Entries, job: &JobId, last: u64) -> Result<Vec<(u64, Opening)>, Fail> {
    let mut openings = Vec::new();
    for entry in entries.range((job.as_str(), 0)..=(job.as_str(), last))? {
        let (key, stored) = entry?;
        let index = key.value().1;
        let (Stamp { by, at_ms }, fields) = Stamp::split_stored(chain::split(stored.value())?.1)?;
        if index > 0 && !KINDS.iter().any(|kind| fields.starts_with(kind)) {
            continue;
        }
        let of = match decode(&event_of(fields))? {
            Event::Created { .. } => Opened::Created,
            Event::BranchOpened { branch, .. } => Opened::BranchOpened { branch },
            Event::Adopted { ledger } => Opened::Adopted { ledger },
            _ => continue,
        };
        openings.push((index, Opening { of, by, at_ms }));
    }
    Ok(openings)
}

/// Returns the openings that an archive has kept.
fn archived_openings(archive: &JobArchive) -> Result<Vec<Opening>, Fail> {
    let (Stamp { by, at_ms }, _) = Stamp::split_stored(archive.first.as_bytes())?;
    let kept = |ArchivedOpening { by, at_ms, began, .. }: &ArchivedOpening| Opening {
        of: *began,
        by: Principal::new(by),
        at_ms: *at_ms,
    };
    let created = Opening { of: Opened::Created, by, at_ms };
    Ok(std::iter::once(created).chain(archive.openings.iter().map(kept)).collect())
}

fn as_text<S: Serializer>(by: &Principal, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(by.as_str())
}
