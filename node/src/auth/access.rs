//! The grants that a call was admitted by, in the extensions of its request: handlers check what the request names
//! against them.

use std::ops::Range;
use std::sync::Arc;

use super::refusal::RefusalLog;
use super::{CallerRole, ClientKey, Grant, Refusal};

/// The grants that admitted a call. There is at least one, unless callers are not authenticated.
#[derive(Clone, Debug)]
pub struct Access(Option<Arc<AdmittedCaller>>);

#[derive(Debug)]
struct AdmittedCaller {
    caller: ClientKey,
    grants: Vec<Grant>,
    refusals: RefusalLog,
}

impl Access {
    /// Returns the access of a caller that is not authenticated: on loopback, or this user over a Unix socket.
    pub fn everyone() -> Self {
        Self(None)
    }

    pub(super) fn known(caller: ClientKey, grants: Vec<Grant>, refusals: RefusalLog) -> Self {
        Self(Some(Arc::new(AdmittedCaller { caller, grants, refusals })))
    }

    /// Checks that the call may be about the job or worker so named.
    pub fn check_name(&self, name: &str) -> Result<(), Refusal> {
        self.allowed(|grant| grant.is_for(name))
    }

    /// Checks that the caller may fetch these coordinates of the job.
    pub fn check_range(&self, job: &str, range: &Range<u64>) -> Result<(), Refusal> {
        self.allowed_extent(job, Some(range.clone())).map(drop)
    }

    /// Returns whether a grant of this role is among those that admitted the call. Of a caller that is not authenticated
    /// none is.
    pub fn has_role(&self, role: CallerRole) -> bool {
        self.0.as_ref().is_some_and(|known| known.grants.iter().any(|grant| grant.role == role))
    }

    /// Returns the part of the job that the caller may fetch and that holds `requested`; `None` for all of the job.
    /// Where nothing is requested, it is the only part that the caller may fetch.
    pub fn allowed_extent(
        &self,
        job: &str,
        requested: Option<Range<u64>>,
    ) -> Result<Option<Range<u64>>, Refusal> {
        self.check_name(job)?;
        let Some(known) = &self.0 else { return Ok(None) };
        let mut allowed = Vec::new();
        for grant in known.grants.iter().filter(|grant| grant.is_for(job)) {
            match &grant.ranges {
                None => return Ok(None),
                Some(ranges) => allowed.extend(ranges.iter().cloned()),
            }
        }
        let only = (requested.is_none() && allowed.len() == 1).then(|| allowed[0].clone());
        let requested = only.or(requested).unwrap_or(0..u64::MAX);
        match allowed.iter().find(|own| own.start <= requested.start && requested.end <= own.end) {
            Some(own) => Ok(Some(own.clone())),
            None => {
                known.refusals.forbidden(&known.caller, "coordinates that are not its own");
                Err(Refusal::OutsideRange { requested, allowed })
            }
        }
    }

    /// Returns whether the caller may see the job or worker so named in a list. Unlike [`Access::check_name`] it
    /// records no refusal.
    pub fn can_see(&self, name: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::super::CallerRole;
    use super::*;

    fn of(ranges: &[Option<&[Range<u64>]>]) -> Access {
        let grant = |ranges: &Option<&[Range<u64>]>| Grant {
            name: Some("j".into()),
            ranges: ranges.map(<[_]>::to_vec),
            ..Grant::for_all(CallerRole::Trainer)
        };
        Access::known(ClientKey("c".into()), ranges.iter().map(grant).collect(), RefusalLog::default())
    }

    #[test]
    fn a_caller_has_what_any_of_its_grants_gives() {
        let one = 0..8;
        let two = of(&[Some(&[0..8, 16..24])]);
        assert_eq!(two.allowed_extent("j", Some(17..24)), Ok(Some(16..24)));
        let beyond =
            |requested: Range<u64>| Err(Refusal::OutsideRange { requested, allowed: vec![0..8, 16..24] });
        assert_eq!(two.allowed_extent("j", Some(7..9)), beyond(7..9));
        assert_eq!(two.allowed_extent("j", Some(0..24)), beyond(0..24));
        assert_eq!(two.allowed_extent("j", None), beyond(0..u64::MAX), "which of the two is not said");
        assert_eq!(two.allowed_extent("other", Some(0..8)), Err(Refusal::Forbidden));
        assert_eq!(of(&[Some(std::slice::from_ref(&one))]).allowed_extent("j", None), Ok(Some(0..8)));
        assert_eq!(of(&[Some(std::slice::from_ref(&one)), None]).allowed_extent("j", Some(0..99)), Ok(None));
        assert_eq!(Access::everyone().allowed_extent("j", Some(0..99)), Ok(None));
    }
}
