//! From a connection and a header to what a caller may do.

use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{Extensions, HeaderMap};
use metrics::counter;
use tracing::warn;

use super::{Admitted, Grant, GrantRole, Identity, Tokens, table};
use crate::telemetry::rate_limited_log::SparseLog;
use crate::net::connection::{Peer, Reached, network};
use crate::telemetry::metric_definitions::CALLS_REFUSED;

/// Why a call is not answered. Callers learn this much and no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No credentials, or none that count.
    Unauthenticated,
    /// Known, and not entitled.
    Forbidden,
    /// Entitled to these coordinates of the job alone.
    Beyond {
        asked: Range<u64>,
        allowed: Vec<Range<u64>>,
    },
    /// Too much at once; later it may go.
    Busy {
        what: &'static str,
        limit: String,
    },
    TooLarge {
        limit: usize,
    },
    TooSlow {
        limit: std::time::Duration,
    },
}

/// Tells callers apart, for limits a caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientKey(pub Arc<str>);

#[derive(Clone, Debug)]
pub struct Caller {
    pub key: ClientKey,
    /// `None`: nobody is asked who they are.
    grants: Option<Vec<Grant>>,
}

impl Caller {
    /// A worker or a coordinator; everyone, where nobody is asked who they are.
    pub fn is_of_cluster(&self) -> bool {
        let is_member = |grant: &Grant| matches!(grant.role, GrantRole::Worker | GrantRole::Coordinator);
        self.grants.as_ref().is_none_or(|grants| grants.iter().any(is_member))
    }
}

/// What a server asks of its callers.
#[derive(Debug, Default)]
pub struct Authenticator {
    /// Ours, where there is TLS: certificates of other trust domains count for nothing.
    own: Option<Identity>,
    tokens: Option<Tokens>,
    refusals: Refusals,
}

/// Counts every refusal, and says so once a caller and minute.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals(Arc<SparseLog>);

impl Refusals {
    fn unauthenticated(&self, address: Option<IpAddr>) {
        counter!(CALLS_REFUSED, "reason" => "unauthenticated").increment(1);
        let peer = address.map_or_else(|| "local".to_owned(), |address| address.to_string());
        if self.0.is_due(&peer) {
            warn!(peer, "a caller showed nothing that counts");
        }
    }

    /// `what` is none of the caller's own words.
    pub fn forbidden(&self, caller: &ClientKey, what: &'static str) {
        counter!(CALLS_REFUSED, "reason" => "forbidden").increment(1);
        if self.0.is_due(&caller.0) {
            warn!(peer = %caller.0, what, "a caller was refused what it may not have");
        }
    }
}

impl Authenticator {
    pub fn new(own: Option<Identity>, tokens: Option<Tokens>) -> Self {
        Self { own, tokens, refusals: Refusals::default() }
    }

    /// Who this is. An error where who they are has to be shown and was not.
    pub fn caller(&self, extensions: &Extensions, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let peer = extensions.get::<Reached>().map(|reached| &reached.peer);
        let address = match peer {
            Some(Peer::Plain(address) | Peer::Certified(address, _)) => Some(network(*address)),
            _ => None,
        };
        let shown = self.shown(peer, headers).inspect_err(|_| self.refusals.unauthenticated(address))?;
        let key = match &shown {
            Some((name, _)) => name.as_str().into(),
            None => address.map_or_else(|| "local".into(), |address| address.to_string().into()),
        };
        Ok(Caller { key: ClientKey(key), grants: shown.map(|(_, grants)| grants) })
    }

    /// What counts of a certificate and a token: `None` where neither is asked for.
    fn shown(
        &self,
        peer: Option<&Peer>,
        headers: &HeaderMap,
    ) -> Result<Option<(String, Vec<Grant>)>, Refusal> {
        let is_local = peer == Some(&Peer::Local);
        let mut name = String::new();
        let mut grants = Vec::new();
        if let Some(Peer::Certified(_, Some(identity))) = peer
            && self.own.as_ref().is_some_and(|own| own.trust_domain == identity.trust_domain)
        {
            name = identity.role.to_string();
            grants.push(Grant::of(identity));
        }
        if let Some(tokens) = &self.tokens
            && let Some(presented) = headers.get(AUTHORIZATION)
        {
            // A token that doesn't count is refused, whatever else is shown: something is wrong with it.
            let (digest, grant) = tokens.find(presented.as_bytes()).ok_or(Refusal::Unauthenticated)?;
            name = format!("{name} {}", &digest[..12]);
            grants.push(grant);
        }
        let nobody_asks = self.own.is_none() && self.tokens.is_none();
        if !grants.is_empty() {
            Ok(Some((name, grants)))
        } else if is_local || nobody_asks {
            Ok(None)
        } else {
            Err(Refusal::Unauthenticated)
        }
    }

    /// May this caller call that at all? What it may say there, its handler asks.
    pub fn admit(&self, caller: &Caller, path: &str) -> Result<Admitted, Refusal> {
        let Some(grants) = &caller.grants else { return Ok(Admitted::everyone()) };
        let roles = table::find(path).map_or(&[][..], |rule| rule.roles);
        let admitting: Vec<Grant> =
            grants.iter().filter(|grant| roles.contains(&grant.role)).cloned().collect();
        if admitting.is_empty() {
            // A path is the caller's own words, unless it is one of ours.
            self.refusals.forbidden(&caller.key, table::find(path).map_or("other", |rule| rule.path));
            return Err(Refusal::Forbidden);
        }
        Ok(Admitted::known(caller.key.clone(), admitting, self.refusals.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::Pace;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn identity(uri: &str) -> Option<Identity> {
        Some(Identity::parse(uri).unwrap())
    }

    fn ask(own: Option<&str>, peer: Peer, path: &str) -> Result<(), Refusal> {
        let authenticator = Authenticator::new(own.and_then(identity), None);
        let mut extensions = Extensions::new();
        extensions.insert(Reached { peer, pace: Pace::new(1) });
        let caller = authenticator.caller(&extensions, &HeaderMap::new())?;
        authenticator.admit(&caller, path).map(|_| ())
    }

    #[test]
    fn certificates_count_in_their_own_trust_domain() {
        let own = Some("spiffe://here/rustle/coordinator");
        let list = |identity| ask(own, Peer::Certified(HERE, identity), "/rustle.v1.Jobs/ListJobs");
        assert_eq!(list(identity("spiffe://here/rustle/operator")), Ok(()));
        assert_eq!(list(identity("spiffe://elsewhere/rustle/operator")), Err(Refusal::Unauthenticated));
        assert_eq!(list(None), Err(Refusal::Unauthenticated));
        assert_eq!(list(identity("spiffe://here/rustle/scraper")), Err(Refusal::Forbidden));
    }

    #[test]
    fn what_is_not_in_the_table_may_not_be_called() {
        let own = Some("spiffe://here/rustle/coordinator");
        let peer = Peer::Certified(HERE, identity("spiffe://here/rustle/operator"));
        for path in ["/rustle.v1.Jobs/Unheard", "/other.Service/Get", "/", ""] {
            assert_eq!(ask(own, peer.clone(), path), Err(Refusal::Forbidden), "{path}");
        }
    }

    #[test]
    fn a_connection_that_says_nothing_of_itself_is_nobody() {
        let own = Some("spiffe://here/rustle/coordinator");
        let path = "/rustle.v1.Jobs/ListJobs";
        assert_eq!(ask(own, Peer::Plain(HERE), path), Err(Refusal::Unauthenticated));
        let authenticator = Authenticator::new(own.and_then(identity), None);
        let caller = authenticator.caller(&Extensions::new(), &HeaderMap::new());
        assert_eq!(caller.unwrap_err(), Refusal::Unauthenticated);
        assert_eq!(ask(own, Peer::Local, path), Ok(()), "this user's own processes");
        assert_eq!(ask(None, Peer::Plain(HERE), path), Ok(()), "nobody asks");
    }
}
