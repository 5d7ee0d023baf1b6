//! Caps on open connections.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Clone, Debug)]
pub struct Slots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    total: usize,
    per_address: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    of: HashMap<IpAddr, usize>,
}

/// Room for one connection, until it is dropped.
#[derive(Debug)]
pub struct Slot {
    slots: Slots,
    address: IpAddr,
}

impl Slots {
    pub fn new(total: usize, per_address: usize) -> Self {
        Self(Arc::new(Shared { total, per_address, taken: Mutex::default() }))
    }

    pub fn take(&self, address: IpAddr) -> Option<Slot> {
        let Shared { total, per_address, taken } = &*self.0;
        let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        let own = taken.of.get(&address).copied().unwrap_or(0);
        if taken.total >= *total || own >= *per_address {
            return None;
        }
        taken.total += 1;
        taken.of.insert(address, own + 1);
        Some(Slot { slots: self.clone(), address })
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut taken = self.slots.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.total -= 1;
        let own = taken.of.get(&self.address).copied().unwrap_or(1) - 1;
        match own {
            0 => taken.of.remove(&self.address),
            own => taken.of.insert(self.address, own),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_address_cannot_take_them_all() {
        let slots = Slots::new(3, 2);
        let (one, other) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        let held = [slots.take(one).unwrap(), slots.take(one).unwrap()];
        assert!(slots.take(one).is_none());
        let last = slots.take(other).unwrap();
        assert!(slots.take(other).is_none(), "all are taken");
        drop(held);
        drop((slots.take(one).unwrap(), last));
        assert!(slots.0.taken.lock().unwrap().of.is_empty());
    }
}
