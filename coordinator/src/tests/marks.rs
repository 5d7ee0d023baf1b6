//! What workers released, against a ledger that may be an old copy.

use proto::model::{JobMark, OpenBranch};

use super::*;

fn mark(branch: u64, next_row: u64) -> JobMark {
    JobMark { job: job(), branch, next_row }
}

fn rewind(from_row: u64) -> OpenBranch {
    OpenBranch { job: job(), from_row, expected_branch: 0, parent: None }
}

/// A ledger that knows two rows, opened by a coordinator that has just started.
async fn restarted(folder: &TempDir) -> Coordinator {
    let first = open(folder);
    first.create_job(create(4096, 1)).await.unwrap();
    first.bind(bind(0..2, "x")).await.unwrap();
    drop(first);
    open(folder)
}

fn tells(coordinator: &Coordinator, name: &str, process: u8, marks: Vec<JobMark>) {
    coordinator.register(Register { marks, ..registration(name, process) }).unwrap();
}

/// Nobody whom the ledger names has held the job: who did may be in none of its lines.
#[tokio::test(start_paused = true)]
async fn an_old_ledger_is_found_by_a_worker_that_it_does_not_name() {
    let folder = TempDir::new().unwrap();
    let coordinator = restarted(&folder).await;
    for early in
        [coordinator.bind(bind(2..3, "y")).await.err(), coordinator.open_branch(rewind(1)).await.err()]
    {
        let early = early.unwrap();
        assert!(early.kind() == "unavailable" && early.retry_safe(), "{early}");
    }
    advance(TTL / 2).await;
    tells(&coordinator, "b", 2, vec![mark(0, 5)]);
    advance(TTL / 2).await;
    for behind in
        [coordinator.bind(bind(2..3, "y")).await.err(), coordinator.open_branch(rewind(1)).await.err()]
    {
        let behind = behind.unwrap();
        assert!(behind.kind() == "ledger_behind" && behind.to_string().contains("worker b"), "{behind}");
    }
    assert_eq!(coordinator.job_message(&job()).unwrap().branch, 0);
}

#[tokio::test(start_paused = true)]
async fn a_branch_does_not_hide_what_was_released_before_it() {
    let folder = TempDir::new().unwrap();
    let coordinator = restarted(&folder).await;
    advance(TTL).await;
    coordinator.open_branch(rewind(1)).await.unwrap();
    let on_branch = |row: u64| Bind { branch: 1, ..bind(row..row + 1, "z") };
    tells(&coordinator, "b", 2, vec![mark(0, 2)]);
    coordinator.bind(on_branch(1)).await.expect("that is what the ledger has");
    tells(&coordinator, "c", 3, vec![mark(0, 3)]);
    let behind = coordinator.bind(on_branch(2)).await.unwrap_err();
    assert!(behind.kind() == "ledger_behind" && behind.to_string().contains("worker c"), "{behind}");
}

#[tokio::test(start_paused = true)]
async fn what_no_worker_can_have_released_stops_nobody() {
    let folder = TempDir::new().unwrap();
    let coordinator = restarted(&folder).await;
    advance(TTL).await;
    tells(&coordinator, "liar", 2, vec![mark(0, 9), mark(7, u64::MAX)]);
    coordinator.bind(bind(2..3, "y")).await.expect("the plan has eight rows");

    let name = |number: usize| JobId::new(format!("job-{number}")).unwrap();
    let strangers = (0..5000).map(|number| JobMark { job: name(number), ..mark(0, 1) }).collect();
    tells(&coordinator, "liar", 2, strangers);
    let kept = |number: &usize| {
        let marks = coordinator.cluster().marks_to_check(&name(*number), tokio::time::Instant::now());
        !marks.unwrap().is_empty()
    };
    assert_eq!((0..5000).filter(kept).count(), 4096);
    // A job of that name is one that the ledger has lost.
    let lost = CreateJob { job: name(3), ..create(4096, 1) };
    coordinator.create_job(lost).await.unwrap();
    let error = coordinator.bind(Bind { job: name(3), ..bind(0..1, "x") }).await.unwrap_err();
    assert_eq!(error.kind(), "ledger_behind", "{error}");
}
