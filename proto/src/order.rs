//! Orders of a coordinator to a worker: signed, for one worker, once, for a short time.

use prost::Message;

use crate::{
    CoordinatorKey, CoordinatorPublicKey, JobId, Result, ServiceError, SignedText, WorkerId,
    coordinator_key::{SIGNATURE_BYTES, signature},
    pb,
};

const SNAPSHOT: &str = "rustle order: snapshot v1";

/// The order to write the state of a shard to the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotOrder {
    /// The worker that is to obey.
    pub worker: WorkerId,
    /// The job.
    pub job: JobId,
    /// The shard's number.
    pub shard: u32,
    /// The epoch of the worker's lease.
    pub lease_epoch: u64,
    /// The name of the object to write.
    pub object: String,
    /// The epoch of the coordinator that orders it.
    pub coordinator_epoch: u64,
    /// The end of the order, in milliseconds on that coordinator's clock, as that of a release grant.
    pub until_ms: u64,
}

/// An order as it arrived, not yet checked: the bytes that were signed, and the signature.
#[derive(Clone, Debug)]
pub struct SignedSnapshot {
    bytes: Vec<u8>,
    signature: [u8; SIGNATURE_BYTES],
}

impl CoordinatorKey {
    /// Signs an order.
    pub fn order(&self, order: &SnapshotOrder) -> pb::SnapshotRequest {
        let SnapshotOrder { worker, job, shard, lease_epoch, object, coordinator_epoch, until_ms } =
            order.clone();
        let order = pb::SnapshotOrder {
            worker: worker.to_string(),
            job: job.to_string(),
            shard,
            lease_epoch,
            object,
            coordinator_epoch,
            until_ms,
        };
        let order = order.encode_to_vec();
        let signature = self.sign(&SignedText::new(SNAPSHOT, &[&order])).to_vec();
        pb::SnapshotRequest { order, signature }
    }
}

impl TryFrom<pb::SnapshotRequest> for SignedSnapshot {
    type Error = ServiceError;
    fn try_from(request: pb::SnapshotRequest) -> Result<Self> {
        Ok(Self { bytes: request.order, signature: signature("signature", &request.signature)? })
    }
}

impl SignedSnapshot {
    /// Returns the signature, which no other order has.
    pub fn signature(&self) -> &[u8; SIGNATURE_BYTES] {
        &self.signature
    }

    /// Returns the order, if the owner of the key signed it.
    ///
    /// # Errors
    /// [`ServiceError::PermissionDenied`] where it did not, and [`ServiceError::InvalidArgument`] for an order that it
    /// signed and that can't be read.
    pub fn verify(&self, key: &CoordinatorPublicKey) -> Result<SnapshotOrder> {
        if !key.has_signed(&SignedText::new(SNAPSHOT, &[&self.bytes]), &self.signature) {
            return Err(ServiceError::PermissionDenied);
        }
        let unreadable = |error| ServiceError::invalid("order", error, "a SnapshotOrder");
        let order = pb::SnapshotOrder::decode(self.bytes.as_slice()).map_err(unreadable)?;
        let pb::SnapshotOrder { worker, job, shard, lease_epoch, object, coordinator_epoch, until_ms } =
            order;
        Ok(SnapshotOrder {
            worker: WorkerId::new(worker)?,
            job: JobId::new(job)?,
            shard,
            lease_epoch,
            object,
            coordinator_epoch,
            until_ms,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_the_coordinators_or_refused() {
        let key = CoordinatorKey::new(&[1; 32]);
        let order = SnapshotOrder {
            worker: WorkerId::new("w").unwrap(),
            job: JobId::new("j").unwrap(),
            shard: 1,
            lease_epoch: 2,
            object: "j/3/0-512.shard".into(),
            coordinator_epoch: 4,
            until_ms: 5,
        };
        let good = key.order(&order);
        let verify = |request: pb::SnapshotRequest| SignedSnapshot::try_from(request)?.verify(&key.public());
        assert_eq!(verify(good.clone()), Ok(order.clone()));
        let refused = |request: pb::SnapshotRequest| verify(request).unwrap_err().kind();
        assert_eq!(refused(pb::SnapshotRequest { signature: vec![], ..good.clone() }), "invalid_argument");
        assert_eq!(
            refused(pb::SnapshotRequest { signature: vec![1; 64], ..good.clone() }),
            "permission_denied"
        );
        assert_eq!(
            refused(pb::SnapshotRequest { signature: vec![1; 63], ..good.clone() }),
            "invalid_argument"
        );
        for at in 0..good.order.len() {
            let mut changed = good.clone();
            changed.order[at] ^= 1;
            assert_eq!(refused(changed), "permission_denied", "byte {at}");
        }
        assert_eq!(refused(CoordinatorKey::new(&[2; 32]).order(&order)), "permission_denied");
        // The same bytes, signed as something else.
        let text = SignedText::new("rustle release grant v3", &[&good.order]);
        let signature = key.sign(&text).to_vec();
        assert_eq!(refused(pb::SnapshotRequest { signature, ..good }), "permission_denied");
    }
}
