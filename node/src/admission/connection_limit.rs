//! The limit on open connections, in total and of each address or caller.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// The open connections, counted by a key such as an address. Clones share the count.
#[derive(Debug)]
pub struct ConnectionLimit<K: Eq + Hash = IpAddr>(Arc<Shared<K>>);

impl<K: Eq + Hash> Clone for ConnectionLimit<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[derive(Debug)]
struct Shared<K> {
    total: usize,
    per_key: usize,
    counts: Mutex<Counts<K>>,
}

#[derive(Debug)]
struct Counts<K> {
    total: usize,
    by_key: HashMap<K, usize>,
}

/// The room of one connection, until it is dropped.
#[derive(Debug)]
pub struct ConnectionPermit<K: Eq + Hash = IpAddr> {
    limit: ConnectionLimit<K>,
    key: K,
}

impl<K: Eq + Hash + Clone> ConnectionLimit<K> {
    /// Returns room for `total` connections, `per_key` of them of one key.
    pub fn new(total: usize, per_key: usize) -> Self {
        let counts = Mutex::new(Counts { total: 0, by_key: HashMap::new() });
        Self(Arc::new(Shared { total, per_key, counts }))
    }

    /// Takes room for one connection of `key`; `None` where there is none.
    pub fn take(&self, key: K) -> Option<ConnectionPermit<K>> {
        let Shared { total, per_key, counts } = &*self.0;
        let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
        let own = counts.by_key.get(&key).copied().unwrap_or(0);
        if counts.total >= *total || own >= *per_key {
            return None;
        }
        counts.total += 1;
        counts.by_key.insert(key.clone(), own + 1);
        Some(ConnectionPermit { limit: self.clone(), key })
    }
}

impl<K: Eq + Hash> Drop for ConnectionPermit<K> {
    fn drop(&mut self) {
        let mut counts = self.limit.0.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.total -= 1;
        let Some(own) = counts.by_key.get_mut(&self.key) else { return };
        *own -= 1;
        if *own == 0 {
            counts.by_key.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_them_all() {
        let limit = ConnectionLimit::new(3, 2);
        let one: IpAddr = [10, 0, 0, 1].into();
        let other: IpAddr = [10, 0, 0, 2].into();
        let held = [limit.take(one).unwrap(), limit.take(one).unwrap()];
        assert!(limit.take(one).is_none());
        let last = limit.take(other).unwrap();
        assert!(limit.take(other).is_none(), "all are taken");
        drop(held);
        drop((limit.take(one).unwrap(), last));
        assert!(limit.0.counts.lock().unwrap().by_key.is_empty());
    }
}
