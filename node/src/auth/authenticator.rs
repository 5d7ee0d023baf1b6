//! Authentication: from a connection and a header to a caller's grants, and to the calls they admit.

use http::header::AUTHORIZATION;
use http::{Extensions, HeaderMap};

use proto::TenantId;
use proto::rpc::{CallerRole, Rpc};

use super::refusal::RefusalLog;
use super::{Access, CallerName, ClientKey, Grant, Identity, Refusal, Tokens};
use crate::net::peer::{Peer, PeerInfo, network};

/// A caller as its connection and headers show it.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The caller's name, for limits on each caller.
    pub key: ClientKey,
    /// `None` where callers are not authenticated.
    grants: Option<Vec<Grant>>,
    /// The certificate's URI, the beginning of the token's digest, or both; else where the caller is.
    identity: String,
}

impl Caller {
    /// Returns whether the caller is a worker or a coordinator; true for every caller where none is authenticated.
    pub fn is_of_cluster(&self) -> bool {
        let is_member = |grant: &Grant| matches!(grant.role, CallerRole::Worker | CallerRole::Coordinator);
        self.grants.as_ref().is_none_or(|grants| grants.iter().any(is_member))
    }

    /// Returns the caller's roles that may make a call of `roles`, its identity, and the tenant and the person that any of its
    /// credentials names: one that shows credentials with a tenant and others without is the tenant's all the same.
    pub fn name(&self, roles: &[CallerRole]) -> CallerName {
        let Some(grants) = &self.grants else {
            return CallerName::new(format!("anyone {}", self.identity), None, None);
        };
        let own =
            |role: &&CallerRole| roles.contains(role) && grants.iter().any(|grant| grant.role == **role);
        let own: Vec<&str> = CallerRole::ALL.iter().filter(own).map(|role| role.name()).collect();
        let tenant = tenants(grants).next().cloned();
        // Tokens alone name persons, and a caller shows one token at most.
        let person = grants.iter().find_map(|grant| grant.person.clone());
        CallerName::new(format!("{} {}", own.join("+"), self.identity), tenant, person)
    }
}

fn tenants(grants: &[Grant]) -> impl Iterator<Item = &TenantId> {
    grants.iter().filter_map(|grant| grant.tenant.as_ref())
}

/// What a caller shows.
struct Credentials {
    /// The caller's name, for limits on each caller.
    key: String,
    /// The caller's name in records.
    identity: String,
    grants: Vec<Grant>,
}

/// The credentials that a server requires of its callers.
#[derive(Debug, Default)]
pub struct Authenticator {
    /// Our own identity, where there is TLS: certificates of other trust domains count for nothing.
    own: Option<Identity>,
    tokens: Option<Tokens>,
    refusals: RefusalLog,
}

impl Authenticator {
    /// Returns an authenticator that requires a certificate where `own` is given, and a token where `tokens` is.
    /// Without either it admits every caller.
    pub fn new(own: Option<Identity>, tokens: Option<Tokens>) -> Self {
        Self { own, tokens, refusals: RefusalLog::default() }
    }

    /// Returns the caller of a request, or refuses one that shows no credentials where they are required.
    pub fn caller(&self, extensions: &Extensions, headers: &HeaderMap) -> Result<Caller, Refusal> {
        let peer = extensions.get::<PeerInfo>().map(|info| &info.peer);
        let address = match peer {
            Some(Peer::Plain(address) | Peer::Certified(address, _)) => Some(network(*address)),
            _ => None,
        };
        let shown =
            self.credentials(peer, headers).inspect_err(|_| self.refusals.unauthenticated(address))?;
        let place = address.map_or_else(|| "local".to_owned(), |address| address.to_string());
        Ok(match shown {
            Some(Credentials { key, identity, grants }) => {
                Caller { key: ClientKey(key.into()), grants: Some(grants), identity }
            }
            None => Caller { key: ClientKey(place.as_str().into()), grants: None, identity: place },
        })
    }

    /// Returns what the caller shows by its certificate and token; `None` where neither is required.
    fn credentials(&self, peer: Option<&Peer>, headers: &HeaderMap) -> Result<Option<Credentials>, Refusal> {
        let is_local = peer == Some(&Peer::Local);
        let mut name = String::new();
        let mut identities = Vec::new();
        let mut grants = Vec::new();
        if let Some(Peer::Certified(_, Some(identity))) = peer
            && self.own.as_ref().is_some_and(|own| own.trust_domain == identity.trust_domain)
        {
            name = identity.role.to_string();
            identities.push(identity.to_string());
            grants.push(Grant::from_identity(identity));
        }
        if let Some(tokens) = &self.tokens
            && let Some(presented) = headers.get(AUTHORIZATION)
        {
            // A token that doesn't count is refused, whatever else is shown: its caller should learn of the mistake.
            let (digest, grant) = tokens.find(presented.as_bytes()).ok_or(Refusal::Unauthenticated)?;
            name = format!("{name} {}", &digest[..12]);
            identities.push(format!("token:{}", &digest[..12]));
            grants.push(grant);
        }
        let is_open = self.own.is_none() && self.tokens.is_none();
        if !grants.is_empty() {
            Ok(Some(Credentials { key: name, identity: identities.join(" "), grants }))
        } else if is_local || is_open {
            Ok(None)
        } else {
            Err(Refusal::Unauthenticated)
        }
    }

    /// Checks that the caller's role may make the call. Whether it may name that job is for the call's handler.
    ///
    /// `rpc` is the call's entry in the table of RPCs; `None` where it is not in the table.
    pub fn admit(&self, caller: &Caller, rpc: Option<&Rpc>) -> Result<Access, Refusal> {
        let Some(grants) = &caller.grants else { return Ok(Access::everyone()) };
        let roles = rpc.map_or(&[][..], |rpc| rpc.roles);
        let admitting: Vec<Grant> =
            grants.iter().filter(|grant| roles.contains(&grant.role)).cloned().collect();
        // Which of two tenants a job is charged to is never guessed.
        let is_of_two = tenants(grants).zip(tenants(grants).skip(1)).any(|(one, other)| one != other);
        if admitting.is_empty() || is_of_two {
            // A path that is not in the table is the caller's own text.
            self.refusals.forbidden(&caller.key, rpc.map_or("other", |rpc| rpc.path));
            return Err(Refusal::Forbidden);
        }
        Ok(Access::known(caller.key.clone(), admitting, self.refusals.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proto::rpc;

    use super::*;
    use crate::admission::ReadThrottle;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn identity(uri: &str) -> Option<Identity> {
        Some(Identity::parse(uri).unwrap())
    }

    fn ask(own: Option<&str>, peer: Peer, path: &str) -> Result<(), Refusal> {
        let authenticator = Authenticator::new(own.and_then(identity), None);
        let mut extensions = Extensions::new();
        extensions.insert(PeerInfo { peer, throttle: ReadThrottle::new(1) });
        let caller = authenticator.caller(&extensions, &HeaderMap::new())?;
        authenticator.admit(&caller, rpc::find(path)).map(|_| ())
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
    fn a_callers_name_has_the_roles_that_may_call_and_its_identity() {
        let named = |own: Option<&str>, peer| {
            let authenticator = Authenticator::new(own.and_then(identity), None);
            let mut extensions = Extensions::new();
            extensions.insert(PeerInfo { peer, throttle: ReadThrottle::new(1) });
            let caller = authenticator.caller(&extensions, &HeaderMap::new()).unwrap();
            caller.name(&[CallerRole::Trainer, CallerRole::Operator]).as_str().to_owned()
        };
        let own = Some("spiffe://here/rustle/coordinator");
        let job = named(own, Peer::Certified(HERE, identity("spiffe://here/rustle/job/a")));
        assert_eq!(job, "trainer spiffe://here/rustle/job/a");
        let ads = named(own, Peer::Certified(HERE, identity("spiffe://here/rustle/operator/ads")));
        assert_eq!(ads, "operator spiffe://here/rustle/operator/ads");
        assert_eq!(named(own, Peer::Local), "anyone local");
        assert_eq!(named(None, Peer::Plain(HERE)), "anyone 127.0.0.1");
    }

    #[test]
    fn any_credential_with_a_tenant_makes_the_caller_the_tenants() {
        let tenant =
            |name: &str| Grant { tenant: TenantId::new(name).ok(), ..Grant::for_all(CallerRole::Operator) };
        let all = Grant::for_all(CallerRole::Operator);
        let caller = |grants: &[Grant]| Caller {
            key: ClientKey("c".into()),
            grants: Some(grants.to_vec()),
            identity: "c".to_owned(),
        };
        let of =
            |grants: &[Grant]| caller(grants).name(&[CallerRole::Operator]).tenant().map(ToString::to_string);
        assert_eq!(of(std::slice::from_ref(&all)), None);
        assert_eq!(of(&[all.clone(), tenant("ads")]).as_deref(), Some("ads"));
        assert_eq!(of(&[tenant("ads"), all.clone()]).as_deref(), Some("ads"));
        let authenticator = Authenticator::new(None, None);
        let admit = |grants: &[Grant]| {
            authenticator.admit(&caller(grants), rpc::find("/rustle.v1.Jobs/CreateJob")).map(drop)
        };
        assert_eq!(admit(&[tenant("ads"), all, tenant("ads")]), Ok(()));
        assert_eq!(admit(&[tenant("ads"), tenant("search")]), Err(Refusal::Forbidden));
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
    fn a_connection_without_an_identity_is_unauthenticated() {
        let own = Some("spiffe://here/rustle/coordinator");
        let path = "/rustle.v1.Jobs/ListJobs";
        assert_eq!(ask(own, Peer::Plain(HERE), path), Err(Refusal::Unauthenticated));
        let authenticator = Authenticator::new(own.and_then(identity), None);
        let caller = authenticator.caller(&Extensions::new(), &HeaderMap::new());
        assert_eq!(caller.unwrap_err(), Refusal::Unauthenticated);
        assert_eq!(ask(own, Peer::Local, path), Ok(()), "this user's own processes");
        assert_eq!(ask(None, Peer::Plain(HERE), path), Ok(()), "authentication is off");
    }
}
