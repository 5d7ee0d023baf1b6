//! Readers who take their rows slowly, or not at all.

use super::*;
use crate::chunk_queue::ChunkReceiver;

/// Rows of many chunks.
const LONG: CoordinateRange = CoordinateRange { start: 512, end: 512 + 200_000 };
const ROW_BYTES: u64 = 4 * 200_000;

fn long_grant() -> LeaseGrant {
    let layout_digest = plan::Layout::dimension_only(LONG.end).unwrap().digest();
    LeaseGrant { range: LONG, dimension: LONG.end, layout_digest, ..grant() }
}

fn worker(flags: &[&str]) -> Worker {
    Worker::with_limits(
        limits_by(&[&["worker"], flags].concat()),
        ReleaseLog::open(None).unwrap(),
        long_grant(),
        Duration::ZERO,
    )
}

impl Worker {
    /// Returns the bytes of rows that readers hold.
    fn held(&self) -> u64 {
        self.leases.shard(&job(), 1, EPOCH).unwrap().0.readers.bytes()
    }
}

fn whole(row: u64) -> FetchSlice {
    FetchSlice { range: LONG, ..request(row) }
}

async fn rest(chunks: &mut ChunkReceiver) -> Vec<f32> {
    let mut values = Vec::new();
    while let Some(chunk) = chunks.recv().await {
        let chunk = chunk.unwrap();
        assert_eq!(chunk.start, LONG.start + values.len() as u64, "in order");
        values.extend(chunk.data.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)));
    }
    values
}

#[tokio::test]
async fn readers_hold_no_more_than_the_window_may_and_get_all_they_asked_for() {
    let worker = worker(&["--ahead-rows", "1"]);
    let mut readers = Vec::new();
    for row in 0..8 {
        for _ in 0..3 {
            let mut chunks = worker.service.fetch_slice(whole(row)).unwrap();
            // Four more wait, for who does not come.
            let first = chunks.recv().await.unwrap().unwrap();
            readers.push((row, first, chunks));
            // One row ahead, and two that were released.
            assert!(worker.held() <= 3 * ROW_BYTES, "{} bytes", worker.held());
        }
    }
    for (row, first, mut chunks) in readers {
        let values = first.data.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value));
        let mut values: Vec<f32> = values.collect();
        drop(first);
        while let Some(chunk) = chunks.recv().await {
            let data = chunk.unwrap().data;
            values.extend(data.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)));
        }
        assert!(values == rest(&mut worker.service.fetch_slice(whole(row)).unwrap()).await, "row {row}");
    }
    assert_eq!(worker.held(), 0);
}

#[tokio::test]
async fn a_reader_who_takes_nothing_is_ended_and_told_so() {
    let worker = worker(&["--reader-timeout", "100ms"]);
    let mut chunks = worker.service.fetch_slice(whole(0)).unwrap();
    let begun = Instant::now();
    let mut was_held = 0;
    while was_held == 0 || worker.held() > 0 {
        assert!(begun.elapsed() < Duration::from_secs(10), "not ended: {} bytes are held", worker.held());
        was_held = was_held.max(worker.held());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    // Nothing of it is in memory any more, before the reader is heard of.
    let error = chunks.recv().await.unwrap().unwrap_err();
    assert!(error.kind() == "resource_exhausted" && error.retry_safe(), "{error}");
    assert!(error.to_string().contains("--reader-timeout"), "{error}");
    assert!(chunks.recv().await.is_none());
    // Who takes something now and then is not.
    let mut slow = worker.service.fetch_slice(whole(0)).unwrap();
    let mut taken = 0;
    while let Some(chunk) = slow.recv().await {
        taken += chunk.unwrap().data.len() as u64;
        if taken < ROW_BYTES / 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    assert_eq!(taken, ROW_BYTES);
}
