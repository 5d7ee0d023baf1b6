//! What was found out about a caller before its handler runs, in the extensions of the request.

use std::ops::Range;
use std::sync::Arc;

use super::{Grant, Refusal};

/// The grants by which this call was let in: never empty, unless nobody is asked who they are.
#[derive(Clone, Debug)]
pub struct Admitted(pub(super) Option<Arc<[Grant]>>);

impl Admitted {
    /// Where nothing authenticates: a cluster on loopback, or this user over a Unix socket.
    pub fn everyone() -> Self {
        Self(None)
    }

    /// May the caller have this of the job or worker so named?
    pub fn named(&self, name: &str) -> Result<(), Refusal> {
        match self.sees(name) {
            true => Ok(()),
            false => Err(Refusal::Forbidden),
        }
    }

    pub fn sees(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|grants| grants.iter().any(|grant| grant.is_for(name)))
    }

    /// May the caller fetch these coordinates of the job?
    pub fn range(&self, job: &str, range: &Range<u64>) -> Result<(), Refusal> {
        let Some(grants) = &self.0 else { return Ok(()) };
        match grants.iter().any(|grant| grant.is_for(job) && grant.covers(range)) {
            true => Ok(()),
            false => Err(Refusal::Forbidden),
        }
    }
}
