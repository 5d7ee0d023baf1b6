//! The TLS handshakes in progress. Their peers are not known yet, so none has a right to its place: where all places
//! are taken, the address that has most of them loses its oldest. A peer that sends nothing can't keep out one that does.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// The handshakes in progress. Clones share them.
#[derive(Clone, Debug)]
pub struct Handshakes(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    per_address: usize,
    in_flight: Mutex<InFlight>,
}

#[derive(Debug, Default)]
struct InFlight {
    begun: u64,
    in_all: usize,
    /// Oldest first.
    by_address: HashMap<IpAddr, VecDeque<(u64, CancellationToken)>>,
}

/// The place of one handshake in progress, until it is dropped.
#[derive(Debug)]
pub struct Handshake {
    all: Handshakes,
    address: IpAddr,
    id: u64,
    evicted: CancellationToken,
}

impl Handshakes {
    /// Returns room for `limit` handshakes, `per_address` of them of one address.
    pub fn new(limit: usize, per_address: usize) -> Self {
        Self(Arc::new(Shared { limit, per_address, in_flight: Mutex::default() }))
    }

    /// Takes a place for a handshake of `address`, where needed that of another.
    pub fn begin(&self, address: IpAddr) -> Handshake {
        let mut in_flight = self.0.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        if in_flight.by_address.get(&address).is_some_and(|own| own.len() >= self.0.per_address) {
            in_flight.evict_oldest(address);
        } else if in_flight.in_all >= self.0.limit {
            in_flight.evict_one();
        }
        in_flight.begun += 1;
        in_flight.in_all += 1;
        let id = in_flight.begun;
        let evicted = CancellationToken::new();
        in_flight.by_address.entry(address).or_default().push_back((id, evicted.clone()));
        Handshake { all: self.clone(), address, id, evicted }
    }
}

impl InFlight {
    /// Evicts the oldest handshake of the address that has most; of several such addresses, the oldest of all.
    fn evict_one(&mut self) {
        let age = |queue: &VecDeque<(u64, _)>| queue.front().map_or(0, |(id, _)| u64::MAX - id);
        let most = self.by_address.iter().max_by_key(|(_, queue)| (queue.len(), age(queue)));
        if let Some(address) = most.map(|(address, _)| *address) {
            self.evict_oldest(address);
        }
    }

    fn evict_oldest(&mut self, address: IpAddr) {
        if let Some((_, oldest)) = self.by_address.get(&address).and_then(VecDeque::front) {
            oldest.cancel();
            self.leave(address, 0);
        }
    }

    fn leave(&mut self, address: IpAddr, at: usize) {
        let Some(queue) = self.by_address.get_mut(&address) else { return };
        if queue.remove(at).is_some() {
            self.in_all -= 1;
        }
        if queue.is_empty() {
            self.by_address.remove(&address);
        }
    }
}

impl Handshake {
    /// Waits until another handshake has taken the place.
    pub async fn evicted(&self) {
        self.evicted.cancelled().await;
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut in_flight = self.all.0.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let place = in_flight
            .by_address
            .get(&self.address)
            .and_then(|queue| queue.binary_search_by_key(&self.id, |(id, _)| *id).ok());
        if let Some(place) = place {
            in_flight.leave(self.address, place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(last: u8) -> IpAddr {
        [127, 0, 0, last].into()
    }

    #[test]
    fn the_address_with_most_handshakes_makes_room() {
        let all = Handshakes::new(4, 4);
        let silent: Vec<_> = [2, 3, 2, 4].map(|last| all.begin(address(last))).into();
        let is_ended = |of: &[Handshake]| of.iter().map(|one| one.evicted.is_cancelled()).collect::<Vec<_>>();
        let honest = all.begin(address(9));
        assert_eq!(is_ended(&silent), [true, false, false, false]);
        let more = all.begin(address(2));
        assert_eq!(is_ended(&silent), [true, true, false, false], "all have one: the oldest");
        let _last = all.begin(address(5));
        assert_eq!(is_ended(&silent), [true, true, true, false], "2 has two");
        assert!(!honest.evicted.is_cancelled() && !more.evicted.is_cancelled());
        assert_eq!(all.0.in_flight.lock().unwrap().in_all, 4);
    }

    #[test]
    fn one_address_has_no_more_than_its_own() {
        let all = Handshakes::new(8, 2);
        let own: Vec<_> = (0..3).map(|_| all.begin(address(2))).collect();
        assert_eq!(
            own.iter().map(|one| one.evicted.is_cancelled()).collect::<Vec<_>>(),
            [true, false, false]
        );
    }

    #[test]
    fn those_that_are_done_leave_nothing() {
        let all = Handshakes::new(2, 2);
        for _ in 0..10 {
            let two = [all.begin(address(2)), all.begin(address(2))];
            assert!(two.iter().all(|one| !one.evicted.is_cancelled()));
        }
        let in_flight = all.0.in_flight.lock().unwrap();
        assert_eq!((in_flight.in_all, in_flight.by_address.len()), (0, 0));
    }
}
