//! Who created a job, opened its branches and adopted its ledger, and when: read from the job's chain.

use proto::{JobId, Nonce};
use serde::{Serialize, Serializer};

use crate::{
    Ledger, Principal, Result, Stamp, chain,
    chain::{event::Event, stamp::event_of},
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

/// What an [`Opening`] began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Opened {
    /// The job.
    Created,
    /// A branch of the job.
    BranchOpened {
        /// The branch's number.
        branch: u64,
    },
    /// The ledger under a new id.
    Adopted {
        /// The id.
        ledger: Nonce,
    },
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
            let mut openings = Vec::new();
            for entry in transaction.open_table(ENTRIES)?.range((job.as_str(), 0)..=(job.as_str(), last))? {
                let (key, stored) = entry?;
                let (Stamp { by, at_ms }, fields) = Stamp::split_stored(chain::split(stored.value())?.1)?;
                if key.value().1 > 0 && !KINDS.iter().any(|kind| fields.starts_with(kind)) {
                    continue;
                }
                let of = match decode(&event_of(fields))? {
                    Event::Created { .. } => Opened::Created,
                    Event::BranchOpened { branch, .. } => Opened::BranchOpened { branch },
                    Event::Adopted { ledger } => Opened::Adopted { ledger },
                    _ => continue,
                };
                openings.push(Opening { of, by, at_ms });
            }
            Ok(openings)
        })
    }
}

fn as_text<S: Serializer>(by: &Principal, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(by.as_str())
}
