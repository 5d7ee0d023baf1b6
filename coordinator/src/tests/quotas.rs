//! Quotas: what is refused, before anything is written, and what never is.

use std::sync::Arc;

use node::auth::{Access, ClientKey};
use proto::model::OpenBranch;
use proto::pb::{self, jobs_server::Jobs, noise_server::Noise};
use tonic::{Code, Request};

use super::*;
use crate::grpc::{JobsService, NoiseService};
use crate::quotas::QuotaSettings;

fn with_quotas(folder: &TempDir, quotas: QuotaSettings) -> Coordinator {
    let settings = Settings { checkpoint_url: None, quotas, ..Settings::in_folder(folder.path()).unwrap() };
    let stop = FatalStop::new(CancellationToken::new());
    Coordinator::open(ledger_in(folder), settings, Connections::new(), stop).unwrap()
}

fn from<M>(client: &str, message: M) -> Request<M> {
    let mut request = Request::new(message);
    request.extensions_mut().insert(Access::everyone());
    request.extensions_mut().insert(ClientKey(client.into()));
    request
}

fn rewind(expected_branch: u64) -> OpenBranch {
    OpenBranch { job: job(), from_row: 0, expected_branch, parent: None }
}

fn rewind_message(job: &str, expected_branch: u64) -> pb::OpenBranchRequest {
    pb::OpenBranchRequest { job: job.to_owned(), from_row: 0, expected_branch, parent: None }
}

/// The entries of the job's chain: what is refused adds none.
fn entries(coordinator: &Coordinator) -> u64 {
    coordinator.ledger().head(&job()).unwrap().entries
}

#[track_caller]
fn is_refused(error: &ServiceError, flag: &str) {
    assert!(error.kind() == "quota_exceeded" && error.to_string().contains(flag), "{error}");
    assert_eq!(error.code(), Code::ResourceExhausted);
}

#[tokio::test(start_paused = true)]
async fn rows_beyond_a_jobs_total_are_refused_and_bound_ones_are_not() {
    let folder = TempDir::new().unwrap();
    let quotas = QuotaSettings { job_rows: 10, ..QuotaSettings::default() };
    let coordinator = with_quotas(&folder, quotas);
    coordinator.create_job(create(4096, 1)).await.unwrap();
    coordinator.bind_now(bind(0..7, "x")).await.unwrap();
    coordinator.open_branch(rewind(0)).await.unwrap();
    let again = |rows| Bind { branch: 1, ..bind(rows, "y") };
    coordinator.bind_now(again(0..2)).await.unwrap();
    let before = entries(&coordinator);
    let error = coordinator.bind_now(again(2..4)).await.unwrap_err();
    is_refused(&error, "--max-job-rows");
    assert!(!error.retry_safe() && entries(&coordinator) == before, "{error}");
    // As far as they are bound, rows are released as often as anyone likes; and one is left.
    coordinator.bind_now(again(0..2)).await.unwrap();
    coordinator.bind_now(again(1..3)).await.unwrap();
    is_refused(&coordinator.bind_now(again(3..4)).await.unwrap_err(), "--max-job-rows");
    // A restart forgets nothing of it.
    drop(coordinator);
    let coordinator = with_quotas(&folder, quotas);
    assert_eq!(coordinator.cluster().job(&job()).unwrap().rows_ever_bound, 10);
    let raised = QuotaSettings { job_rows: 11, ..quotas };
    drop(coordinator);
    let coordinator = with_quotas(&folder, raised);
    coordinator.bind_now(again(3..4)).await.unwrap();
}

#[tokio::test]
async fn a_row_before_those_bound_counts_like_any_other() {
    let folder = TempDir::new().unwrap();
    let coordinator = with_quotas(&folder, QuotaSettings { job_rows: 8, ..QuotaSettings::default() });
    coordinator.create_job(create(4096, 1)).await.unwrap();
    coordinator.bind_now(bind(7..8, "x")).await.unwrap();
    coordinator.bind_now(bind(0..7, "x")).await.unwrap();
    coordinator.open_branch(rewind(0)).await.unwrap();
    let again = Bind { branch: 1, ..bind(0..1, "y") };
    is_refused(&coordinator.bind_now(again).await.unwrap_err(), "--max-job-rows");
    // What no quota would let through is refused for its own reason.
    let error = coordinator.bind_now(bind(0..1, "y")).await.unwrap_err();
    assert_eq!(error.kind(), "branch_superseded", "{error}");
}

/// The plan has eight rows.
#[tokio::test]
async fn a_job_that_could_not_be_finished_is_not_created() {
    for (quotas, flag) in [
        (QuotaSettings { job_rows: 7, ..QuotaSettings::default() }, "--max-job-rows"),
        (QuotaSettings { job_bytes: 4_799, ..QuotaSettings::default() }, "--max-job-bytes"),
    ] {
        let folder = TempDir::new().unwrap();
        let coordinator = with_quotas(&folder, quotas);
        let error = coordinator.create_job(create(4096, 1)).await.unwrap_err();
        is_refused(&error, flag);
        assert!(!error.retry_safe() && coordinator.list_jobs().is_empty(), "{error}");
        // Under larger quotas it is, and is found again under the smaller ones.
        drop(coordinator);
        with_quotas(&folder, QuotaSettings::default()).create_job(create(4096, 1)).await.unwrap();
        with_quotas(&folder, quotas).create_job(create(4096, 1)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_branch_refused_for_its_bytes_costs_no_rate() {
    let folder = TempDir::new().unwrap();
    // One branch of one shard; and ten at once.
    let quotas =
        QuotaSettings { branches_per_minute: 1, caller_bytes_per_day: 1_152, ..QuotaSettings::default() };
    let coordinator = Arc::new(with_quotas(&folder, quotas));
    coordinator.create_job(create(4096, 1)).await.unwrap();
    let jobs = JobsService(coordinator.clone());
    jobs.open_branch(from("a", rewind_message("job", 0))).await.unwrap();
    for _ in 0..20 {
        let status = jobs.open_branch(from("a", rewind_message("job", 1))).await.unwrap_err();
        is_refused(&status.into(), "--max-caller-bytes-per-day");
    }
    jobs.open_branch(from("b", rewind_message("job", 1))).await.unwrap();
}

#[tokio::test]
async fn branches_beyond_a_jobs_total_are_refused_and_the_last_one_is_found_again() {
    let folder = TempDir::new().unwrap();
    let coordinator = with_quotas(&folder, QuotaSettings { job_branches: 3, ..QuotaSettings::default() });
    coordinator.create_job(create(4096, 4)).await.unwrap();
    for branch in 0..3 {
        coordinator.open_branch(rewind(branch)).await.unwrap();
    }
    let before = entries(&coordinator);
    let error = coordinator.open_branch(rewind(3)).await.unwrap_err();
    is_refused(&error, "--max-job-branches");
    assert!(!error.retry_safe() && entries(&coordinator) == before);
    assert_eq!(coordinator.open_branch(rewind(2)).await.unwrap().branch, 3, "opened before");
    coordinator.bind_now(Bind { branch: 3, ..bind(0..1, "x") }).await.unwrap();
}

#[tokio::test]
async fn bytes_of_a_job_hold_its_branches_and_rows() {
    let folder = TempDir::new().unwrap();
    let coordinator = with_quotas(&folder, QuotaSettings { job_bytes: 6_000, ..QuotaSettings::default() });
    coordinator.create_job(create(8192, 16)).await.unwrap();
    coordinator.open_branch(rewind(0)).await.unwrap();
    is_refused(&coordinator.open_branch(rewind(1)).await.unwrap_err(), "--max-job-bytes");
    let on_branch = |rows| Bind { branch: 1, ..bind(rows, "x") };
    coordinator.bind_now(on_branch(0..4)).await.unwrap();
    is_refused(&coordinator.bind_now(on_branch(4..6)).await.unwrap_err(), "--max-job-bytes");
}

/// Rewinds at rising rows make a lineage longer and longer, up to its limit; one to an earlier row is always possible.
#[test]
fn a_lineage_has_so_many_segments_and_no_more() {
    // In memory where that is possible: two thousand changes, each durable.
    let folder = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
    let ledger = ledger_in(&folder);
    let nonce = |branch: u64| Nonce::from_bytes([branch as u8; 32]);
    let plan = plan::Plan::from_toml_str(&PLAN.replace("iterations = 8", "iterations = 2000")).unwrap();
    let text = plan.to_toml_string().unwrap();
    let of = ::release::job::define(job(), &plan, text, 512, KEY, 1, nonce(0)).unwrap();
    ledger.create_job(&of.record, &of.shards).unwrap();
    let most = proto::Lineage::MAX_SEGMENTS as u64;
    let rows = RowRange::new(0, 1500).unwrap();
    let open =
        |from_row, branch| ledger.open_branch(&OpenBranch { from_row, ..rewind(branch) }, nonce(branch + 1));
    ledger.bind(&job(), 0, rows, &vec![Commitment::of_text("x"); 1500]).unwrap();
    for branch in 0..most - 1 {
        let row = branch + 1;
        let opened = open(row, branch).unwrap();
        let next = RowRange::new(row, row + 1).unwrap();
        ledger.bind(&job(), opened.job.branch, next, &[Commitment::of_text("x")]).unwrap();
    }
    let before = ledger.head(&job()).unwrap();
    let error = ServiceError::from(open(most, most - 1).unwrap_err());
    is_refused(&error, &format!("rewind to row {}", most - 1));
    assert_eq!(ledger.head(&job()).unwrap(), before);
    let opened = open(most - 1, most - 1).unwrap();
    assert_eq!(opened.job.lineage.segments().len() as u64, most);
}

#[tokio::test(start_paused = true)]
async fn a_rate_is_of_the_job_and_the_caller_and_says_when_to_ask_again() {
    let folder = TempDir::new().unwrap();
    let quotas = QuotaSettings { branches_per_minute: 1, ..QuotaSettings::default() };
    let coordinator = Arc::new(with_quotas(&folder, quotas));
    coordinator.create_job(create(4096, 1)).await.unwrap();
    let other = JobId::new("other").unwrap();
    coordinator.create_job(CreateJob { job: other.clone(), ..create(4096, 1) }).await.unwrap();
    let jobs = JobsService(coordinator.clone());
    for branch in 0..10 {
        jobs.open_branch(from("a", rewind_message("job", branch))).await.unwrap();
    }
    let before = entries(&coordinator);
    let status = jobs.open_branch(from("a", rewind_message("job", 10))).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted);
    let error = ServiceError::from(status);
    is_refused(&error, "--max-branches-per-minute");
    let ServiceError::QuotaExceeded { retry_after_ms: Some(ms), .. } = error else { panic!("{error}") };
    assert!(
        error.retry_safe() && (59_000..=60_001).contains(&ms) && entries(&coordinator) == before,
        "{error}"
    );
    // Under another name, and by a resume, it is the same job; another job has its own.
    assert!(jobs.open_branch(from("b", rewind_message("job", 10))).await.is_err());
    let cursor = jobs.get_cursor(from("a", pb::GetCursorRequest { job: "job".into(), next_row: None })).await;
    let cursor = cursor.unwrap().into_inner().cursor;
    let resume = pb::ResumeJobRequest { job: "job".into(), cursor, replay: false };
    is_refused(&jobs.resume_job(from("a", resume)).await.unwrap_err().into(), "--max-branches-per-minute");
    jobs.open_branch(from("a", rewind_message("other", 0))).await.unwrap();
    tokio::time::advance(Duration::from_millis(ms)).await;
    jobs.open_branch(from("a", rewind_message("job", 10))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn checkpoints_hints_and_lines_have_rates_of_their_own() {
    let folder = TempDir::new().unwrap();
    let one = QuotaSettings {
        checkpoints_per_minute: 1,
        placements_per_minute: 1,
        log_lines_per_minute: 1,
        ..QuotaSettings::default()
    };
    let coordinator = Arc::new(with_quotas(&folder, one));
    coordinator.create_job(create(4096, 1)).await.unwrap();
    let jobs = JobsService(coordinator.clone());
    let name = || job().to_string();
    for turn in 0..11 {
        let hints = pb::SetPlacementHintsRequest { job: name(), hints: Vec::new() };
        let hinted = jobs.set_placement_hints(from("a", hints)).await.map(drop);
        let finished = jobs.finish_job(from("a", pb::FinishJobRequest { job: name() })).await.map(drop);
        let written =
            jobs.checkpoint_job(from("a", pb::CheckpointJobRequest { job: name() })).await.map(drop);
        let written = ServiceError::from(written.unwrap_err());
        if turn < 10 {
            assert!(hinted.is_ok() && finished.is_ok() && written.kind() == "job_state", "{turn}: {written}");
        } else {
            is_refused(&hinted.unwrap_err().into(), "--max-placements-per-minute");
            is_refused(&finished.unwrap_err().into(), "--max-log-lines-per-minute");
            is_refused(&written, "--max-checkpoints-per-minute");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_caller_adds_so_many_bytes_a_day_over_all_jobs() {
    let folder = TempDir::new().unwrap();
    // Ten rows of 600 bytes.
    let quotas = QuotaSettings { caller_bytes_per_day: 6_000, ..QuotaSettings::default() };
    let coordinator = Arc::new(with_quotas(&folder, quotas));
    let noise = NoiseService(coordinator.clone());
    let message = |job: &str, rows: std::ops::Range<u64>| pb::BindRequest {
        job: job.to_owned(),
        commitments: vec![Commitment::of_text("x").to_bytes().to_vec(); (rows.end - rows.start) as usize],
        rows: Some(pb::RowRange { start: rows.start, end: rows.end }),
        ..pb::BindRequest::default()
    };
    for name in ["job", "other"] {
        let name = JobId::new(name).unwrap();
        coordinator.create_job(CreateJob { job: name.clone(), ..create(4096, 1) }).await.unwrap();
        // Rows bound again cost nothing.
        for _ in 0..5 {
            noise.bind(from("a", message(name.as_str(), 0..5))).await.unwrap();
        }
    }
    let error = ServiceError::from(noise.bind(from("a", message("job", 5..6))).await.unwrap_err());
    is_refused(&error, "--max-caller-bytes-per-day");
    assert!(error.retry_safe(), "{error}");
    noise.bind(from("a", message("job", 0..5))).await.expect("bound before");
    noise.bind(from("b", message("job", 5..6))).await.expect("another caller");
    tokio::time::advance(Duration::from_secs(8_640)).await;
    noise.bind(from("a", message("other", 5..6))).await.expect("a tenth of a day later");
}
