//! Callers that disconnect while their request is being processed.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use node::auth::Access;
use proto::pb::{self, jobs_server::Jobs, noise_server::Noise};
use tonic::Request;

use super::*;
use crate::grpc::{JobsService, NoiseService};

/// Starts a call and drops it before the ledger has answered.
async fn call_and_leave<T>(call: impl Future<Output = T>) {
    let mut call = pin!(call);
    let begun = poll_fn(|task| Poll::Ready(call.as_mut().poll(task).is_ready()));
    assert!(!begun.await, "it was answered at once");
}

/// Waits until the coordinator's memory has followed the ledger.
async fn becomes(coordinator: &Coordinator, is_so: impl Fn(&pb::Job) -> bool) {
    for _ in 0..500 {
        if coordinator.job_message(&job()).is_ok_and(|job| is_so(&job)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let seen = coordinator.job_message(&job());
    let kept = coordinator.ledger().job(&job()).unwrap();
    panic!("the ledger has {kept:?}, and memory has {seen:?}");
}

fn admitted<M>(message: M) -> Request<M> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(Access::everyone());
    request
}

#[tokio::test]
async fn a_change_is_made_whole_also_where_its_caller_has_left() {
    let folder = TempDir::new().unwrap();
    let coordinator = Arc::new(open(&folder));
    let jobs = JobsService(coordinator.clone());
    let name = job().to_string();

    let create = pb::CreateJobRequest {
        job: name.clone(),
        plan_toml: PLAN.to_owned(),
        dimension: 2048,
        shards: 2,
        key_commitment: KEY.to_vec(),
        plan_digest: Vec::new(),
        account: None,
    };
    call_and_leave(jobs.create_job(admitted(create))).await;
    becomes(&coordinator, |job| job.state() == pb::JobState::Running).await;

    let back = pb::OpenBranchRequest { job: name.clone(), from_row: 0, expected_branch: 0, parent: None };
    call_and_leave(jobs.open_branch(admitted(back.clone()))).await;
    becomes(&coordinator, |job| job.branch == 1).await;
    let again = jobs.open_branch(admitted(back)).await.unwrap().into_inner();
    assert_eq!((again.branch, again.next_row), (1, 0));

    call_and_leave(jobs.finish_job(admitted(pb::FinishJobRequest { job: name.clone() }))).await;
    becomes(&coordinator, |job| job.state() == pb::JobState::Finished).await;
    call_and_leave(jobs.destroy_job(admitted(pb::DestroyJobRequest { job: name }))).await;
    becomes(&coordinator, |job| job.state() == pb::JobState::Destroyed).await;
}

/// Otherwise the privacy spent would be shown as less than it is until the next start.
#[tokio::test]
async fn rows_that_the_ledger_has_are_counted_also_where_their_caller_has_left() {
    let folder = TempDir::new().unwrap();
    let coordinator = Arc::new(open(&folder));
    coordinator.create_job(create(2048, 1)).await.unwrap();
    let noise = NoiseService(coordinator.clone());
    let request = pb::BindRequest {
        job: job().to_string(),
        branch: 0,
        rows: Some(pb::RowRange { start: 0, end: 3 }),
        commitments: vec![Commitment::of_text("x").to_bytes().to_vec(); 3],
        ..pb::BindRequest::default()
    };
    call_and_leave(noise.bind(admitted(request))).await;
    becomes(&coordinator, |job| (job.next_row, job.rows_bound) == (3, 3)).await;

    let through = pb::FetchRequest {
        job: job().to_string(),
        rows: Some(pb::RowRange { start: 3, end: 5 }),
        range: Some(pb::CoordinateRange { start: 0, end: 8 }),
        commitments: vec![Commitment::of_text("x").to_bytes().to_vec(); 2],
        ..pb::FetchRequest::default()
    };
    call_and_leave(noise.fetch(admitted(through))).await;
    becomes(&coordinator, |job| (job.next_row, job.rows_bound) == (5, 5)).await;
}

/// Accounts of long plans take seconds each, on threads that bindings need too.
#[tokio::test]
async fn reports_wait_for_each_other_and_no_call_waits_for_them() {
    let folder = TempDir::new().unwrap();
    let coordinator = Arc::new(open(&folder));
    coordinator.create_job(create(2048, 1)).await.unwrap();
    let places = coordinator.answer_limits().accounts.available_permits() as u32;
    let busy = coordinator.answer_limits().accounts.clone().acquire_many_owned(places).await.unwrap();
    let mut report = pin!(coordinator.report(job(), 1e-6, None));
    let waiting = tokio::time::timeout(Duration::from_millis(200), &mut report).await;
    assert!(waiting.is_err(), "{waiting:?}");
    let commitments = vec![Commitment::of_text("x")];
    let bind = Bind { job: job(), branch: 0, rows: (0..1).into(), commitments, extent: None };
    coordinator.bind_now(bind).await.unwrap();
    drop(busy);
    report.await.unwrap();
    assert_eq!(coordinator.answer_limits().accounts.available_permits() as u32, places);
}

#[tokio::test(start_paused = true)]
async fn resharding_is_given_up_also_where_its_caller_has_left() {
    let folder = TempDir::new().unwrap();
    let coordinator = Arc::new(open(&folder));
    let jobs = JobsService(coordinator.clone());
    // Room for what it serves, four rows of 8 KiB, and no more.
    let place = WorkerPlace { memory_bytes: Some(33_000), ..WorkerPlace::default() };
    coordinator.register(Register { place, ..registration("a", 1) }).unwrap();
    coordinator.create_job(create(2048, 1)).await.unwrap();
    coordinator.reconcile().await.unwrap();
    let served = coordinator.make_ready("a", 1);
    assert_eq!(served.len(), 1);
    let pending_after = async |time: Duration| {
        for _ in 0..8 {
            coordinator.reconcile().await.unwrap();
            coordinator.send_reports("a", 1, &[report(&served[0], ReportedState::Ready)]);
            tokio::time::sleep(time / 8).await;
        }
        let cluster = coordinator.cluster();
        cluster.job(&job()).unwrap().pending.as_ref().map(|pending| pending.number)
    };

    let request = pb::ReshardJobRequest { job: job().to_string(), shards: 2 };
    call_and_leave(jobs.reshard_job(admitted(request.clone()))).await;
    let number = pending_after(TTL).await;
    assert!(number.is_some(), "a layout is being prepared");
    call_and_leave(jobs.reshard_job(admitted(request))).await;
    assert_eq!(pending_after(TTL / 2).await, number, "the one requested before");
    assert_eq!(pending_after(TTL).await, None, "abandoned");
    assert_eq!(coordinator.job_message(&job()).unwrap().shards, 1);
}
