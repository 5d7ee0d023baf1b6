//! A worker that serves a known function of row and coordinate, with faults to order.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use client::{FetchSource, Route, Routing, Tile};
use futures::future::BoxFuture;
use proto::model::FetchSlice;
use proto::pb::{self, shards_server::Shards, shards_server::ShardsServer};
use proto::{
    Commitment, CoordinateRange, CoordinatorKey, ElementType, GrantedBranch, JobId, Nonce, ReleasedRows,
    Result, RowRange, ServiceError, chunk_of,
};
use tokio::net::TcpListener;
use tokio_stream::{Stream, StreamExt};
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

pub fn value(row: u64, coordinate: u64) -> f32 {
    (row * 1_000_000 + coordinate) as f32
}

const NONCE: Nonce = Nonce::from_bytes([5; 32]);

pub fn key() -> CoordinatorKey {
    CoordinatorKey::new(&[3; 32])
}

pub fn job() -> JobId {
    JobId::new("j").unwrap()
}

#[derive(Clone, Debug)]
pub enum Fault {
    Refuse(ServiceError),
    /// The stream ends well after so many chunks.
    EndAfter(usize),
    /// The stream fails after so many chunks.
    FailAfter(usize, ServiceError),
    /// The chunk of this number is altered on its way.
    Alter(usize),
    /// The chunk of this number comes twice.
    Repeat(usize),
    /// The chunk of this number names a row that was not requested.
    OtherRow(usize),
    /// Nothing is ever sent.
    Hang,
}

#[derive(Clone, Default)]
pub struct FakeWorker {
    pub faults: Arc<Mutex<VecDeque<Fault>>>,
    pub asked: Arc<Mutex<Vec<Tile>>>,
}

impl FakeWorker {
    pub fn with_faults(faults: impl IntoIterator<Item = Fault>) -> Self {
        Self { faults: Arc::new(Mutex::new(faults.into_iter().collect())), ..Self::default() }
    }

    /// Starts serving; gives the endpoint.
    pub async fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let service = ShardsServer::new(self.clone());
        let server = tonic::transport::Server::builder().add_service(service);
        tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
        endpoint
    }

    fn chunks(&self, request: &FetchSlice) -> Vec<Result<pb::Chunk, Status>> {
        let fault = self.faults.lock().unwrap().pop_front();
        let mut chunks: Vec<_> = good_chunks(request).into_iter().map(Ok).collect();
        match fault {
            Some(Fault::EndAfter(count)) => chunks.truncate(count),
            Some(Fault::FailAfter(count, error)) => {
                chunks.truncate(count);
                chunks.push(Err(error.into()));
            }
            Some(Fault::Alter(at)) => chunks[at].as_mut().unwrap().crc32c ^= 1,
            Some(Fault::Repeat(at)) => chunks.insert(at, chunks[at].clone()),
            Some(Fault::OtherRow(at)) => chunks[at].as_mut().unwrap().row += 1000,
            Some(Fault::Refuse(error)) => chunks = vec![Err(error.into())],
            Some(Fault::Hang) | None => {}
        }
        chunks
    }
}

/// Returns chunks of 100 coordinates, the last rows first.
fn good_chunks(request: &FetchSlice) -> Vec<pb::Chunk> {
    let rows = request.rows.as_range();
    let range = request.range;
    rows.rev()
        .flat_map(|row| {
            range.as_range().step_by(100).map(move |start| {
                let values = start..(start + 100).min(range.end);
                let bytes: Vec<u8> = values.flat_map(|at| value(row, at).to_le_bytes()).collect();
                chunk_of(row, start, ElementType::F32, bytes.into())
            })
        })
        .collect()
}

#[tonic::async_trait]
impl Shards for FakeWorker {
    type FetchSliceStream = Pin<Box<dyn Stream<Item = Result<pb::Chunk, Status>> + Send>>;

    async fn fetch_slice(
        &self,
        request: Request<pb::FetchSliceRequest>,
    ) -> Result<Response<Self::FetchSliceStream>, Status> {
        let request = FetchSlice::try_from(request.into_inner())?;
        let of = GrantedBranch { job: &request.job, nonce: &NONCE, branch: request.branch };
        request.token.verify(&key().public(), of, request.rows)?;
        self.asked.lock().unwrap().push(Tile { rows: request.rows, range: request.range });
        let is_hanging = matches!(self.faults.lock().unwrap().front(), Some(Fault::Hang));
        let chunks = tokio_stream::iter(self.chunks(&request));
        if is_hanging {
            Ok(Response::new(Box::pin(tokio_stream::pending().chain(chunks))))
        } else {
            Ok(Response::new(Box::pin(chunks)))
        }
    }

    async fn snapshot(
        &self,
        _: Request<pb::SnapshotRequest>,
    ) -> Result<Response<pb::SnapshotResponse>, Status> {
        Err(Status::unimplemented("a fake"))
    }
}

/// Answers from a list of routings, the last one for ever.
pub struct FakeSource {
    pub routings: Mutex<VecDeque<Routing>>,
    pub rows: RowRange,
    pub rebound: Mutex<u32>,
}

impl FakeSource {
    pub fn new(routings: impl IntoIterator<Item = Routing>, rows: RowRange) -> Arc<Self> {
        let routings = Mutex::new(routings.into_iter().collect());
        Arc::new(Self { routings, rows, rebound: Mutex::new(0) })
    }
}

impl FetchSource for FakeSource {
    fn routing(&self) -> BoxFuture<'_, Result<Routing>> {
        let mut routings = self.routings.lock().unwrap();
        let routing = if routings.len() > 1 { routings.pop_front() } else { routings.front().cloned() };
        Box::pin(async move { Ok(routing.unwrap()) })
    }

    fn release(&self) -> BoxFuture<'_, Result<ReleasedRows>> {
        *self.rebound.lock().unwrap() += 1;
        Box::pin(async move { Ok(released(&key(), self.rows)) })
    }
}

pub fn released(key: &CoordinatorKey, rows: RowRange) -> ReleasedRows {
    let validity = proto::Validity { epoch: 1, until_ms: 1, extent: None };
    let job = job();
    let of = GrantedBranch { job: &job, nonce: &NONCE, branch: 0 };
    let commitments = rows.as_range().map(|row| Commitment::of_text(&row.to_string())).collect();
    key.release(of, rows, commitments, validity)
}

/// Returns neighbouring routes of 1000 coordinates each.
pub fn routing(endpoints: &[Option<String>]) -> Routing {
    let routes = endpoints.iter().zip(0..).map(|(endpoint, shard)| Route {
        shard,
        range: CoordinateRange { start: u64::from(shard) * 1000, end: (u64::from(shard) + 1) * 1000 },
        lease_epoch: 1,
        endpoint: endpoint.clone(),
        worker: endpoint.as_ref().map(|_| proto::WorkerId::new("fake").unwrap()),
        local: None,
        reason: String::new(),
    });
    let dimension = endpoints.len() as u64 * 1000;
    let element = ElementType::F32;
    Routing { job: job(), branch: 0, dimension, iterations: 100, element, routes: routes.collect() }
}
