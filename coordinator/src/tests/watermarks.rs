//! Watermarks of workers against a ledger that may be an old copy.

use proto::model::{JobMark, OpenBranch};
use tokio::time::Instant;

use super::*;

fn mark(branch: u64, next_row: u64) -> JobMark {
    JobMark { job: job(), branch, next_row }
}

fn rewind(from_row: u64) -> OpenBranch {
    OpenBranch { job: job(), from_row, expected_branch: 0, parent: None }
}

/// Returns a coordinator that has just started on a ledger that knows two rows.
async fn restarted(folder: &TempDir) -> Coordinator {
    let first = open(folder);
    first.create_job(create(4096, 1)).await.unwrap();
    first.bind(bind(0..2, "x")).await.unwrap();
    drop(first);
    open(folder)
}

fn register_with(coordinator: &Coordinator, name: &str, process: u8, marks: Vec<JobMark>) {
    coordinator.register(Register { marks, ..registration(name, process) }).unwrap();
}

fn is_behind<T: std::fmt::Debug>(outcome: Result<T, ServiceError>, witness: &str) {
    let error = outcome.unwrap_err();
    assert!(error.kind() == "ledger_behind" && error.to_string().contains(witness), "{error}");
}

/// The worker that held the job may be named nowhere in an old ledger.
#[tokio::test(start_paused = true)]
async fn an_old_ledger_is_found_by_a_worker_that_it_does_not_name() {
    let folder = TempDir::new().unwrap();
    let coordinator = restarted(&folder).await;
    let began = Instant::now();
    let late = async {
        tokio::time::sleep(TTL).await;
        register_with(&coordinator, "b", 2, vec![mark(0, 5)]);
    };
    let (bound, opened, ()) =
        tokio::join!(coordinator.bind(bind(2..3, "y")), coordinator.open_branch(rewind(1)), late);
    is_behind(bound, "worker b");
    is_behind(opened, "worker b");
    assert_eq!(coordinator.job_message(&job()).unwrap().branch, 0);
    assert!(began.elapsed() < TTL * 2, "it is waited for once");
}

#[tokio::test(start_paused = true)]
async fn a_branch_does_not_hide_what_was_released_before_it() {
    let folder = TempDir::new().unwrap();
    let coordinator = restarted(&folder).await;
    coordinator.open_branch(rewind(1)).await.unwrap();
    let on_branch = |row: u64| Bind { branch: 1, ..bind(row..row + 1, "z") };
    register_with(&coordinator, "b", 2, vec![mark(1, 0), mark(0, 2)]);
    coordinator.bind(on_branch(1)).await.expect("that is what the ledger has");
    // From a worker that was granted the branch.
    register_with(&coordinator, "c", 3, vec![mark(1, 0), mark(0, 3)]);
    is_behind(coordinator.bind(on_branch(2)).await, "worker c");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_the_ledger_has_lost_is_not_begun_anew() {
    let folder = TempDir::new().unwrap();
    let coordinator = restarted(&folder).await;
    let of = |job: &JobId| JobMark { job: job.clone(), ..mark(0, 500) };
    let lost = JobId::new("lost").unwrap();
    let other = JobId::new("other").unwrap();
    register_with(&coordinator, "b", 2, vec![of(&lost)]);
    for name in [&lost, &other] {
        coordinator.create_job(CreateJob { job: name.clone(), ..create(4096, 1) }).await.unwrap();
    }
    // Even if it has fewer rows now.
    is_behind(coordinator.bind(Bind { job: lost, ..bind(0..1, "x") }).await, "worker b");
    coordinator.bind(Bind { job: other.clone(), ..bind(0..1, "x") }).await.unwrap();
    register_with(&coordinator, "c", 3, vec![of(&other)]);
    is_behind(coordinator.bind(Bind { job: other, ..bind(1..2, "x") }).await, "worker c");
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_makes_up_costs_so_much_and_no_more() {
    let folder = TempDir::new().unwrap();
    let coordinator = restarted(&folder).await;
    let name = |number: usize| JobId::new(format!("job-{number}")).unwrap();
    let made_up = (0..70_000).map(|number| JobMark { job: name(number), ..mark(0, 1) });
    register_with(&coordinator, "liar", 2, made_up.collect());
    let kept = |number: &usize| !coordinator.cluster().watermarks_to_check(&name(*number)).is_empty();
    assert_eq!((0..70_000).filter(kept).count(), 65_536);
    coordinator.bind(bind(2..3, "y")).await.unwrap();
    register_with(&coordinator, "b", 3, vec![mark(0, 7)]);
    is_behind(coordinator.bind(bind(3..4, "y")).await, "worker b");
}

/// A worker may need several messages for its watermarks: nothing is bound before the last of them, however long after
/// the start that is.
#[tokio::test(start_paused = true)]
async fn who_has_more_to_tell_is_waited_for() {
    let folder = TempDir::new().unwrap();
    let coordinator = restarted(&folder).await;
    let began = Instant::now();
    let elsewhere =
        |number: usize| JobMark { job: JobId::new(format!("job-{number}")).unwrap(), ..mark(0, 1) };
    let b = worker("b");
    let telling = async {
        tokio::time::sleep(TTL).await;
        register_with(&coordinator, "b", 2, (0..proto::MAX_MARKS_PER_MESSAGE).map(elsewhere).collect());
        for _ in 0..4 {
            tokio::time::sleep(TTL / 2).await;
            coordinator.send_heartbeat("b", 2, &[], &[]);
            coordinator
                .accept_watermarks(&b, &(0..proto::MAX_MARKS_PER_MESSAGE).map(elsewhere).collect::<Vec<_>>());
        }
        assert!(began.elapsed() > TTL * 2, "the grace period is over");
        coordinator.accept_watermarks(&b, &[mark(0, 5)]);
    };
    let (bound, ()) = tokio::join!(coordinator.bind(bind(2..3, "y")), telling);
    is_behind(bound, "worker b");
    // A worker that has gone in the middle is not waited for.
    coordinator.accept_watermarks(&b, &(0..proto::MAX_MARKS_PER_MESSAGE).map(elsewhere).collect::<Vec<_>>());
    tokio::time::sleep(TTL).await;
    is_behind(coordinator.bind(bind(2..3, "y")).await, "worker b");
}

/// The number of a job's branches and the worker's earlier reports make no difference.
#[tokio::test(start_paused = true)]
async fn marks_of_a_job_that_there_is_are_all_kept() {
    let folder = TempDir::new().unwrap();
    let coordinator = restarted(&folder).await;
    let elsewhere =
        |number: usize| JobMark { job: JobId::new(format!("job-{number}")).unwrap(), ..mark(0, 1) };
    coordinator.open_branch(rewind(1)).await.unwrap();
    register_with(&coordinator, "b", 2, (0..70_000).map(elsewhere).collect());
    coordinator.accept_watermarks(&worker("b"), &[mark(0, 5)]);
    let on_branch = Bind { branch: 1, ..bind(1..2, "z") };
    is_behind(coordinator.bind(on_branch).await, "worker b");
}
