//! The limit on clients' connections: an eighth of all connections is kept for the cluster itself, as it is of calls,
//! and no certificate has more than half. So neither a job that opens too many nor one whose key was stolen keeps
//! workers from their coordinator.

use super::{ConnectionLimit, ConnectionPermit};
use crate::auth::{Identity, Role};

/// One part in so many is for the cluster's own connections.
const RESERVE: usize = 8;

/// The connections that clients have, counted by caller. Clones share the count.
#[derive(Clone, Debug)]
pub struct ClientConnections(ConnectionLimit<String>);

/// The error where there is no room for another client's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl ClientConnections {
    /// Returns the limit of a server that takes `all` connections.
    pub fn new(all: usize) -> Self {
        Self(ConnectionLimit::new(all - all / RESERVE, all.div_ceil(2)))
    }

    /// Takes room for one connection; `Ok(None)` for workers and coordinators, which need none.
    ///
    /// `caller` is the identity in a certificate, of any trust domain; only one of `own_domain` can be the cluster's.
    pub fn take(
        &self,
        identity: Option<&Identity>,
        own_domain: &str,
        caller: &str,
    ) -> Result<Option<ConnectionPermit<String>>, NoRoom> {
        let is_own = |of: &&Identity| of.trust_domain == own_domain;
        if identity.filter(is_own).is_some_and(|of| matches!(of.role, Role::Worker(_) | Role::Coordinator)) {
            return Ok(None);
        }
        self.0.take(caller.to_owned()).map(Some).ok_or(NoRoom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "lab";

    fn all_that(clients: &ClientConnections, uri: &str) -> Vec<ConnectionPermit<String>> {
        let identity = Identity::parse(uri).unwrap();
        std::iter::from_fn(|| clients.take(Some(&identity), OWN, uri).ok().flatten()).collect()
    }

    #[test]
    fn clients_leave_room_for_workers_and_for_one_another() {
        let clients = ClientConnections::new(16);
        let one = all_that(&clients, "spiffe://lab/rustle/job/one");
        let other = all_that(&clients, "spiffe://lab/rustle/operator");
        assert_eq!((one.len(), other.len()), (8, 6), "two of sixteen are not for them");
        assert_eq!(clients.take(None, OWN, "127.0.0.2").unwrap_err(), NoRoom);
        for role in ["worker/w", "coordinator"] {
            let identity = Identity::parse(&format!("spiffe://lab/rustle/{role}"));
            assert!(clients.take(identity.as_ref(), OWN, role).unwrap().is_none(), "{role}");
        }
        let elsewhere = Identity::parse("spiffe://elsewhere/rustle/worker/w");
        assert_eq!(clients.take(elsewhere.as_ref(), OWN, "w").unwrap_err(), NoRoom);
        drop(one);
        assert_eq!(all_that(&clients, "spiffe://lab/rustle/job/two").len(), 8);
    }

    #[test]
    fn one_connection_is_room_for_one() {
        assert_eq!(all_that(&ClientConnections::new(1), "spiffe://lab/rustle/operator").len(), 1);
    }
}
