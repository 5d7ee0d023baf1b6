//! Tests that the coordinator alone grants rows and orders snapshots, on loopback without TLS: a process that has all that
//! a worker is sent is refused by every worker.
#![allow(clippy::unwrap_used)] // a test says best where it stands

use std::time::Duration;

use proto::{
    Commitment, CoordinatorKey, GrantedBranch, RowRange, ServiceError, SnapshotOrder, Validity, WorkerId, pb,
};
use tests::{TestCluster, assert_same_bits, job, plans, start};
use tonic::Request;

const DIMENSION: u64 = 2_000;

type Workers = pb::workers_client::WorkersClient<tonic::transport::Channel>;

const LISTENER: [u8; 16] = [7; 16];

async fn register(workers: &mut Workers) {
    let request = pb::RegisterRequest {
        worker: "listener".into(),
        endpoint: "http://127.0.0.1:1".into(),
        protocol_version: proto::PROTOCOL_VERSION,
        stream_version: plan::STREAM_VERSION,
        incarnation: LISTENER.to_vec(),
        ..pb::RegisterRequest::default()
    };
    workers.register(request).await.unwrap();
}

async fn beat(workers: &mut Workers, leases: Vec<pb::LeaseStatus>) -> pb::HeartbeatResponse {
    let request = pb::HeartbeatRequest {
        worker: "listener".into(),
        incarnation: LISTENER.to_vec(),
        leases,
        ..pb::HeartbeatRequest::default()
    };
    workers.heartbeat(request).await.unwrap().into_inner()
}

/// Returns what the coordinator sends every process that registers as a worker.
fn coordinator_key_by_registering(cluster: &TestCluster) -> Vec<u8> {
    cluster.runtime.block_on(async {
        let mut workers = Workers::connect(cluster.cluster.url()).await.unwrap();
        register(&mut workers).await;
        beat(&mut workers, vec![]).await.coordinator_key
    })
}

/// Without TLS any process reaches the worker's port; the coordinator alone orders snapshots.
#[test]
fn a_snapshot_is_the_coordinators_order_or_refused() {
    let cluster = start(1);
    let job = job("bind");
    cluster.create(&job, &plans()[0], DIMENSION, 1).unwrap();
    cluster.fetch(&job, 0..1, 0..8).unwrap();
    let epoch = cluster.runtime.block_on(cluster.client.routing(&job)).unwrap().routes[0].lease_epoch;
    let order = SnapshotOrder {
        worker: WorkerId::new("worker-0").unwrap(),
        job: job.clone(),
        shard: 0,
        lease_epoch: epoch,
        object: "bind/77/0-512.shard".into(),
        coordinator_epoch: 1,
        until_ms: u64::MAX,
    };
    let public = coordinator_key_by_registering(&cluster);
    let by_public = CoordinatorKey::new(public.as_slice().try_into().unwrap());
    let signed = by_public.order(&order);
    let unsigned = pb::SnapshotRequest { signature: vec![], ..signed.clone() };
    let endpoint = cluster.cluster.worker(0).unwrap().grpc().to_owned();
    let by_another = CoordinatorKey::new(&[1; 32]).order(&order);
    for (request, kind) in
        [(signed, "permission_denied"), (unsigned, "invalid_argument"), (by_another, "permission_denied")]
    {
        let refused = cluster.runtime.block_on(async {
            let mut worker = pb::shards_client::ShardsClient::connect(endpoint.clone()).await.unwrap();
            worker.snapshot(Request::new(request)).await.map(|_| ()).map_err(ServiceError::from)
        });
        assert_eq!(refused.unwrap_err().kind(), kind);
    }
}

#[test]
fn a_worker_serves_nothing_without_a_token_of_its_coordinator() {
    let cluster = start(1);
    let job = job("bind");
    cluster.create(&job, &plans()[0], DIMENSION, 1).unwrap();
    cluster.fetch(&job, 0..1, 0..8).unwrap();
    let endpoint = cluster.cluster.worker(0).unwrap().grpc().to_owned();
    let request = |token: pb::ReleaseToken, epoch: u64| pb::FetchSliceRequest {
        job: job.to_string(),
        branch: 0,
        shard: 0,
        lease_epoch: epoch,
        rows: Some(pb::RowRange { start: 1, end: 2 }),
        range: Some(pb::CoordinateRange { start: 0, end: 8 }),
        token: Some(token),
        deadline_ms: 1_000,
        ..pb::FetchSliceRequest::default()
    };
    let epoch = cluster.runtime.block_on(cluster.client.routing(&job)).unwrap().routes[0].lease_epoch;
    let ask = |request: pb::FetchSliceRequest| {
        cluster.runtime.block_on(async {
            let mut worker = pb::shards_client::ShardsClient::connect(endpoint.clone()).await.unwrap();
            worker.fetch_slice(Request::new(request)).await.map(|_| ()).map_err(ServiceError::from)
        })
    };
    let row = RowRange { start: 1, end: 2 };
    let forge = |key: CoordinatorKey| {
        let nonce = cluster.noise_id(&job).job_nonce;
        let of = GrantedBranch { job: &job, nonce: &nonce, branch: 0 };
        let validity = Validity { epoch: 1, until_ms: u64::MAX, extent: None };
        let released = key.release(of, row, vec![Commitment::of_text("mine")], validity);
        pb::ReleaseToken::from(released.token(row).unwrap())
    };
    // By a key of its own, and by the public one, which is all that a process is sent that registers as a worker.
    let public = coordinator_key_by_registering(&cluster);
    let by_public = CoordinatorKey::new(public.as_slice().try_into().unwrap());
    let forged = forge(CoordinatorKey::new(&[1; 32]));
    for token in [forged.clone(), forge(by_public)] {
        let refused = ask(request(token, epoch)).unwrap_err();
        assert_eq!(refused.kind(), "not_bound", "{refused}");
    }
    let mut short = forged.clone();
    short.grant.pop();
    let refused = ask(request(short, epoch)).unwrap_err();
    assert_eq!(refused.kind(), "invalid_argument", "{refused}");
    // A grant for one row is none for the next.
    let first = RowRange { start: 0, end: 1 };
    let commitments = [Commitment::of_text("step 0")];
    let bind = cluster.client.bind(&job, 0, first, &commitments);
    let of_row_0 = cluster.runtime.block_on(bind).unwrap().token(first).unwrap();
    let refused = ask(request(of_row_0.into(), epoch)).unwrap_err();
    assert_eq!(refused.kind(), "not_bound", "{refused}");
    let stale = ask(request(forged, epoch + 1)).unwrap_err();
    assert_eq!(stale.kind(), "fenced", "{stale}");
    assert!(stale.retry_safe());
}

/// It has the role, and of the key what every grant says.
#[test]
fn a_worker_without_the_key_serves_nothing() {
    let mut cluster = start(0);
    let job = job("bind");
    cluster.create(&job, &plans()[0], DIMENSION, 1).unwrap();
    let url = cluster.cluster.url();
    let rogue = async {
        let mut workers = Workers::connect(url).await.unwrap();
        register(&mut workers).await;
        let mut leases = Vec::new();
        let mut has_held = false;
        for _ in 0..500 {
            let held = beat(&mut workers, leases.clone()).await.grants;
            if has_held && held.is_empty() {
                return;
            }
            has_held |= !held.is_empty();
            leases = held.into_iter().map(ready).collect();
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("it keeps what it was given: {leases:?}");
    };
    cluster.runtime.block_on(rogue);
    let routing = cluster.runtime.block_on(cluster.client.routing(&job)).unwrap();
    assert_eq!(routing.routes[0].endpoint, None);
    cluster.cluster.add_worker().unwrap();
    let rows = cluster.fetch(&job, 0..1, 0..8).unwrap();
    assert_same_bits(&rows, &cluster.expected(&job, &plans()[0], 0..1, 0..8));
}

/// As a worker that serves, with the commitment of its grant.
fn ready(grant: pb::LeaseGrant) -> pb::LeaseStatus {
    pb::LeaseStatus {
        job: grant.job,
        shard: grant.shard,
        epoch: grant.epoch,
        state: pb::LeaseState::Ready.into(),
        next_row: 8,
        key_commitment: grant.key_commitment,
        ..pb::LeaseStatus::default()
    }
}
