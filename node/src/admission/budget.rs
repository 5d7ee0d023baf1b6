//! The amount of something that one caller may have at once: bytes in flight to it or from it, or anything else that can
//! be counted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::auth::{ClientKey, Refusal};

/// An amount for each caller. Clones share what is used of it.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    what: &'static str,
    unit: &'static str,
    limit: u64,
    used: Mutex<HashMap<ClientKey, u64>>,
}

/// An amount taken from a budget, until it is dropped.
#[derive(Debug)]
pub struct Reservation {
    budget: Budget,
    client: ClientKey,
    bytes: u64,
}

impl Budget {
    /// Returns a budget of `limit` bytes in flight to each caller.
    pub fn new(limit: u64) -> Self {
        Self::bytes("bytes on their way to this caller", limit)
    }

    /// Returns a budget of `limit` bytes for each caller; `what` names them in refusals.
    pub fn bytes(what: &'static str, limit: u64) -> Self {
        Self::counting(what, "bytes", limit)
    }

    /// Returns a budget of `limit` of anything for each caller; `what` and `unit` name it in refusals.
    pub fn counting(what: &'static str, unit: &'static str, limit: u64) -> Self {
        Self(Arc::new(Shared { what, unit, limit, used: Mutex::default() }))
    }

    /// Takes `bytes` of the caller's budget, or refuses. An amount larger than the whole budget is admitted alone.
    pub fn take(&self, client: &ClientKey, bytes: u64) -> Result<Reservation, Refusal> {
        let mut used = self.0.used.lock().unwrap_or_else(PoisonError::into_inner);
        let own = used.get(client).copied().unwrap_or(0);
        if own > 0 && own.saturating_add(bytes) > self.0.limit {
            let limit = format!("{} {}", self.0.limit, self.0.unit);
            return Err(Refusal::Busy { what: self.0.what, limit });
        }
        used.insert(client.clone(), own.saturating_add(bytes));
        Ok(Reservation { budget: self.clone(), client: client.clone(), bytes })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut used = self.budget.0.used.lock().unwrap_or_else(PoisonError::into_inner);
        match used.get(&self.client).map_or(0, |own| own.saturating_sub(self.bytes)) {
            0 => used.remove(&self.client),
            left => used.insert(self.client.clone(), left),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_waits_for_the_first_where_both_are_too_much() {
        let budget = Budget::new(100);
        let a = ClientKey("a".into());
        let b = ClientKey("b".into());
        let whole = budget.take(&a, 1000).unwrap();
        assert!(matches!(budget.take(&a, 1), Err(Refusal::Busy { .. })));
        let _others_own = budget.take(&b, 60).unwrap();
        drop(whole);
        let _part = budget.take(&a, 60).unwrap();
        assert!(budget.take(&a, 41).is_err());
        budget.take(&a, 40).unwrap();
    }
}
