//! Connections of clients: an eighth of all is not for them but for the cluster itself, as it is of calls, and no
//! certificate has more than half. So neither a job that opens too many nor one that has lost its key keeps workers
//! from their coordinator.

use super::{Slot, Slots};
use crate::auth::{Identity, Role};

/// One part of so many is for the cluster's own connections.
const RESERVE: usize = 8;

#[derive(Clone, Debug)]
pub struct Clients(Slots<String>);

/// There is no room for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl Clients {
    /// Of so many connections in all.
    pub fn new(all: usize) -> Self {
        Self(Slots::new(all - all / RESERVE, all.div_ceil(2)))
    }

    /// `None` for workers and coordinators: others of the cluster's connections are counted nowhere else either.
    /// `caller` is what a certificate says, in the process's own trust domain or another, which counts for nothing.
    pub fn take(
        &self,
        identity: Option<&Identity>,
        own_domain: &str,
        caller: &str,
    ) -> Result<Option<Slot<String>>, Full> {
        let is_own = |of: &&Identity| of.trust_domain == own_domain;
        if identity.filter(is_own).is_some_and(|of| matches!(of.role, Role::Worker(_) | Role::Coordinator)) {
            return Ok(None);
        }
        self.0.take(caller.to_owned()).map(Some).ok_or(Full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "lab";

    fn all_that(clients: &Clients, uri: &str) -> Vec<Slot<String>> {
        let identity = Identity::parse(uri).unwrap();
        std::iter::from_fn(|| clients.take(Some(&identity), OWN, uri).ok().flatten()).collect()
    }

    #[test]
    fn clients_leave_room_for_workers_and_for_one_another() {
        let clients = Clients::new(16);
        let one = all_that(&clients, "spiffe://lab/rustle/job/one");
        let other = all_that(&clients, "spiffe://lab/rustle/operator");
        assert_eq!((one.len(), other.len()), (8, 6), "two of sixteen are not for them");
        assert_eq!(clients.take(None, OWN, "127.0.0.2").unwrap_err(), Full);
        for role in ["worker/w", "coordinator"] {
            let identity = Identity::parse(&format!("spiffe://lab/rustle/{role}"));
            assert!(clients.take(identity.as_ref(), OWN, role).unwrap().is_none(), "{role}");
        }
        let elsewhere = Identity::parse("spiffe://elsewhere/rustle/worker/w");
        assert_eq!(clients.take(elsewhere.as_ref(), OWN, "w").unwrap_err(), Full);
        drop(one);
        assert_eq!(all_that(&clients, "spiffe://lab/rustle/job/two").len(), 8);
    }

    #[test]
    fn one_connection_is_room_for_one() {
        assert_eq!(all_that(&Clients::new(1), "spiffe://lab/rustle/operator").len(), 1);
    }
}
