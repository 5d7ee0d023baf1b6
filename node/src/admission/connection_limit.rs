//! Caps on open connections, of all and of each address or caller.

use std::collections::HashMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug)]
pub struct Slots<K: Eq + Hash = IpAddr>(Arc<Shared<K>>);

impl<K: Eq + Hash> Clone for Slots<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

#[derive(Debug)]
struct Shared<K> {
    total: usize,
    per_key: usize,
    taken: Mutex<Taken<K>>,
}

#[derive(Debug)]
struct Taken<K> {
    total: usize,
    of: HashMap<K, usize>,
}

/// Room for one connection, until it is dropped.
#[derive(Debug)]
pub struct Slot<K: Eq + Hash = IpAddr> {
    slots: Slots<K>,
    key: K,
}

impl<K: Eq + Hash + Clone> Slots<K> {
    pub fn new(total: usize, per_key: usize) -> Self {
        let taken = Mutex::new(Taken { total: 0, of: HashMap::new() });
        Self(Arc::new(Shared { total, per_key, taken }))
    }

    pub fn take(&self, key: K) -> Option<Slot<K>> {
        let Shared { total, per_key, taken } = &*self.0;
        let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.of.get(&key).copied().unwrap_or(0);
        if taken.total >= *total || own >= *per_key {
            return None;
        }
        taken.total += 1;
        taken.of.insert(key.clone(), own + 1);
        Some(Slot { slots: self.clone(), key })
    }
}

impl<K: Eq + Hash> Drop for Slot<K> {
    fn drop(&mut self) {
        let mut taken = self.slots.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.total -= 1;
        let Some(own) = taken.of.get_mut(&self.key) else { return };
        *own -= 1;
        if *own == 0 {
            taken.of.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_them_all() {
        let slots = Slots::new(3, 2);
        let one: IpAddr = [10, 0, 0, 1].into();
        let other: IpAddr = [10, 0, 0, 2].into();
        let held = [slots.take(one).unwrap(), slots.take(one).unwrap()];
        assert!(slots.take(one).is_none());
        let last = slots.take(other).unwrap();
        assert!(slots.take(other).is_none(), "all are taken");
        drop(held);
        drop((slots.take(one).unwrap(), last));
        assert!(slots.0.taken.lock().unwrap().of.is_empty());
    }
}
