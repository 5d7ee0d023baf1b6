//! Calls under way: nobody has more of them than are left for all others.
//!
//! With that one rule a caller alone has half of the room, and with n that take all they can get each has one part of
//! n + 1, so that there is always as much left for whoever comes next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::auth::{ClientKey, Refusal};

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
    of: HashMap<ClientKey, usize>,
}

/// Room for one call, until it is dropped.
#[derive(Debug)]
pub struct Share {
    shares: Shares,
    client: ClientKey,
}

impl Shares {
    pub fn new(all: usize) -> Self {
        Self(Arc::new(Shared { all, under_way: Mutex::default() }))
    }

    pub fn take(&self, client: &ClientKey) -> Result<Share, Refusal> {
        let mut under_way = self.0.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let left = self.0.all.saturating_sub(under_way.in_all);
        if left == 0 {
            return Err(Refusal::Busy { what: "room for calls", limit: format!("{} at once", self.0.all) });
        }
        let own = under_way.of.get(client).copied().unwrap_or(0);
        if own >= left {
            let limit = format!("as many at once as are left for others, of {}", self.0.all);
            return Err(Refusal::Busy { what: "this caller's share of the calls", limit });
        }
        under_way.in_all += 1;
        under_way.of.insert(client.clone(), own + 1);
        Ok(Share { shares: self.clone(), client: client.clone() })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut under_way = self.shares.0.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        under_way.in_all = under_way.in_all.saturating_sub(1);
        match under_way.of.get(&self.client).map_or(0, |own| own.saturating_sub(1)) {
            0 => under_way.of.remove(&self.client),
            left => under_way.of.insert(self.client.clone(), left),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_that(shares: &Shares, name: &str) -> Vec<Share> {
        let client = ClientKey(name.into());
        std::iter::from_fn(|| shares.take(&client).ok()).collect()
    }

    #[test]
    fn however_much_some_take_others_find_room() {
        let shares = Shares::new(64);
        let first = all_that(&shares, "a");
        let second = all_that(&shares, "b");
        let third = all_that(&shares, "c");
        assert_eq!([first.len(), second.len(), third.len()], [32, 16, 8]);
        drop(first);
        assert_eq!(all_that(&shares, "d").len(), 20, "of the 40 that are left");
        drop((second, third));
        assert_eq!(all_that(&shares, "b").len(), 32);
        let under_way = shares.0.under_way.lock().unwrap();
        assert_eq!((under_way.in_all, under_way.of.len()), (0, 0));
    }

    #[test]
    fn one_call_is_room_for_one() {
        let shares = Shares::new(1);
        let held = all_that(&shares, "a");
        assert_eq!(held.len(), 1);
        assert!(matches!(
            shares.take(&ClientKey("b".into())),
            Err(Refusal::Busy { what: "room for calls", .. })
        ));
    }
}
