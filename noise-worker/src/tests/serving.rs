//! Rows of a lease, and the requests that are refused.

use super::*;

#[tokio::test]
async fn rows_of_a_good_lease_are_the_oracles() {
    let worker = Worker::with(grant(), Duration::ZERO);
    for row in [0, 7, 3] {
        assert_eq!(worker.fetch(request(row)).await.unwrap(), expected(row, RANGE), "row {row}");
    }
    let within = CoordinateRange { start: 700, end: 1_300 };
    let part = worker.fetch(FetchSlice { range: within, ..request(2) }).await.unwrap();
    assert_eq!(part, expected(2, within));
}

/// Relieved because it was slow, or thought slow when it started, it would else never be known to be well again.
#[tokio::test]
async fn a_worker_measures_itself_anew_only_while_it_holds_nothing() {
    let worker = Worker::with(grant(), Duration::ZERO);
    let throughput = &worker.leases.limits.throughput;
    // The last row of the job: after it no row is left to generate, which would change the rate too.
    worker.fetch(request(7)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    throughput.set(1.0);
    idle_benchmark::measure(&worker.leases).await;
    assert!(throughput.rate() < 1e5, "{} while it holds a shard", throughput.rate());
    worker.leases.clear();
    idle_benchmark::measure(&worker.leases).await;
    assert!(throughput.rate() > 1e5, "{}", throughput.rate());
}

#[tokio::test]
async fn another_epoch_is_fenced() {
    let worker = Worker::with(grant(), Duration::ZERO);
    for epoch in [EPOCH - 1, EPOCH + 1] {
        assert_eq!(worker.refused(FetchSlice { lease_epoch: epoch, ..request(0) }), "fenced");
    }
    worker.lease(LeaseGrant { epoch: EPOCH + 1, ..grant() }, Duration::ZERO);
    assert_eq!(worker.refused(request(0)), "fenced");
}

#[tokio::test]
async fn nothing_is_served_after_the_lease() {
    let worker = Worker::with(grant(), TTL);
    assert_eq!(worker.refused(request(0)), "unavailable");
    assert!(!worker.leases.valid());
    worker.lease(grant(), Duration::ZERO);
    assert_eq!(worker.fetch(request(0)).await.unwrap(), expected(0, RANGE));
    worker.leases.clear();
    assert_eq!(worker.refused(request(0)), "not_owner");
}

#[tokio::test]
async fn every_row_needs_its_own_token() {
    let worker = Worker::with(grant(), Duration::ZERO);
    let rows = RowRange { start: 1, end: 3 };
    let good = signed_by(&coordinator_key(), rows);
    assert!(worker.service.fetch_slice(FetchSlice { rows, token: good.clone(), ..request(1) }).is_ok());
    // All that a worker is sent is the public key.
    let by_worker = CoordinatorKey::new(coordinator_key().public().as_bytes());
    for key in [by_worker, CoordinatorKey::new(&[4; 32])] {
        let other = signed_by(&key, RowRange { start: 1, end: 2 });
        assert_eq!(worker.refused(FetchSlice { token: other, ..request(1) }), "not_bound");
    }
    assert_eq!(worker.refused(FetchSlice { token: token(0), ..request(1) }), "not_bound");
    let mut last = good.clone();
    last.commitments[1] = good.commitments[0];
    assert_eq!(worker.refused(FetchSlice { rows, token: last, ..request(1) }), "not_bound");
    let mut longer = token(1);
    longer.commitments.push(good.commitments[1]);
    assert_eq!(worker.refused(FetchSlice { rows, token: longer, ..request(1) }), "not_bound");
}

#[tokio::test]
async fn what_lies_outside_of_the_shard_is_refused() {
    let worker = Worker::with(grant(), Duration::ZERO);
    for (start, end) in [(511, 600), (512, RANGE.end + 1)] {
        let range = CoordinateRange { start, end };
        assert_eq!(worker.refused(FetchSlice { range, ..request(0) }), "invalid_argument", "{range}");
    }
    assert_eq!(worker.refused(FetchSlice { branch: 1, ..request(0) }), "invalid_argument");
    assert_eq!(worker.refused(FetchSlice { shard: 2, ..request(0) }), "not_owner");
}

#[test]
fn a_plan_on_a_grid_makes_rows_of_integers() {
    let float = plan();
    let grid = plan::Grid { step: -20, rounding: plan::Rounding::Dithered, summing_error: 0.0 };
    let spec = plan::PlanSpec {
        layout: plan::Layout::dimension_only(grant().dimension).ok(),
        grid: Some(grid),
        ..float.spec().clone()
    };
    let on_grid = Plan::new(spec).unwrap();
    let noise_id = grant().noise_id();
    let spec = GenerationSpec::new(&on_grid, &key(), grant().dimension, &noise_id).unwrap();
    // A BLT has two words of state for each of its two buffers.
    assert_eq!((spec.element(), spec.slots), (ElementType::I32, 4));
    assert!(spec.oracle().is_err() && spec.grid_oracle().is_ok());
    let of_floats = GenerationSpec::new(&float, &key(), grant().dimension, &noise_id).unwrap();
    assert_eq!((of_floats.element(), of_floats.slots), (ElementType::F32, 2));
    assert!(of_floats.oracle().is_ok() && of_floats.grid_oracle().is_err());
}

#[test]
fn another_key_or_plan_than_the_jobs_makes_no_noise() {
    let spec = |grant: LeaseGrant| GenerationSpec::for_grant(&plan(), &key(), &grant).unwrap_err().kind();
    assert_eq!(spec(LeaseGrant { key_commitment: [9; 32], ..grant() }), "key_mismatch");
    assert_eq!(spec(LeaseGrant { plan_digest: [9; 32], ..grant() }), "plan_digest_mismatch");
    assert_eq!(spec(LeaseGrant { layout_digest: [9; 32], ..grant() }), "plan_digest_mismatch");
}
