//! Fetches from workers that fail in every way that a worker can.

// Clippy's exemption for tests does not reach helpers of integration tests.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use client::{Connections, Routing, SliceRequest, Tile, stream_chunks};
use proto::{CoordinateRange, CoordinatorKey, ElementType, Result, RowRange, ServiceError};
use tokio::time::Instant;
use tokio_stream::StreamExt;

mod fake;

use fake::{FakeSource, FakeWorker, Fault, job, key, released, routing, value};

const PART: Tile =
    Tile { rows: RowRange { start: 2, end: 5 }, range: CoordinateRange { start: 250, end: 2750 } };

fn request(wait: Duration, key: &CoordinatorKey) -> SliceRequest {
    let began = Instant::now();
    SliceRequest {
        job: job(),
        branch: 0,
        tile: PART,
        element: ElementType::F32,
        region: None,
        released: released(key, PART.rows),
        began,
        deadline: began + wait,
    }
}

async fn fetch(source: Arc<FakeSource>, request: SliceRequest) -> Result<Vec<f32>> {
    let width = PART.range.len() as usize;
    let mut out = vec![f32::NAN; width * PART.rows.len() as usize];
    let mut chunks = stream_chunks(Connections::new(), source, request);
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk?.into_message();
        let at = (chunk.row - PART.rows.start) as usize * width + (chunk.start - PART.range.start) as usize;
        for (place, bytes) in out[at..].iter_mut().zip(chunk.data.as_chunks::<4>().0) {
            assert!(place.is_nan(), "a coordinate came twice");
            *place = f32::from_le_bytes(*bytes);
        }
    }
    Ok(out)
}

fn expected() -> Vec<f32> {
    PART.rows.as_range().flat_map(|row| PART.range.as_range().map(move |at| value(row, at))).collect()
}

async fn three(faulty: &FakeWorker) -> Routing {
    let mut endpoints = vec![];
    for worker in [&FakeWorker::default(), faulty, &FakeWorker::default()] {
        endpoints.push(Some(worker.start().await));
    }
    routing(&endpoints)
}

const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn slices_of_all_workers_make_up_the_rows() {
    let worker = FakeWorker::default();
    let source = FakeSource::new([three(&worker).await], PART.rows);
    assert_eq!(fetch(source, request(LONG, &key())).await.unwrap(), expected());
    assert_eq!(worker.asked.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn every_passing_fault_is_overcome_and_only_the_rest_is_asked_again() {
    let restoring = ServiceError::Restoring { job: "j".into(), shard: 1 };
    // Each fault with the cells of the middle shard, 3 rows × 1000, that must come again.
    let faults = [
        (Fault::Refuse(restoring.clone()), 3000),
        (Fault::Refuse(ServiceError::Draining), 3000),
        (Fault::Refuse(ServiceError::Fenced { job: "j".into(), shard: 1, presented: 1, current: 2 }), 3000),
        (Fault::EndAfter(0), 3000),
        (Fault::EndAfter(13), 1700),
        (Fault::FailAfter(13, restoring), 1700),
        (Fault::Alter(4), 2600),
        (Fault::Repeat(4), 2500),
        (Fault::OtherRow(29), 100),
    ];
    for (fault, again) in faults {
        let worker = FakeWorker::with_faults([fault.clone()]);
        let source = FakeSource::new([three(&worker).await], PART.rows);
        assert_eq!(fetch(source, request(LONG, &key())).await.unwrap(), expected(), "{fault:?}");
        let asked = worker.asked.lock().unwrap();
        let cells: u64 = asked.iter().map(|tile| tile.rows.len() * tile.range.len()).sum();
        assert_eq!(cells, 3000 + again, "{fault:?}: {asked:?}");
    }
}

#[tokio::test]
async fn a_fault_that_will_not_pass_ends_the_fetch_at_once() {
    let error = ServiceError::KeyMismatch { job: "j".into(), expected: "a".into(), actual: "b".into() };
    let worker = FakeWorker::with_faults([Fault::FailAfter(3, error.clone())]);
    let source = FakeSource::new([three(&worker).await], PART.rows);
    assert_eq!(fetch(source, request(LONG, &key())).await.unwrap_err(), error);
}

#[tokio::test]
async fn time_up_names_exactly_what_is_missing() {
    let worker = FakeWorker::default();
    let mut routing = three(&worker).await;
    // No process listens at that address, and no worker holds the third shard.
    routing.routes[1].endpoint = Some("http://127.0.0.1:1".into());
    routing.routes[2].endpoint = None;
    let source = FakeSource::new([routing], PART.rows);
    match fetch(source, request(Duration::from_millis(400), &key())).await.unwrap_err() {
        ServiceError::RangeUnavailable { missing, waited_ms, .. } => {
            assert_eq!(missing, [CoordinateRange { start: 1000, end: 2750 }]);
            assert!((400..5000).contains(&waited_ms), "{waited_ms}");
        }
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_range_that_finds_a_worker_later_is_served_then() {
    let whole = three(&FakeWorker::default()).await;
    let mut without = whole.clone();
    without.routes[1].endpoint = None;
    let source = FakeSource::new([without.clone(), without, whole], PART.rows);
    assert_eq!(fetch(source, request(LONG, &key())).await.unwrap(), expected());
}

#[tokio::test]
async fn grants_of_an_earlier_coordinator_are_replaced() {
    let source = FakeSource::new([three(&FakeWorker::default()).await], PART.rows);
    let old = CoordinatorKey::new(&[9; 32]);
    assert_eq!(fetch(source.clone(), request(LONG, &old)).await.unwrap(), expected());
    assert!(*source.rebound.lock().unwrap() >= 1);
}

#[tokio::test]
async fn a_worker_that_hangs_is_left_when_its_lease_has_moved() {
    let hanging = FakeWorker::with_faults([Fault::Hang]);
    let first = three(&hanging).await;
    let mut second = first.clone();
    second.routes[1].endpoint = Some(FakeWorker::default().start().await);
    second.routes[1].lease_epoch = 2;
    let source = FakeSource::new([first, second], PART.rows);
    assert_eq!(fetch(source, request(LONG, &key())).await.unwrap(), expected());
}

#[tokio::test]
async fn a_range_beyond_the_vector_is_refused() {
    let source = FakeSource::new([routing(&[None])], PART.rows);
    let error = fetch(source, request(LONG, &key())).await.unwrap_err();
    assert!(matches!(error, ServiceError::RangeBeyondDimension { dimension: 1000, .. }), "{error}");
}
