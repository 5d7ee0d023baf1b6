//! Handshakes under way. Nobody knows as yet who they are, so none has a right to its place: where all are taken, the
//! address that has most of them loses its oldest. Whoever sends nothing can't keep out those who do.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

#[derive(Clone, Debug)]
pub struct Handshakes(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    most: usize,
    per_address: usize,
    under_way: Mutex<UnderWay>,
}

#[derive(Debug, Default)]
struct UnderWay {
    begun: u64,
    in_all: usize,
    /// Oldest first.
    of: HashMap<IpAddr, VecDeque<(u64, CancellationToken)>>,
}

/// A place among them, until it is dropped.
#[derive(Debug)]
pub struct Handshake {
    all: Handshakes,
    address: IpAddr,
    id: u64,
    ended: CancellationToken,
}

impl Handshakes {
    pub fn new(most: usize, per_address: usize) -> Self {
        Self(Arc::new(Shared { most, per_address, under_way: Mutex::default() }))
    }

    pub fn begin(&self, address: IpAddr) -> Handshake {
        let mut under_way = self.0.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if under_way.of.get(&address).is_some_and(|own| own.len() >= self.0.per_address) {
            under_way.end_oldest(address);
        } else if under_way.in_all >= self.0.most {
            under_way.end_one();
        }
        under_way.begun += 1;
        under_way.in_all += 1;
        let id = under_way.begun;
        let ended = CancellationToken::new();
        under_way.of.entry(address).or_default().push_back((id, ended.clone()));
        Handshake { all: self.clone(), address, id, ended }
    }
}

impl UnderWay {
    /// The oldest of the address that has most; of several that have as many, the oldest.
    fn end_one(&mut self) {
        let age = |queue: &VecDeque<(u64, _)>| queue.front().map_or(0, |(id, _)| u64::MAX - id);
        let most = self.of.iter().max_by_key(|(_, queue)| (queue.len(), age(queue)));
        if let Some(address) = most.map(|(address, _)| *address) {
            self.end_oldest(address);
        }
    }

    fn end_oldest(&mut self, address: IpAddr) {
        if let Some((_, oldest)) = self.of.get(&address).and_then(VecDeque::front) {
            oldest.cancel();
            self.leave(address, 0);
        }
    }

    fn leave(&mut self, address: IpAddr, at: usize) {
        let Some(queue) = self.of.get_mut(&address) else { return };
        if queue.remove(at).is_some() {
            self.in_all -= 1;
        }
        if queue.is_empty() {
            self.of.remove(&address);
        }
    }
}

impl Handshake {
    /// Its place is another's now.
    pub async fn ended(&self) {
        self.ended.cancelled().await;
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut under_way = self.all.0.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        let place = under_way
            .of
            .get(&self.address)
            .and_then(|queue| queue.binary_search_by_key(&self.id, |(id, _)| *id).ok());
        if let Some(place) = place {
            under_way.leave(self.address, place);
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
    fn whoever_has_most_makes_room() {
        let all = Handshakes::new(4, 4);
        let silent: Vec<_> = [2, 3, 2, 4].map(|last| all.begin(address(last))).into();
        let is_ended = |of: &[Handshake]| of.iter().map(|one| one.ended.is_cancelled()).collect::<Vec<_>>();
        let honest = all.begin(address(9));
        assert_eq!(is_ended(&silent), [true, false, false, false]);
        let more = all.begin(address(2));
        assert_eq!(is_ended(&silent), [true, true, false, false], "all have one: the oldest");
        let _last = all.begin(address(5));
        assert_eq!(is_ended(&silent), [true, true, true, false], "2 has two");
        assert!(!honest.ended.is_cancelled() && !more.ended.is_cancelled());
        assert_eq!(all.0.under_way.lock().unwrap().in_all, 4);
    }

    #[test]
    fn one_address_has_no_more_than_its_own() {
        let all = Handshakes::new(8, 2);
        let own: Vec<_> = (0..3).map(|_| all.begin(address(2))).collect();
        assert_eq!(own.iter().map(|one| one.ended.is_cancelled()).collect::<Vec<_>>(), [true, false, false]);
    }

    #[test]
    fn those_that_are_done_leave_nothing() {
        let all = Handshakes::new(2, 2);
        for _ in 0..10 {
            let two = [all.begin(address(2)), all.begin(address(2))];
            assert!(two.iter().all(|one| !one.ended.is_cancelled()));
        }
        let under_way = all.0.under_way.lock().unwrap();
        assert_eq!((under_way.in_all, under_way.of.len()), (0, 0));
    }
}
