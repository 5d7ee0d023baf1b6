//! Orders of the coordinator: each is obeyed once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use proto::{Result, SIGNATURE_BYTES, ServiceError, SignedSnapshot, SnapshotOrder, WorkerId};
use tokio::time::Instant;

use crate::token_verifier::TokenVerifier;

/// The time by which an order may look younger after a later heartbeat. The coordinator's clock as a worker knows it runs
/// early by the time that the last heartbeat's answer took, which is shorter than this: an order that was over may be good
/// again for as long.
const LONGEST_ANSWER: Duration = Duration::from_secs(60);

/// The orders that one worker has obeyed, for as long as they could be repeated.
#[derive(Debug)]
pub struct Orders {
    worker: WorkerId,
    obeyed: Mutex<HashMap<[u8; SIGNATURE_BYTES], Instant>>,
}

impl Orders {
    /// Creates the book of a worker.
    pub fn new(worker: WorkerId) -> Self {
        Self { worker, obeyed: Mutex::default() }
    }

    /// Returns an order that is to be obeyed: it is the coordinator's, for this worker, and new. A second one of the
    /// same object would write a later state over what a checkpoint names.
    pub fn accept(&self, verifier: &TokenVerifier, signed: &SignedSnapshot) -> Result<SnapshotOrder> {
        let (order, left_ms) = verifier.check_order(&self.worker, signed)?;
        let now = Instant::now();
        let mut obeyed = self.obeyed.lock().unwrap_or_else(PoisonError::into_inner);
        obeyed.retain(|_, until| now < *until);
        let until = now + Duration::from_millis(left_ms + 1) + LONGEST_ANSWER;
        if obeyed.insert(*signed.signature(), until).is_some() {
            return Err(ServiceError::PermissionDenied);
        }
        Ok(order)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proto::{CoordinatorKey, JobId, pb};

    use super::*;

    fn order() -> SnapshotOrder {
        SnapshotOrder {
            worker: WorkerId::new("w").unwrap(),
            job: JobId::new("j").unwrap(),
            shard: 1,
            lease_epoch: 2,
            object: "j/3/0-512.shard".into(),
            coordinator_epoch: 4,
            until_ms: 60_000,
        }
    }

    fn verifier(key: &CoordinatorKey, coordinator_ms: u64) -> TokenVerifier {
        TokenVerifier {
            key: key.public(),
            epoch: 4,
            coordinator_ms,
            requested_at: Instant::now(),
            known: Arc::default(),
        }
    }

    /// The heartbeat before had a slow answer: by it the order was nearly over.
    #[test]
    fn an_order_is_not_good_again_after_a_faster_heartbeat() {
        let key = CoordinatorKey::new(&[1; 32]);
        let orders = Orders::new(WorkerId::new("w").unwrap());
        let signed: SignedSnapshot = key.order(&order()).try_into().unwrap();
        orders.accept(&verifier(&key, 59_800), &signed).unwrap();
        std::thread::sleep(Duration::from_millis(210));
        let again = orders.accept(&verifier(&key, 59_000), &signed);
        assert_eq!(again, Err(ServiceError::PermissionDenied));
    }

    #[test]
    fn an_order_is_obeyed_once_in_its_time_by_the_worker_it_names() {
        let key = CoordinatorKey::new(&[1; 32]);
        let verifier = verifier(&key, 1_000);
        let orders = Orders::new(WorkerId::new("w").unwrap());
        let accept = |request: pb::SnapshotRequest| orders.accept(&verifier, &request.try_into()?);
        let give = |order: SnapshotOrder| accept(key.order(&order));
        assert_eq!(give(order()), Ok(order()));
        assert_eq!(give(order()), Err(ServiceError::PermissionDenied), "a second time");
        let next = SnapshotOrder { object: "j/4/0-512.shard".into(), ..order() };
        assert_eq!(give(next.clone()), Ok(next));
        let kind = |order: SnapshotOrder| give(order).unwrap_err().kind();
        assert_eq!(
            kind(SnapshotOrder { worker: WorkerId::new("v").unwrap(), ..order() }),
            "permission_denied"
        );
        assert_eq!(kind(SnapshotOrder { coordinator_epoch: 3, ..order() }), "stale_epoch");
        assert_eq!(kind(SnapshotOrder { coordinator_epoch: 5, ..order() }), "permission_denied");
        assert_eq!(kind(SnapshotOrder { until_ms: 1_000, ..order() }), "invalid_argument");
        let by_worker = CoordinatorKey::new(verifier.key.as_bytes());
        assert_eq!(accept(by_worker.order(&order())), Err(ServiceError::PermissionDenied));
    }
}
