//! A worker that keeps its membership like a real one and serves a known function instead of noise.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use checkpoint_store::{CheckpointKey, CheckpointStore, ShardHeader};
use client::Connections;
use ed25519_dalek::{Signer, SigningKey};
use proto::model::{FetchSlice, GrantedLeases, LeaseGrant};
use proto::pb::{self, shards_server::Shards, shards_server::ShardsServer};
use proto::{
    CoordinatorPublicKey, ElementType, GrantedBranch, Incarnation, PROTOCOL_VERSION, PossessionChallenge,
    Result, ServiceError, SignedSnapshot, WorkerId, chunk_of,
};
use tokio::net::TcpListener;
use tokio_stream::Stream;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status};

/// The commitment to a key, and what signs under it.
pub const KEY: [u8; 32] = [
    234, 74, 108, 99, 226, 156, 82, 10, 190, 245, 80, 123, 19, 46, 197, 249, 149, 71, 118, 174, 190, 190,
    123, 146, 66, 30, 234, 105, 20, 70, 210, 44,
];
const KEY_SEED: [u8; 32] = [7; 32];

pub fn value(row: u64, coordinate: u64) -> f32 {
    (row * 100_000 + coordinate) as f32
}

/// Returns all rows of the plan, made at once.
fn status(grant: LeaseGrant) -> pb::LeaseStatus {
    pb::LeaseStatus {
        job: grant.job.to_string(),
        shard: grant.shard,
        epoch: grant.epoch,
        state: pb::LeaseState::Ready.into(),
        next_row: u64::MAX,
        key_commitment: KEY.to_vec(),
        ..pb::LeaseStatus::default()
    }
}

#[derive(Default)]
struct Leases {
    grants: Vec<LeaseGrant>,
    standbys: Vec<LeaseGrant>,
    key: Option<CoordinatorPublicKey>,
    /// Of the newest registration.
    challenge: [u8; 32],
}

#[derive(Clone)]
pub struct FakeWorker {
    name: String,
    incarnation: [u8; 16],
    endpoint: String,
    leases: Arc<Mutex<Leases>>,
    pub fails_snapshots: Arc<AtomicBool>,
    /// Cancelling it ends the worker without its deregistering.
    pub dead: CancellationToken,
}

impl FakeWorker {
    pub async fn start(name: &str, coordinator: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let worker = Self {
            name: name.to_owned(),
            incarnation: [name.as_bytes()[0]; 16],
            endpoint: format!("http://{}", listener.local_addr().unwrap()),
            leases: Arc::default(),
            fails_snapshots: Arc::default(),
            dead: CancellationToken::new(),
        };
        let server = tonic::transport::Server::builder().add_service(ShardsServer::new(worker.clone()));
        let serving = server.serve_with_incoming(TcpIncoming::from(listener));
        tokio::spawn(worker.dead.clone().run_until_cancelled_owned(serving));
        let beating = worker.clone().keep_membership(coordinator.to_owned());
        tokio::spawn(worker.dead.clone().run_until_cancelled_owned(beating));
        worker
    }

    pub fn grants(&self) -> Vec<LeaseGrant> {
        self.leases.lock().unwrap().grants.clone()
    }

    async fn keep_membership(self, coordinator: String) {
        let connections = Connections::new();
        loop {
            let mut workers = connections.workers(&coordinator).unwrap();
            match workers.heartbeat(self.heartbeat()).await.map_err(ServiceError::from) {
                Ok(answer) => self.take(answer.into_inner()),
                Err(ServiceError::MustRegister { .. }) => {
                    if let Ok(terms) = workers.register(self.registration()).await {
                        let challenge = terms.into_inner().challenge.try_into().unwrap();
                        self.leases.lock().unwrap().challenge = challenge;
                    }
                }
                Err(_away) => {}
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    fn registration(&self) -> pb::RegisterRequest {
        pb::RegisterRequest {
            worker: self.name.clone(),
            endpoint: self.endpoint.clone(),
            local: None,
            protocol_version: PROTOCOL_VERSION,
            stream_version: plan::STREAM_VERSION,
            incarnation: self.incarnation.to_vec(),
            ..pb::RegisterRequest::default()
        }
    }

    fn heartbeat(&self) -> pb::HeartbeatRequest {
        let standbys = self.leases.lock().unwrap().standbys.clone();
        pb::HeartbeatRequest {
            worker: self.name.clone(),
            incarnation: self.incarnation.to_vec(),
            proofs: self.grants().iter().chain(&standbys).map(|grant| self.prove(grant)).collect(),
            leases: self.grants().into_iter().map(status).collect(),
            standbys: standbys.into_iter().map(status).collect(),
            ..pb::HeartbeatRequest::default()
        }
    }

    fn prove(&self, grant: &LeaseGrant) -> pb::KeyProof {
        let asked = PossessionChallenge {
            challenge: &self.leases.lock().unwrap().challenge,
            worker: &WorkerId::new(&*self.name).unwrap(),
            incarnation: &Incarnation(self.incarnation),
            job: &grant.job,
            job_nonce: &grant.job_nonce,
        };
        let signature =
            SigningKey::from_bytes(&KEY_SEED).sign(asked.signed_text().as_bytes()).to_bytes().to_vec();
        pb::KeyProof { job: grant.job.to_string(), signature }
    }

    fn take(&self, answer: pb::HeartbeatResponse) {
        let (granted, unreadable) = GrantedLeases::read(answer.grants, answer.standbys);
        assert!(unreadable.is_empty(), "{unreadable:?}");
        let GrantedLeases { leases: grants, standbys } = granted;
        let key = CoordinatorPublicKey::from_slice(&answer.coordinator_key).ok();
        let mut leases = self.leases.lock().unwrap();
        *leases = Leases { grants, standbys, key, challenge: leases.challenge };
    }

    fn lease(&self, job: &str, shard: u32, epoch: u64) -> Result<LeaseGrant> {
        let grants = self.grants();
        let of_shard = grants.iter().filter(|grant| grant.job.as_str() == job && grant.shard == shard);
        let held = of_shard.min_by_key(|grant| (grant.epoch != epoch, std::cmp::Reverse(grant.epoch)));
        let held = held.ok_or_else(|| ServiceError::NotOwner { job: job.to_owned(), shard })?;
        if held.epoch == epoch {
            return Ok(held.clone());
        }
        Err(ServiceError::Fenced { job: job.to_owned(), shard, presented: epoch, current: held.epoch })
    }

    fn chunks(&self, request: &FetchSlice) -> Result<Vec<Result<pb::Chunk, Status>>> {
        let lease = self.lease(request.job.as_str(), request.shard, request.lease_epoch)?;
        let key = self.key()?;
        let of = GrantedBranch { job: &request.job, nonce: &lease.job_nonce, branch: request.branch };
        request.token.verify(&key, of, request.rows)?;
        let mut chunks = Vec::new();
        for row in request.rows.as_range() {
            for start in request.range.as_range().step_by(300) {
                let values = start..(start + 300).min(request.range.end);
                let bytes: Vec<u8> = values.flat_map(|at| value(row, at).to_le_bytes()).collect();
                chunks.push(Ok(chunk_of(row, start, ElementType::F32, bytes.into())));
            }
        }
        Ok(chunks)
    }

    fn key(&self) -> Result<CoordinatorPublicKey> {
        self.leases.lock().unwrap().key.ok_or(ServiceError::Draining)
    }

    async fn store_piece(&self, request: pb::SnapshotRequest) -> Result<pb::SnapshotResponse> {
        if self.fails_snapshots.load(Ordering::Relaxed) {
            return Err(ServiceError::Store { reason: "the disk is full".into() });
        }
        let order = SignedSnapshot::try_from(request)?.verify(&self.key()?)?;
        let lease = self.lease(order.job.as_str(), order.shard, order.lease_epoch)?;
        let header = ShardHeader {
            job: order.job.to_string(),
            branch: lease.branch(),
            plan_digest: lease.plan_digest,
            key_commitment: lease.key_commitment,
            stream_version: plan::STREAM_VERSION,
            range: lease.range,
            next_row: 3,
            window_start: 3,
            block_state_len: 1,
            element: ElementType::F32,
        };
        let state = vec![0.5; lease.range.len().div_ceil(512) as usize];
        let store = CheckpointStore::open(&lease.store_url)?;
        let key = CheckpointKey::new(&[5; 32]);
        let written = store.write_shard(&order.object, header, &key, (state, vec![])).await?;
        let bytes = written.bytes;
        let sha256 = written.sha256.to_vec();
        Ok(pb::SnapshotResponse { next_row: 3, bytes, sha256, ..pb::SnapshotResponse::default() })
    }
}

#[tonic::async_trait]
impl Shards for FakeWorker {
    type FetchSliceStream = Pin<Box<dyn Stream<Item = Result<pb::Chunk, Status>> + Send>>;

    async fn fetch_slice(
        &self,
        request: Request<pb::FetchSliceRequest>,
    ) -> Result<Response<Self::FetchSliceStream>, Status> {
        if self.dead.is_cancelled() {
            // tonic keeps open connections: this one no longer answers.
            std::future::pending::<()>().await;
        }
        let chunks = self.chunks(&FetchSlice::try_from(request.into_inner())?)?;
        Ok(Response::new(Box::pin(tokio_stream::iter(chunks))))
    }

    async fn snapshot(
        &self,
        request: Request<pb::SnapshotRequest>,
    ) -> Result<Response<pb::SnapshotResponse>, Status> {
        Ok(Response::new(self.store_piece(request.into_inner()).await?))
    }
}
