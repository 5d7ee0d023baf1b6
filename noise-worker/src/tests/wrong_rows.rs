//! A worker on a host that computes wrongly.

use std::sync::atomic::Ordering;

use noise_kernel::Backend;

use super::*;
use crate::row_check::check_every_core;

/// The job's other shard, which the same worker holds.
fn other_shard() -> LeaseGrant {
    LeaseGrant { shard: 0, range: CoordinateRange { start: 0, end: 512 }, ..grant() }
}

/// A worker that checks every block.
fn worker() -> Worker {
    let limits = limits_by(&["worker", "--recheck-one-in", "1"]);
    Worker::with_limits(limits, ReleaseLog::open(None).unwrap(), grant(), Duration::ZERO)
}

#[test]
fn every_core_of_a_sound_host_has_the_known_answers() {
    check_every_core(Backend::Auto).unwrap();
}

#[tokio::test]
async fn after_a_wrong_bit_nothing_is_released_of_any_shard_and_none_is_begun() {
    let worker = worker();
    assert_eq!(worker.fetch(request(0)).await.unwrap(), expected(0, RANGE));
    let limits = worker.leases.limits.clone();
    // The rows that are ready were checked; a row of the other shard, or one more of this, is wrong.
    limits.row_check.planted_from.store(0, Ordering::Relaxed);
    let lease = |leases| worker.leases.apply(leases, verifier(), TTL, Instant::now(), &plans());
    lease(GrantedLeases { leases: vec![grant(), other_shard()], ..GrantedLeases::default() });
    limits.row_check.stopped().await;
    assert_eq!(worker.refused(request(0)), "wrong_rows");
    assert_eq!(worker.refused(request(7)), "wrong_rows");
    let error = limits.row_check.ensure_sound().unwrap_err();
    assert!(matches!(error, ServiceError::WrongRows { .. }), "{error}");
    assert!(error.retry_safe() && error.is_notable(), "{error}");
    // A lease that is taken after it fails too, so that the coordinator finds another worker.
    lease(GrantedLeases {
        leases: vec![LeaseGrant { epoch: EPOCH + 1, ..other_shard() }],
        ..GrantedLeases::default()
    });
    let failed = || worker.leases.status().iter().all(|lease| lease.state() == pb::LeaseState::Failed);
    while !failed() {
        tokio::task::yield_now().await;
    }
    let status = worker.leases.status().remove(0);
    assert!(status.message.contains("computes wrongly"), "{}", status.message);
}

#[tokio::test]
async fn shards_that_are_ready_fail_with_the_one_that_was_wrong() {
    let worker = worker();
    worker.fetch(request(7)).await.unwrap();
    worker.leases.limits.row_check.planted_from.store(0, Ordering::Relaxed);
    let granted = GrantedLeases { leases: vec![grant(), other_shard()], ..GrantedLeases::default() };
    worker.leases.apply(granted, verifier(), TTL, Instant::now(), &plans());
    let all_failed = || worker.leases.status().iter().all(|lease| lease.state() == pb::LeaseState::Failed);
    while worker.leases.status().len() < 2 || !all_failed() {
        tokio::task::yield_now().await;
    }
}

fn plans() -> Arc<dyn PlanSource> {
    Arc::new(ThePlan)
}
