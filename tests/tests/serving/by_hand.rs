//! A region lent by hand: what the worker lets into it, and from whom.

use std::{
    io::{Read, Write},
    os::unix::{fs::PermissionsExt, net::UnixStream},
    time::Duration,
};

use plan::Plan;
use proto::{Commitment, CoordinateRange, ElementType, JobId, Result, RowRange, ServiceError, pb};
use tests::{TestCluster, assert_same_bits, flags, job, start_with};
use tokio_stream::StreamExt;

use crate::{DIMENSION, plan};

/// The region, and requests by the generated client: what any other program would do.
struct ByHand {
    cluster: TestCluster,
    job: JobId,
    plan: Plan,
    epoch: u64,
    lent: shared_memory::Region,
    _loan: shared_memory::RegionLease,
}

const FILL: u8 = 0xa5;

impl ByHand {
    fn new(range: std::ops::Range<u64>, slots: u32) -> Self {
        let cluster = start_with(1, |options| options.shared_memory = true);
        let job = job("hand");
        let plan = plan();
        cluster.create(&job, &plan, DIMENSION, 1).unwrap();
        cluster.wait_ready(&job);
        let route = cluster.runtime.block_on(cluster.client.routing(&job)).unwrap().routes.remove(0);
        let range = CoordinateRange { start: range.start, end: range.end };
        let mut lent = shared_memory::Region::create(range, slots, ElementType::F32).unwrap();
        for slot in 0..slots {
            lent.row_bytes_mut(slot).unwrap().fill(FILL);
        }
        let loan = lent.lend(&route.local.unwrap().lending.unwrap()).unwrap();
        Self { cluster, job, plan, epoch: route.lease_epoch, lent, _loan: loan }
    }

    fn token(&self, row: u64) -> pb::ReleaseToken {
        let rows = RowRange { start: row, end: row + 1 };
        let commitments = [Commitment::of_text("by hand")];
        let bind = self.cluster.client.bind(&self.job, 0, rows, &commitments);
        self.cluster.runtime.block_on(bind).unwrap().token(rows).unwrap().into()
    }

    fn request(&self, row: u64, token: pb::ReleaseToken) -> pb::FetchSliceRequest {
        pb::FetchSliceRequest {
            job: self.job.to_string(),
            lease_epoch: self.epoch,
            rows: Some(pb::RowRange { start: row, end: row + 1 }),
            range: Some(pb::CoordinateRange { start: 0, end: DIMENSION }),
            token: Some(token),
            deadline_ms: 5_000,
            region: self.lent.layout().id.0.to_vec(),
            ..pb::FetchSliceRequest::default()
        }
    }

    fn ask(&self, request: pb::FetchSliceRequest) -> Result<Vec<pb::Chunk>> {
        let endpoint = self.cluster.cluster.worker(0).unwrap().grpc().to_owned();
        self.cluster.runtime.block_on(async {
            let mut worker = pb::shards_client::ShardsClient::connect(endpoint).await.unwrap();
            let mut stream = worker.fetch_slice(request).await.map_err(ServiceError::from)?.into_inner();
            let mut chunks = vec![];
            while let Some(chunk) = stream.next().await {
                chunks.push(chunk.map_err(ServiceError::from)?);
            }
            Ok(chunks)
        })
    }

    fn is_untouched(&self) -> bool {
        (0..self.lent.layout().slots)
            .all(|slot| self.lent.row_bytes(slot).unwrap().iter().all(|byte| *byte == FILL))
    }
}

#[test]
fn nothing_is_written_to_a_region_without_a_token_of_its_row() {
    let hand = ByHand::new(0..DIMENSION, 2);
    let good = hand.token(4);
    let other = hand.token(5);
    let mut forged = good.clone();
    forged.grant[63] ^= 1;
    let request = |token: &pb::ReleaseToken| hand.request(4, token.clone());
    let refused = [
        (request(&pb::ReleaseToken::default()), "invalid_argument"),
        (pb::FetchSliceRequest { token: None, ..request(&good) }, "invalid_argument"),
        (request(&forged), "not_bound"),
        (request(&other), "not_bound"),
        (pb::FetchSliceRequest { lease_epoch: hand.epoch + 1, ..request(&good) }, "fenced"),
        (pb::FetchSliceRequest { shard: 1, ..request(&good) }, "not_owner"),
        (pb::FetchSliceRequest { slot: 2, ..request(&good) }, "invalid_argument"),
        (pb::FetchSliceRequest { slot: u32::MAX, ..request(&good) }, "invalid_argument"),
        (pb::FetchSliceRequest { element_type: 2, ..request(&good) }, "invalid_argument"),
        (pb::FetchSliceRequest { element_type: 9, ..request(&good) }, "invalid_argument"),
        (pb::FetchSliceRequest { region: vec![7; 16], ..request(&good) }, "not_found"),
        (pb::FetchSliceRequest { region: vec![7; 15], ..request(&good) }, "invalid_argument"),
    ];
    for (request, kind) in refused {
        let error = hand.ask(request.clone()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error} for {request:?}");
    }
    assert!(hand.is_untouched(), "a refused request wrote to the region");

    let answer = hand.ask(hand.request(4, good.clone())).unwrap();
    let sum: u64 = answer.iter().map(|chunk| chunk.placed).sum();
    assert!(sum == DIMENSION && answer.iter().all(|chunk| chunk.data.is_empty()), "{answer:?}");
    let row = hand.cluster.expected(&hand.job, &hand.plan, 4..5, 0..DIMENSION);
    assert_same_bits(&[hand.lent.row(0).unwrap().to_vec()], &row);
    assert!(hand.lent.row_bytes(1).unwrap().iter().all(|byte| *byte == FILL));

    // The same as data: an ordinary gRPC client reads frames that were never messages.
    let chunks = hand.ask(pb::FetchSliceRequest { region: vec![], ..hand.request(4, good) }).unwrap();
    let bytes: Vec<u8> = chunks.iter().flat_map(|chunk| chunk.data.to_vec()).collect();
    assert_eq!(bytes, hand.lent.row_bytes(0).unwrap());
}

#[test]
fn a_region_smaller_than_the_range_is_refused_by_the_worker() {
    let hand = ByHand::new(0..DIMENSION - 1, 1);
    let error = hand.ask(hand.request(0, hand.token(0))).unwrap_err();
    assert_eq!(error.kind(), "invalid_argument");
    assert!(error.to_string().contains("3700") && error.to_string().contains("3699"), "{error}");
    assert!(hand.is_untouched());
}

#[test]
fn senseless_lenders_are_told_why_and_the_worker_goes_on() {
    let hand = ByHand::new(0..DIMENSION, 1);
    let path = hand.cluster.dir.path().join("sockets/worker-0.shm.sock");
    let log_of = |words: &[u8]| {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream.write_all(words).unwrap();
        let mut answer = vec![];
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(answer[..4], 1u32.to_le_bytes(), "{answer:?}");
        String::from_utf8(answer[8..].to_vec()).unwrap()
    };
    assert!(log_of(&[0; 72]).contains("descriptors"));
    assert!(log_of(b"hello").contains("5 bytes"));
    drop(UnixStream::connect(&path).unwrap());
    let again = hand.lent.lend(path.to_str().unwrap()).unwrap_err();
    assert!(again.to_string().contains("lent already"), "{again}");
    hand.ask(hand.request(0, hand.token(0))).unwrap();
    let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
}

#[test]
fn a_worker_bounds_what_is_lent_to_it() {
    let cluster = start_with(1, |options| {
        options.shared_memory = true;
        options.worker_flags = flags(&["--shm-bytes", "64KiB"]);
    });
    let range = CoordinateRange { start: 0, end: 8_000 };
    let path = cluster.dir.path().join("sockets/worker-0.shm.sock");
    let lend = |region: &shared_memory::Region| region.lend(path.to_str().unwrap());
    let first = shared_memory::Region::create(range, 1, ElementType::F32).unwrap();
    let second = shared_memory::Region::create(range, 2, ElementType::F32).unwrap();
    let loan = lend(&first).unwrap();
    let refused = lend(&second).unwrap_err();
    assert!(refused.to_string().contains("65536"), "{refused}");
    drop(loan);
    let smaller = shared_memory::Region::create(range, 2, ElementType::Bf16).unwrap();
    cluster.wait_until("the first region is given back", || lend(&smaller).is_ok());
}
