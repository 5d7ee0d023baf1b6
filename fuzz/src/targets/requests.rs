//! Requests that the services check themselves: heartbeats, hints, and those with little more than the name of a job or
//! worker.

use std::time::Duration;

use prost::Message;
use proto::{Incarnation, JobId, WorkerId, model::PlacementHint, pb};

use super::messages::range;
use crate::{
    Target,
    of_the_coordinator::reports::{LeaseReport, ReportedState},
    refusal,
};

pub fn targets() -> Vec<Target> {
    vec![
        Target { name: "heartbeat", seeds: heartbeat_seeds, run: heartbeat, slice: 3_000 },
        Target { name: "placement-hints", seeds: hint_seeds, run: hints, slice: 3_000 },
        Target { name: "named", seeds: named_seeds, run: named, slice: 5_000 },
    ]
}

fn heartbeat_seeds() -> Vec<Vec<u8>> {
    let lease = |state: pb::LeaseState, row_seconds| pb::LeaseStatus {
        job: "job-1".into(),
        shard: 1,
        epoch: 7,
        state: state.into(),
        next_row: 4,
        state_bytes: 1 << 20,
        ahead_bytes: 9,
        key_commitment: vec![1; 32],
        message: "the key is another".into(),
        released: 3,
        row_seconds,
        stalled_seconds: 0.25,
    };
    let request = pb::HeartbeatRequest {
        worker: "worker-1".into(),
        incarnation: vec![6; 16],
        leases: vec![lease(pb::LeaseState::Ready, 0.5), lease(pb::LeaseState::Failed, f64::NAN)],
        marks: vec![pb::JobMark {
            job: "job-1".into(),
            branch: 1,
            next_row: 7,
            job_nonce: vec![3; 32],
            commitment: vec![1; 33],
        }],
        standbys: vec![lease(pb::LeaseState::Restoring, 1e300)],
        leaving: true,
        bytes_per_second: 1e9,
        ledger_id: vec![4; 32],
        highest_epoch: 3,
    };
    vec![request.encode_to_vec()]
}

/// Every report has the worker's values, except for invalid times.
fn heartbeat(bytes: &[u8]) -> String {
    let Ok(request) = pb::HeartbeatRequest::decode(bytes) else { return "no message".into() };
    let process = WorkerId::new(&*request.worker).is_ok()
        && Incarnation::try_from(request.incarnation.as_slice()).is_ok();
    let mut said = format!("{process}");
    for status in request.leases.into_iter().chain(request.standbys).take(4) {
        let report = LeaseReport::try_from(status.clone());
        let _ = format!("{report:?}");
        said += " ";
        said += &match report {
            Ok(report) => {
                is_time(report.row_time, status.row_seconds);
                is_time(report.stalled, status.stalled_seconds);
                let state = format!("{:?}", report.state);
                let row_seconds = status.row_seconds;
                let stalled_seconds = status.stalled_seconds;
                let again = pb::LeaseStatus { row_seconds, stalled_seconds, ..status_of(report) };
                assert_eq!(again.encode_to_vec(), status.encode_to_vec(), "the report says something else");
                state
            }
            Err(error) => refusal(&error),
        };
    }
    said
}

fn status_of(report: LeaseReport) -> pb::LeaseStatus {
    let state = match report.state {
        ReportedState::Restoring => pb::LeaseState::Restoring,
        ReportedState::Ready => pb::LeaseState::Ready,
        ReportedState::Failed => pb::LeaseState::Failed,
    };
    pb::LeaseStatus {
        job: report.job.into(),
        shard: report.shard,
        epoch: report.epoch,
        state: state.into(),
        next_row: report.next_row,
        state_bytes: report.state_bytes,
        ahead_bytes: report.ahead_bytes,
        key_commitment: report.key_commitment,
        message: report.message,
        released: report.released,
        row_seconds: 0.0,
        stalled_seconds: 0.0,
    }
}

/// Checks that the times agree to a nanosecond, or to the precision of a double for long ones. Invalid seconds give zero.
fn is_time(time: Duration, seconds: f64) {
    let beyond = Duration::MAX.as_secs_f64();
    if !(0.0..beyond).contains(&seconds) {
        assert_eq!(time, Duration::ZERO, "{seconds} s is not a valid time");
        return;
    }
    let difference = (time.as_secs_f64() - seconds).abs();
    assert!(difference <= 1e-9 + seconds * 1e-15, "{time:?} for {seconds} s");
}

fn hint_seeds() -> Vec<Vec<u8>> {
    let hint = |near: &str| pb::PlacementHint { range: range(), near: near.into() };
    let hints = vec![hint("worker-1"), hint("zone=a")];
    vec![pb::SetPlacementHintsRequest { job: "job-1".into(), hints }.encode_to_vec()]
}

/// Accepted hints are those of the request.
fn hints(bytes: &[u8]) -> String {
    let Ok(request) = pb::SetPlacementHintsRequest::decode(bytes) else { return "no message".into() };
    let mut said = JobId::new(request.job).is_ok().to_string();
    for hint in request.hints.into_iter().take(4) {
        said += " ";
        said += &match PlacementHint::try_from(hint.clone()) {
            Ok(taken) => {
                assert!(!taken.range.as_range().is_empty(), "nothing is near {taken:?}");
                assert!(!taken.near.is_empty() && taken.near.len() <= 128, "{taken:?}");
                let again = pb::PlacementHint { range: Some(taken.range.into()), near: taken.near };
                assert_eq!(again, hint);
                "ok".into()
            }
            Err(error) => refusal(&error),
        };
    }
    said
}

macro_rules! each {
    ($($message:ident.$field:ident: $name:ident),* $(,)?) => {
        [$(|bytes| by_name::<pb::$message, _>(bytes, |message| Ok($name::new(&*message.$field)?.to_string()))),*]
    };
}

/// Selects the request by the first byte of an input.
const NAMED: [fn(&[u8]) -> String; 16] = each![
    GetJobRequest.job: JobId,
    FinishJobRequest.job: JobId,
    DestroyJobRequest.job: JobId,
    ReshardJobRequest.job: JobId,
    CheckpointJobRequest.job: JobId,
    ListEntriesRequest.job: JobId,
    GetHeadRequest.job: JobId,
    GetCursorRequest.job: JobId,
    CheckCursorRequest.job: JobId,
    ResumeJobRequest.job: JobId,
    GetReportRequest.job: JobId,
    GetRoutingRequest.job: JobId,
    GetJobPlanRequest.job: JobId,
    SnapshotRequest.job: JobId,
    DeregisterRequest.worker: WorkerId,
    DrainWorkerRequest.worker: WorkerId,
];

fn named_seeds() -> Vec<Vec<u8>> {
    let job = || "job-1".to_owned();
    let worker = || "worker-1".to_owned();
    let cursor = pb::ResumeJobRequest { job: job(), cursor: vec![1; 90], replay: true };
    let snapshot = pb::SnapshotRequest { job: job(), shard: 1, lease_epoch: 7, object: "job-1/1".into() };
    let seeds = [
        (0, pb::GetJobRequest { job: job() }.encode_to_vec()),
        (5, pb::ListEntriesRequest { job: job(), first: 3, most: 9 }.encode_to_vec()),
        (9, cursor.encode_to_vec()),
        (10, pb::GetReportRequest { job: job(), delta: 1e-6 }.encode_to_vec()),
        (13, snapshot.encode_to_vec()),
        (14, pb::DeregisterRequest { worker: worker(), incarnation: vec![6; 16] }.encode_to_vec()),
    ];
    seeds.into_iter().map(|(which, message)| [&[which][..], &message].concat()).collect()
}

fn named(bytes: &[u8]) -> String {
    let Some((which, message)) = bytes.split_first() else { return "nothing".into() };
    let which = usize::from(*which) % NAMED.len();
    format!("{which} {}", NAMED[which](message))
}

/// The message is the same after being written and read, and so is the name in it.
fn by_name<M, N>(bytes: &[u8], name: N) -> String
where
    M: Message + Default + Clone,
    N: Fn(&M) -> proto::Result<String>,
{
    let Ok(message) = M::decode(bytes) else { return "no message".into() };
    let written = message.encode_to_vec();
    let again = M::decode(written.as_slice()).expect("its own bytes are a message");
    assert_eq!(again.encode_to_vec(), written, "another message after it was written and read");
    let taken = name(&message);
    if let Ok(taken) = &taken {
        assert!(!taken.is_empty() && !taken.contains(['/', '\0']), "{taken:?} could leave a folder");
        assert!(
            name(&again).is_ok_and(|again| again == *taken),
            "another name after it was written and read"
        );
    }
    taken.map_or_else(|error| refusal(&error), |_| "ok".into())
}
