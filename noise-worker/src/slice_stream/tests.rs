//! Readers who leave, who are late, and who take their time.

use tokio::time::sleep;

use super::*;
use crate::{
    generation_spec::GenerationSpec,
    shard::row::{BufferPool, Window},
    tests::{RANGE, Worker, grant, key, plan, request},
};
use proto::model::{FetchSlice, LeaseGrant};

/// Of a shard whose replays take five pieces.
const MANY: CoordinateRange = CoordinateRange { start: 512, end: 512 + 3_000_000 };

/// With row 5 out of its window.
struct Old {
    worker: Worker,
    page: Box<dyn Fn() -> String>,
    _counting: metrics::LocalRecorderGuard<'static>,
}

impl Old {
    async fn start() -> Self {
        let recorder = Box::leak(Box::new(node::telemetry::recorder::builder().build_recorder()));
        let handle = recorder.handle();
        let _counting = metrics::set_default_local_recorder(recorder);
        let layout_digest = plan::Layout::dimension_only(MANY.end).unwrap().digest();
        let grant = LeaseGrant { range: MANY, dimension: MANY.end, layout_digest, ..grant() };
        let worker = Worker::with(grant, Duration::ZERO);
        let old = Self { worker, page: Box::new(move || handle.render()), _counting };
        let one = CoordinateRange { start: MANY.start, end: MANY.start + 1 };
        old.worker.fetch(FetchSlice { range: one, ..request(7) }).await.unwrap();
        while old.replayed() == 0 {
            sleep(Duration::from_millis(20)).await;
            old.worker.fetch(FetchSlice { range: one, ..request(5) }).await.unwrap();
        }
        old
    }

    /// Rows that were gone through, for all pieces of all replays together.
    fn replayed(&self) -> u64 {
        let page = (self.page)();
        let line = page.lines().find_map(|line| line.strip_prefix(metric::ROWS_REPLAYED)?.strip_prefix(' '));
        line.map_or(0, |count| count.parse().unwrap())
    }
}

#[tokio::test]
async fn a_row_is_not_drawn_again_for_a_reader_who_has_left() {
    let old = Old::start().await;
    let row = || FetchSlice { range: MANY, ..request(5) };
    let before = old.replayed();
    assert_eq!(old.worker.fetch(row()).await.unwrap().len() as u64, MANY.len());
    let pieces = (old.replayed() - before) / 6;
    assert!(pieces >= 4, "{pieces} pieces");
    let before = old.replayed();
    let mut chunks = old.worker.service.fetch_slice(row()).unwrap();
    chunks.recv().await.unwrap().unwrap();
    drop(chunks);
    sleep(Duration::from_secs(2)).await;
    let drawn = (old.replayed() - before) / 6;
    assert!(drawn <= 2, "{drawn} of {pieces} pieces");
}

#[tokio::test]
async fn a_row_is_not_drawn_again_for_longer_than_its_reader_waits() {
    let old = Old::start().await;
    let late = FetchSlice { range: MANY, deadline_ms: Some(1), ..request(5) };
    let error = old.worker.fetch(late).await.map(|values| values.len()).unwrap_err();
    let ServiceError::RangeUnavailable { missing, .. } = &error else { panic!("{error}") };
    assert_eq!((missing.len(), missing[0].end), (1, MANY.end));
    assert!(error.retry_safe());
}

/// A shard whose eight rows are made, and the memory they go back to.
fn ready() -> (Arc<Shard>, Arc<BufferPool>) {
    let pool = BufferPool::new(RANGE.len() as usize);
    pool.set_capacity(8);
    let rows = (0..8).map(|_| pool.row(pool.take().unwrap())).collect();
    let shard = Shard::new(grant());
    shard.ready(GenerationSpec::for_grant(&plan(), &key(), &grant()).unwrap(), Window::new(0, rows), 0);
    (shard, pool)
}

fn delivery(
    worker: &Worker,
    shard: Arc<Shard>,
    range: CoordinateRange,
) -> (SliceStream, mpsc::Receiver<Result<pb::Chunk>>) {
    let requested_at = Instant::now();
    let (out, chunks) = mpsc::channel(4);
    let slice = Slice {
        shard,
        rows: RowRange { start: 0, end: 8 },
        released: vec![],
        range,
        element: ElementType::F32,
        destination: None,
        requested_at,
        deadline: requested_at + Duration::from_secs(20),
    };
    let regions = Regions::new(worker.leases.limits.pool.clone(), 0);
    let chunk_bytes = proto::MIN_CHUNK_BYTES;
    (SliceStream { slice, leases: worker.leases.clone(), regions, chunk_bytes, out }, chunks)
}

/// Fetches rows with a reader that takes nothing while the job continues; returns the number of row buffers that
/// came back to the pool, and the chunks.
async fn given_back(range: CoordinateRange) -> (usize, Vec<pb::Chunk>) {
    let worker = Worker::with(grant(), Duration::ZERO);
    let (shard, pool) = ready();
    let (delivery, mut chunks) = delivery(&worker, shard.clone(), range);
    let running = tokio::spawn(async move { delivery.run().await });
    while chunks.len() < 4 {
        tokio::task::yield_now().await;
    }
    shard.follow(8);
    let _next = shard.next_batch(8, 8, 8);
    let count = pool.count();
    let mut all = Vec::new();
    while let Some(chunk) = chunks.recv().await {
        all.push(chunk.unwrap());
    }
    running.await.unwrap().unwrap();
    (count, all)
}

#[tokio::test]
async fn a_slow_reader_of_little_holds_no_row() {
    let (count, chunks) = given_back(CoordinateRange { start: 600, end: 601 }).await;
    assert_eq!(count, 6, "rows 0 to 5 have left the window");
    let rows: Vec<u64> = chunks.iter().map(|chunk| chunk.row).collect();
    assert_eq!(rows, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(chunks.iter().all(|chunk| chunk.data.len() == 4 && chunk.start == 600));
}

/// Whose bytes are counted: these are not copied.
#[tokio::test]
async fn a_reader_of_whole_rows_reads_them_where_they_are() {
    let (count, chunks) = given_back(RANGE).await;
    assert_eq!(count, 2, "four are on their way, two are gone");
    assert_eq!(chunks.iter().map(|chunk| chunk.data.len() as u64).sum::<u64>(), 8 * 4 * RANGE.len());
}

/// Of whose row no more is sent than there was room for, before it is looked up anew.
#[tokio::test]
async fn a_slow_reader_of_several_chunks_gets_all_of_them_in_order() {
    let Old { worker, .. } = Old::start().await;
    let part = CoordinateRange { start: 1_000, end: 101_000 };
    let expected = worker.fetch(FetchSlice { range: part, ..request(7) }).await.unwrap();
    let mut chunks = worker.service.fetch_slice(FetchSlice { range: part, ..request(7) }).unwrap();
    let mut next = part.start;
    let mut values = Vec::new();
    while let Some(chunk) = chunks.recv().await {
        let chunk = chunk.unwrap();
        assert_eq!(chunk.start, next);
        values.extend(chunk.data.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)));
        next += chunk.data.len() as u64 / 4;
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!((next, values.len()), (part.end, expected.len()));
    assert!(values == expected);
}
