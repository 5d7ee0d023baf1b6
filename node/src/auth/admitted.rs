//! What was found out about a caller before its handler runs, in the extensions of the request.

use std::ops::Range;
use std::sync::Arc;

use super::authenticator::Refusals;
use super::{ClientKey, Grant, Refusal};

/// The grants by which this call was let in: never empty, unless nobody is asked who they are.
#[derive(Clone, Debug)]
pub struct Admitted(Option<Arc<Known>>);

#[derive(Debug)]
struct Known {
    caller: ClientKey,
    grants: Vec<Grant>,
    refusals: Refusals,
}

impl Admitted {
    /// Where nothing authenticates: a cluster on loopback, or this user over a Unix socket.
    pub fn everyone() -> Self {
        Self(None)
    }

    pub(super) fn known(caller: ClientKey, grants: Vec<Grant>, refusals: Refusals) -> Self {
        Self(Some(Arc::new(Known { caller, grants, refusals })))
    }

    /// May the caller have this of the job or worker so named?
    pub fn named(&self, name: &str) -> Result<(), Refusal> {
        self.allowed(|grant| grant.is_for(name))
    }

    /// May the caller fetch these coordinates of the job?
    pub fn range(&self, job: &str, range: &Range<u64>) -> Result<(), Refusal> {
        self.allowed(|grant| grant.is_for(job) && grant.covers(range))
    }

    /// As [`Admitted::named`], of what the caller didn't ask for by its name.
    pub fn sees(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|known| known.grants.iter().any(|grant| grant.is_for(name)))
    }

    fn allowed(&self, by: impl Fn(&Grant) -> bool) -> Result<(), Refusal> {
        match &self.0 {
            Some(known) if !known.grants.iter().any(by) => {
                known.refusals.forbidden(&known.caller, "what is not its own");
                Err(Refusal::Forbidden)
            }
            _ => Ok(()),
        }
    }
}
