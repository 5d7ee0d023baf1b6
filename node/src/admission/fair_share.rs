//! The limit on calls in flight: a client has no more of them than are left for other clients.
//!
//! By that one rule a client alone has half of the room. Of n clients that take all they can get, one after the other,
//! each has half of what the one before left. Nothing is taken back, so a dozen can fill the room. Therefore an eighth is
//! kept for the cluster itself, and calls that never end by themselves, which any client may make, are few.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::auth::{ClientKey, Refusal};

/// One part in so many is for the cluster's own calls; endless calls take as much at most.
const RESERVE: usize = 8;
/// Endless calls of one client.
const ENDLESS_PER_CLIENT: usize = 16;

/// The class of a call, which decides the room it may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallClass {
    /// A call of a worker or a coordinator; every call, where callers are not authenticated.
    Cluster,
    /// A call of a client that ends by itself.
    Client,
    /// A call of a client that never ends by itself.
    Endless,
}

/// The calls in flight of all callers. Clones share the count.
#[derive(Clone, Debug)]
pub struct FairShare(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    all: usize,
    in_flight: Mutex<InFlight>,
}

#[derive(Debug, Default)]
struct InFlight {
    total: usize,
    endless: usize,
    by_client: HashMap<ClientKey, Own>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Own {
    calls: usize,
    endless: usize,
}

/// The room of one call, until it is dropped.
#[derive(Debug)]
pub struct CallPermit {
    calls: FairShare,
    client: ClientKey,
    class: CallClass,
}

impl FairShare {
    /// Returns room for `all` calls at once.
    pub fn new(all: usize) -> Self {
        Self(Arc::new(Shared { all, in_flight: Mutex::default() }))
    }

    /// Takes room for one call of `client`.
    pub fn take(&self, client: &ClientKey, class: CallClass) -> Result<CallPermit, Refusal> {
        let mut in_flight = self.0.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let own = in_flight.by_client.get(client).copied().unwrap_or_default();
        self.check(&in_flight, own, class)?;
        let is_endless = usize::from(class == CallClass::Endless);
        in_flight.total += 1;
        in_flight.endless += is_endless;
        let own = Own { calls: own.calls + 1, endless: own.endless + is_endless };
        in_flight.by_client.insert(client.clone(), own);
        Ok(CallPermit { calls: self.clone(), client: client.clone(), class })
    }

    fn check(&self, in_flight: &InFlight, own: Own, class: CallClass) -> Result<(), Refusal> {
        let all = self.0.all;
        let reserve = if class == CallClass::Cluster { 0 } else { all / RESERVE };
        let left = all.saturating_sub(in_flight.total).saturating_sub(reserve);
        let busy = |what, limit| Err(Refusal::Busy { what, limit });
        if left == 0 {
            return busy("room for calls", format!("{} at once", all - reserve));
        }
        if class != CallClass::Cluster && own.calls >= left {
            let limit = format!("as many at once as are left for others, of {}", all - reserve);
            return busy("this caller's share of the calls", limit);
        }
        let most = (all / RESERVE).max(1);
        if class == CallClass::Endless && (own.endless >= ENDLESS_PER_CLIENT || in_flight.endless >= most) {
            return busy("room for watches", format!("{ENDLESS_PER_CLIENT} of one caller, {most} of all"));
        }
        Ok(())
    }
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        let mut in_flight = self.calls.0.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let is_endless = usize::from(self.class == CallClass::Endless);
        in_flight.total = in_flight.total.saturating_sub(1);
        in_flight.endless = in_flight.endless.saturating_sub(is_endless);
        let Some(own) = in_flight.by_client.get_mut(&self.client) else { return };
        own.calls = own.calls.saturating_sub(1);
        own.endless = own.endless.saturating_sub(is_endless);
        if *own == Own::default() {
            in_flight.by_client.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_that(calls: &FairShare, name: &str, class: CallClass) -> Vec<CallPermit> {
        let client = ClientKey(name.into());
        std::iter::from_fn(|| calls.take(&client, class).ok()).collect()
    }

    #[test]
    fn however_much_clients_take_others_find_room() {
        let calls = FairShare::new(64);
        let clients: Vec<_> = ["a", "b", "c", "d", "e", "f", "g"]
            .into_iter()
            .map(|name| all_that(&calls, name, CallClass::Client))
            .collect();
        assert_eq!(clients.iter().map(Vec::len).collect::<Vec<_>>(), [28, 14, 7, 4, 2, 1, 0]);
        assert_eq!(all_that(&calls, "worker", CallClass::Cluster).len(), 8, "an eighth is not theirs");
        drop(clients);
        assert_eq!(all_that(&calls, "b", CallClass::Client).len(), 28);
        assert_eq!(all_that(&calls, "worker", CallClass::Cluster).len(), 64);
        let in_flight = calls.0.in_flight.lock().unwrap();
        assert_eq!((in_flight.total, in_flight.by_client.len()), (0, 0));
    }

    #[test]
    fn calls_that_never_end_are_few() {
        let calls = FairShare::new(256);
        let watches: Vec<_> =
            ["a", "b", "c"].into_iter().map(|name| all_that(&calls, name, CallClass::Endless)).collect();
        assert_eq!(watches.iter().map(Vec::len).collect::<Vec<_>>(), [16, 16, 0]);
        assert_eq!(all_that(&calls, "c", CallClass::Client).len(), 96, "half of what is left to clients");
        drop(watches);
        assert_eq!(all_that(&calls, "c", CallClass::Endless).len(), 16);
    }

    #[test]
    fn one_call_is_room_for_one() {
        let calls = FairShare::new(1);
        let held = all_that(&calls, "a", CallClass::Client);
        assert_eq!(held.len(), 1);
        let refused = calls.take(&ClientKey("b".into()), CallClass::Cluster);
        assert!(matches!(refused, Err(Refusal::Busy { what: "room for calls", .. })));
    }
}
