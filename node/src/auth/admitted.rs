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
        self.extent(job, Some(range.clone())).map(drop)
    }

    /// The part of the job that the caller may fetch and that holds `asked`; `None` for all. Where nothing is asked
    /// for, its only part.
    pub fn extent(&self, job: &str, asked: Option<Range<u64>>) -> Result<Option<Range<u64>>, Refusal> {
        self.named(job)?;
        let Some(known) = &self.0 else { return Ok(None) };
        let mut allowed = Vec::new();
        for grant in known.grants.iter().filter(|grant| grant.is_for(job)) {
            match &grant.ranges {
                None => return Ok(None),
                Some(ranges) => allowed.extend(ranges.iter().cloned()),
            }
        }
        let only = (asked.is_none() && allowed.len() == 1).then(|| allowed[0].clone());
        let asked = only.or(asked).unwrap_or(0..u64::MAX);
        match allowed.iter().find(|own| own.start <= asked.start && asked.end <= own.end) {
            Some(own) => Ok(Some(own.clone())),
            None => {
                known.refusals.forbidden(&known.caller, "coordinates that are not its own");
                Err(Refusal::Beyond { asked, allowed })
            }
        }
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

#[cfg(test)]
mod tests {
    use super::super::GrantRole;
    use super::*;

    fn of(ranges: &[Option<&[Range<u64>]>]) -> Admitted {
        let grant = |ranges: &Option<&[Range<u64>]>| Grant {
            name: Some("j".into()),
            ranges: ranges.map(<[_]>::to_vec),
            ..Grant::of_all(GrantRole::Trainer)
        };
        Admitted::known(ClientKey("c".into()), ranges.iter().map(grant).collect(), Refusals::default())
    }

    #[test]
    fn a_caller_has_what_any_of_its_grants_gives() {
        let one = 0..8;
        let two = of(&[Some(&[0..8, 16..24])]);
        assert_eq!(two.extent("j", Some(17..24)), Ok(Some(16..24)));
        let beyond = |asked: Range<u64>| Err(Refusal::Beyond { asked, allowed: vec![0..8, 16..24] });
        assert_eq!(two.extent("j", Some(7..9)), beyond(7..9));
        assert_eq!(two.extent("j", Some(0..24)), beyond(0..24));
        assert_eq!(two.extent("j", None), beyond(0..u64::MAX), "which of the two is not said");
        assert_eq!(two.extent("other", Some(0..8)), Err(Refusal::Forbidden));
        assert_eq!(of(&[Some(std::slice::from_ref(&one))]).extent("j", None), Ok(Some(0..8)));
        assert_eq!(of(&[Some(std::slice::from_ref(&one)), None]).extent("j", Some(0..99)), Ok(None));
        assert_eq!(Admitted::everyone().extent("j", Some(0..99)), Ok(None));
    }
}
