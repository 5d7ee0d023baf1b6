//! Shards under new grants.

use proto::CoordinateRange;

use super::*;

const NONCE: proto::Nonce = proto::Nonce::from_bytes([5; 32]);

pub fn shard() -> Arc<Shard> {
    Shard::new(LeaseGrant {
        job: JobId::new("j").unwrap(),
        job_nonce: NONCE,
        ledger: NONCE,
        lineage: proto::Lineage::of_job(NONCE),
        shard: 0,
        range: CoordinateRange { start: 0, end: 4 },
        epoch: 1,
        dimension: 4,
        plan_digest: [0; 32],
        layout_digest: [0; 32],
        key_commitment: [0; 32],
        next_row: 0,
        store_url: String::new(),
        pieces: vec![],
    })
}

#[test]
fn a_failed_shard_is_tried_anew_under_a_new_epoch() {
    let shard = shard();
    let again = LeaseGrant { epoch: 2, ..shard.grant().clone() };
    assert!(shard.adopt(&again) && shard.epoch() == 2);
    shard.fail(ServiceError::Draining);
    let later = LeaseGrant { epoch: 3, ..again };
    assert!(!shard.adopt(&later) && shard.epoch() == 2);
}

#[test]
fn a_shard_that_is_ready_goes_on_whatever_its_store_is_called() {
    let shard = shard();
    let elsewhere = LeaseGrant { epoch: 2, store_url: "file:///elsewhere".into(), ..shard.grant().clone() };
    assert!(!shard.adopt(&elsewhere), "it waits for a store that is not the one any more");
    assert_eq!((shard.epoch(), shard.store_url().as_str()), (1, ""));
    shard.rows().phase = Phase::Ready;
    assert!(shard.adopt(&elsewhere));
    assert_eq!((shard.epoch(), shard.store_url().as_str()), (2, "file:///elsewhere"));
    let other_plan = LeaseGrant { plan_digest: [1; 32], ..elsewhere };
    assert!(!shard.adopt(&other_plan));
}
