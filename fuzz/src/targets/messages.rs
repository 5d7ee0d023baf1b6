//! Requests and grants: from bytes to messages to the services' own types, and back.

use std::fmt::Debug;

use client::Routing;
use prost::Message;
use proto::{
    ChunkHead, ServiceError,
    model::{Bind, CheckpointPiece, CreateJob, Fetch, FetchSlice, LeaseGrant, Register},
    pb,
};

use crate::{Target, outcome, words};

pub fn targets() -> Vec<Target> {
    vec![
        Target {
            name: "create-job",
            seeds: create_job,
            run: checked::<pb::CreateJobRequest, CreateJob>,
            slice: 3_000,
        },
        Target { name: "bind", seeds: bind, run: checked::<pb::BindRequest, Bind>, slice: 3_000 },
        Target { name: "fetch", seeds: fetch, run: checked::<pb::FetchRequest, Fetch>, slice: 3_000 },
        Target {
            name: "fetch-slice",
            seeds: slice,
            run: checked::<pb::FetchSliceRequest, FetchSlice>,
            slice: 3_000,
        },
        Target {
            name: "register",
            seeds: register,
            run: checked::<pb::RegisterRequest, Register>,
            slice: 3_000,
        },
        Target {
            name: "lease-grant",
            seeds: grant,
            run: both_ways::<pb::LeaseGrant, LeaseGrant>,
            slice: 3_000,
        },
        Target {
            name: "piece",
            seeds: piece,
            run: both_ways::<pb::CheckpointPiece, CheckpointPiece>,
            slice: 3_000,
        },
        Target { name: "routing", seeds: routing, run: both_ways::<pb::Routing, Routing>, slice: 3_000 },
        Target { name: "chunk-head", seeds: chunk, run: chunk_head, slice: 3_000 },
    ]
}

pub(super) fn checked<M, T>(bytes: &[u8]) -> String
where
    M: Message + Default,
    T: TryFrom<M, Error = ServiceError> + Debug,
{
    match M::decode(bytes) {
        Ok(message) => {
            let taken = T::try_from(message);
            // Errors and logs print them, which must not panic either.
            let _ = format!("{taken:?}");
            outcome(taken)
        }
        Err(error) => words(error),
    }
}

fn both_ways<M, T>(bytes: &[u8]) -> String
where
    M: Message + Default + From<T>,
    T: TryFrom<M, Error = ServiceError> + Clone + PartialEq + Debug,
{
    let Ok(message) = M::decode(bytes) else { return "no message".into() };
    match T::try_from(message) {
        Ok(taken) => {
            let sent = M::from(taken.clone()).encode_to_vec();
            let back = M::decode(sent.as_slice()).map(T::try_from);
            assert!(matches!(&back, Ok(Ok(back)) if *back == taken), "{taken:?} came back as {back:?}");
            "ok".into()
        }
        Err(error) => words(error),
    }
}

fn chunk_head(bytes: &[u8]) -> String {
    let Ok(chunk) = pb::Chunk::decode(bytes) else { return "no message".into() };
    let Ok(head) = ChunkHead::of(&chunk) else { return "no head".into() };
    let rows = proto::RowRange { start: 2, end: 9 };
    match head.check(rows, head.element) {
        Ok(range) => {
            assert!(rows.as_range().contains(&head.row) && !range.as_range().is_empty());
            assert_eq!(range.start, head.start);
            "ok".into()
        }
        Err(error) => words(error),
    }
}

fn rows() -> Option<pb::RowRange> {
    Some(pb::RowRange { start: 3, end: 5 })
}

pub(super) fn range() -> Option<pb::CoordinateRange> {
    Some(pb::CoordinateRange { start: 512, end: 1_300 })
}

fn create_job() -> Vec<Vec<u8>> {
    let request = pb::CreateJobRequest {
        job: "job-1".into(),
        plan_toml: "format = 1".into(),
        dimension: 1_300,
        shards: 2,
        key_commitment: vec![1; 32],
        plan_digest: vec![2; 32],
        account: None,
    };
    vec![request.encode_to_vec()]
}

fn bind_request() -> pb::BindRequest {
    pb::BindRequest {
        job: "job-1".into(),
        branch: 0,
        rows: rows(),
        commitments: vec![vec![3; 32]; 2],
        range: range(),
    }
}

fn bind() -> Vec<Vec<u8>> {
    vec![bind_request().encode_to_vec()]
}

fn fetch() -> Vec<Vec<u8>> {
    let pb::BindRequest { job, branch, rows, commitments, range } = bind_request();
    let request = pb::FetchRequest { job, branch, rows, commitments, range, deadline_ms: 9, element_type: 1 };
    vec![request.encode_to_vec()]
}

fn release_token() -> pb::ReleaseToken {
    let numbers = [3u64, 5, 1, 1_000].map(u64::to_le_bytes);
    let grant = [&numbers.concat()[..], &[4; 64]].concat();
    pb::ReleaseToken { grant, commitments: vec![vec![3; 32]; 2], path: vec![vec![6; 32]] }
}

fn slice() -> Vec<Vec<u8>> {
    let request = pb::FetchSliceRequest {
        job: "job-1".into(),
        branch: 0,
        shard: 1,
        lease_epoch: 7,
        rows: rows(),
        range: range(),
        token: Some(release_token()),
        deadline_ms: 9,
        element_type: 1,
        region: vec![5; 16],
        slot: 1,
    };
    vec![request.encode_to_vec()]
}

fn register() -> Vec<Vec<u8>> {
    let request = pb::RegisterRequest {
        worker: "worker-1".into(),
        endpoint: "http://127.0.0.1:7".into(),
        protocol_version: 1,
        stream_version: 2,
        incarnation: vec![6; 16],
        ..pb::RegisterRequest::default()
    };
    vec![request.encode_to_vec()]
}

fn pb_piece() -> pb::CheckpointPiece {
    pb::CheckpointPiece {
        object: "job-1/1/0-512.shard".into(),
        range: range(),
        next_row: 4,
        sha256: vec![7; 32],
    }
}

fn piece() -> Vec<Vec<u8>> {
    vec![pb_piece().encode_to_vec()]
}

fn grant() -> Vec<Vec<u8>> {
    let grant = pb::LeaseGrant {
        job: "job-1".into(),
        job_nonce: vec![3; 32],
        lineage: vec![pb::LineageSegment { from_row: 0, branch: 0, nonce: vec![3; 32] }],
        shard: 1,
        range: range(),
        epoch: 7,
        dimension: 1_300,
        plan_digest: vec![2; 32],
        layout_digest: vec![3; 32],
        key_commitment: vec![1; 32],
        next_row: 4,
        store_url: "file:///x".into(),
        pieces: vec![pb_piece()],
        ledger_id: vec![4; 32],
    };
    vec![grant.encode_to_vec()]
}

fn routing() -> Vec<Vec<u8>> {
    let route = |shard: u32, start, end| pb::Route {
        shard,
        range: Some(pb::CoordinateRange { start, end }),
        lease_epoch: 7,
        endpoint: "http://127.0.0.1:7".into(),
        worker: format!("worker-{shard}"),
        local: None,
        reason: String::new(),
    };
    let routes = vec![route(0, 0, 512), route(1, 512, 1_300)];
    let routing = pb::Routing {
        job: "job-1".into(),
        branch: 0,
        dimension: 1_300,
        iterations: 9,
        routes,
        element_type: proto::ElementType::I32.into(),
    };
    vec![routing.encode_to_vec()]
}

fn chunk() -> Vec<Vec<u8>> {
    let chunk = proto::chunk_of(3, 512, proto::ElementType::F32, vec![1; 32].into());
    vec![chunk.encode_to_vec()]
}
