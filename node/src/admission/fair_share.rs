//! Calls under way: a client has no more of them than are left for other clients.
//!
//! With that one rule a client alone has half of the room, and of n that take all they can get, one after the other, each has
//! half of what the one before left. Nothing is taken back: a dozen can fill it. So an eighth is not for clients at all but
//! for the cluster itself, and calls that never end by themselves, which anyone may make, are few.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::auth::{ClientKey, Refusal};

/// One part of so many is for the cluster's own calls, and as much at most is taken by those that never end.
const RESERVE: usize = 8;
/// Of one client.
const ENDLESS: usize = 16;

/// Who calls, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// Workers and coordinators; everyone, where nobody is asked who they are.
    Cluster,
    Client,
    /// A call of a client that never ends by itself.
    Endless,
}

#[derive(Clone, Debug)]
pub struct Shares(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    all: usize,
    under_way: Mutex<UnderWay>,
}

#[derive(Debug, Default)]
struct UnderWay {
    in_all: usize,
    endless: usize,
    of: HashMap<ClientKey, Own>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Own {
    calls: usize,
    endless: usize,
}

/// Room for one call, until it is dropped.
#[derive(Debug)]
pub struct Share {
    shares: Shares,
    client: ClientKey,
    claim: Claim,
}

impl Shares {
    pub fn new(all: usize) -> Self {
        Self(Arc::new(Shared { all, under_way: Mutex::default() }))
    }

    pub fn take(&self, client: &ClientKey, claim: Claim) -> Result<Share, Refusal> {
        let mut under_way = self.0.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let own = under_way.of.get(client).copied().unwrap_or_default();
        self.check(&under_way, own, claim)?;
        let is_endless = usize::from(claim == Claim::Endless);
        under_way.in_all += 1;
        under_way.endless += is_endless;
        let own = Own { calls: own.calls + 1, endless: own.endless + is_endless };
        under_way.of.insert(client.clone(), own);
        Ok(Share { shares: self.clone(), client: client.clone(), claim })
    }

    fn check(&self, under_way: &UnderWay, own: Own, claim: Claim) -> Result<(), Refusal> {
        let all = self.0.all;
        let reserve = if claim == Claim::Cluster { 0 } else { all / RESERVE };
        let left = all.saturating_sub(under_way.in_all).saturating_sub(reserve);
        let busy = |what, limit| Err(Refusal::Busy { what, limit });
        if left == 0 {
            return busy("room for calls", format!("{} at once", all - reserve));
        }
        if claim != Claim::Cluster && own.calls >= left {
            let limit = format!("as many at once as are left for others, of {}", all - reserve);
            return busy("this caller's share of the calls", limit);
        }
        let most = (all / RESERVE).max(1);
        if claim == Claim::Endless && (own.endless >= ENDLESS || under_way.endless >= most) {
            return busy("room for watches", format!("{ENDLESS} of one caller, {most} of all"));
        }
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut under_way = self.shares.0.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let is_endless = usize::from(self.claim == Claim::Endless);
        under_way.in_all = under_way.in_all.saturating_sub(1);
        under_way.endless = under_way.endless.saturating_sub(is_endless);
        let Some(own) = under_way.of.get_mut(&self.client) else { return };
        own.calls = own.calls.saturating_sub(1);
        own.endless = own.endless.saturating_sub(is_endless);
        if *own == Own::default() {
            under_way.of.remove(&self.client);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_that(shares: &Shares, name: &str, claim: Claim) -> Vec<Share> {
        let client = ClientKey(name.into());
        std::iter::from_fn(|| shares.take(&client, claim).ok()).collect()
    }

    #[test]
    fn however_much_clients_take_others_find_room() {
        let shares = Shares::new(64);
        let clients: Vec<_> = ["a", "b", "c", "d", "e", "f", "g"]
            .into_iter()
            .map(|name| all_that(&shares, name, Claim::Client))
            .collect();
        assert_eq!(clients.iter().map(Vec::len).collect::<Vec<_>>(), [28, 14, 7, 4, 2, 1, 0]);
        assert_eq!(all_that(&shares, "worker", Claim::Cluster).len(), 8, "an eighth is not theirs");
        drop(clients);
        assert_eq!(all_that(&shares, "b", Claim::Client).len(), 28);
        assert_eq!(all_that(&shares, "worker", Claim::Cluster).len(), 64);
        let under_way = shares.0.under_way.lock().unwrap();
        assert_eq!((under_way.in_all, under_way.of.len()), (0, 0));
    }

    #[test]
    fn calls_that_never_end_are_few() {
        let shares = Shares::new(256);
        let watches: Vec<_> =
            ["a", "b", "c"].into_iter().map(|name| all_that(&shares, name, Claim::Endless)).collect();
        assert_eq!(watches.iter().map(Vec::len).collect::<Vec<_>>(), [16, 16, 0]);
        assert_eq!(all_that(&shares, "c", Claim::Client).len(), 96, "half of what is left to clients");
        drop(watches);
        assert_eq!(all_that(&shares, "c", Claim::Endless).len(), 16);
    }

    #[test]
    fn one_call_is_room_for_one() {
        let shares = Shares::new(1);
        let held = all_that(&shares, "a", Claim::Client);
        assert_eq!(held.len(), 1);
        let refused = shares.take(&ClientKey("b".into()), Claim::Cluster);
        assert!(matches!(refused, Err(Refusal::Busy { what: "room for calls", .. })));
    }
}
