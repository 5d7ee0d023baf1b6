//! Watermarks of workers against a ledger that may be an old copy.

use proto::model::{JobMark, OpenBranch};
use tokio::time::{Instant, sleep};

use super::*;

impl Coordinator {
    /// Returns the mark of a worker that has released rows below `next_row`, the last of them under the commitment `text`.
    fn mark_under(&self, branch: u64, next_row: u64, text: &str) -> JobMark {
        let nonce = self.ledger().job(&job()).unwrap().unwrap().nonce;
        let commitment = (next_row > 0).then(|| Commitment::of_text(text));
        JobMark { job: job(), nonce, branch, next_row, commitment }
    }

    fn mark(&self, branch: u64, next_row: u64) -> JobMark {
        self.mark_under(branch, next_row, "x")
    }

    fn tell(&self, name: &str, marks: Vec<JobMark>) {
        self.accept_record(&worker(name), &of_ledger(marks));
    }
}

fn of_ledger(marks: Vec<JobMark>) -> WorkerRecord {
    WorkerRecord { ledger: Some(LEDGER), highest_epoch: 0, marks }
}

/// A mark of a job that there is not.
fn elsewhere(number: usize) -> JobMark {
    JobMark {
        job: JobId::new(format!("job-{number}")).unwrap(),
        nonce: Nonce::from_bytes([8; 32]),
        branch: 0,
        next_row: 1,
        commitment: Some(Commitment::of_text("x")),
    }
}

/// As many as one message holds: there are more.
fn a_message_full() -> Vec<JobMark> {
    (0..proto::MAX_MARKS_PER_MESSAGE).map(elsewhere).collect()
}

fn rewind(from_row: u64) -> OpenBranch {
    OpenBranch { job: job(), from_row, expected_branch: 0, parent: None }
}

/// Returns a coordinator that has just started on a ledger that knows two rows.
async fn restarted(folder: &TempDir) -> Coordinator {
    let first = open(folder);
    first.create_job(create(4096, 1)).await.unwrap();
    first.bind_now(bind(0..2, "x")).await.unwrap();
    drop(first);
    open(folder)
}

fn register_with(coordinator: &Coordinator, name: &str, process: u8, marks: Vec<JobMark>) {
    coordinator.register(Register { record: of_ledger(marks), ..registration(name, process) }).unwrap();
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
        register_with(&coordinator, "b", 2, vec![coordinator.mark(0, 5)]);
    };
    let (bound, opened, ()) =
        tokio::join!(coordinator.bind_now(bind(2..3, "y")), coordinator.open_branch(rewind(1)), late);
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
    register_with(&coordinator, "b", 2, vec![coordinator.mark(1, 0), coordinator.mark(0, 2)]);
    coordinator.bind_now(on_branch(1)).await.expect("that is what the ledger has");
    // From a worker that was granted the branch.
    register_with(&coordinator, "c", 3, vec![coordinator.mark(1, 0), coordinator.mark(0, 3)]);
    is_behind(coordinator.bind_now(on_branch(2)).await, "worker c");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_the_ledger_has_lost_is_not_begun_anew() {
    let folder = TempDir::new().unwrap();
    let coordinator = restarted(&folder).await;
    let of = |job: &JobId| JobMark { job: job.clone(), ..elsewhere(0) };
    let lost = JobId::new("lost").unwrap();
    let other = JobId::new("other").unwrap();
    register_with(&coordinator, "b", 2, vec![of(&lost)]);
    for name in [&lost, &other] {
        coordinator.create_job(CreateJob { job: name.clone(), ..create(4096, 1) }).await.unwrap();
    }
    // Even if it has fewer rows now.
    is_behind(coordinator.bind_now(Bind { job: lost, ..bind(0..1, "x") }).await, "worker b");
    coordinator.bind_now(Bind { job: other.clone(), ..bind(0..1, "x") }).await.unwrap();
    register_with(&coordinator, "c", 3, vec![of(&other)]);
    is_behind(coordinator.bind_now(Bind { job: other, ..bind(1..2, "x") }).await, "worker c");
}

#[tokio::test(start_paused = true)]
async fn what_a_worker_makes_up_costs_so_much_and_no_more() {
    let folder = TempDir::new().unwrap();
    let coordinator = restarted(&folder).await;
    let name = |number: usize| JobId::new(format!("job-{number}")).unwrap();
    register_with(&coordinator, "liar", 2, (0..70_000).map(elsewhere).collect());
    let kept = |number: &usize| !coordinator.cluster().watermarks_to_check(&name(*number)).is_empty();
    assert_eq!((0..70_000).filter(kept).count(), 65_536);
    coordinator.bind_now(bind(2..3, "y")).await.unwrap();
    register_with(&coordinator, "b", 3, vec![coordinator.mark(0, 7)]);
    is_behind(coordinator.bind_now(bind(3..4, "y")).await, "worker b");
}

/// A worker may need several messages for its watermarks: nothing is bound before the last of them, however long after
/// the start that is.
#[tokio::test(start_paused = true)]
async fn who_has_more_to_tell_is_waited_for() {
    let folder = TempDir::new().unwrap();
    let coordinator = restarted(&folder).await;
    let began = Instant::now();
    let telling = async {
        tokio::time::sleep(TTL).await;
        register_with(&coordinator, "b", 2, a_message_full());
        for _ in 0..4 {
            tokio::time::sleep(TTL / 2).await;
            coordinator.send_heartbeat("b", 2, &[], &[]);
            coordinator.tell("b", a_message_full());
        }
        assert!(began.elapsed() > TTL * 2, "the grace period is over");
        coordinator.tell("b", vec![coordinator.mark(0, 5)]);
    };
    let (bound, ()) = tokio::join!(coordinator.bind_now(bind(2..3, "y")), telling);
    is_behind(bound, "worker b");
    // A worker that has gone in the middle is not waited for.
    coordinator.tell("b", a_message_full());
    sleep(TTL).await;
    is_behind(coordinator.bind_now(bind(2..3, "y")).await, "worker b");
}

/// The number of a job's branches and the worker's earlier reports make no difference.
#[tokio::test(start_paused = true)]
async fn marks_of_a_job_that_there_is_are_all_kept() {
    let folder = TempDir::new().unwrap();
    let coordinator = restarted(&folder).await;
    coordinator.open_branch(rewind(1)).await.unwrap();
    register_with(&coordinator, "b", 2, (0..70_000).map(elsewhere).collect());
    coordinator.tell("b", vec![coordinator.mark(0, 5)]);
    let on_branch = Bind { branch: 1, ..bind(1..2, "z") };
    is_behind(coordinator.bind_now(on_branch).await, "worker b");
}

/// Workers that live on while a coordinator starts on an older copy of its ledger: even where the copy has bound as many
/// rows since, their records have other commitments.
#[tokio::test(start_paused = true)]
async fn a_ledger_that_bound_the_rows_anew_is_found_by_their_commitments() {
    let folder = TempDir::new().unwrap();
    let coordinator = restarted(&folder).await;
    // The worker released rows 2 and 3 under "lost", of which this ledger knows nothing. It binds them anew.
    coordinator.bind_now(bind(2..5, "anew")).await.unwrap();
    register_with(&coordinator, "w", 1, vec![coordinator.mark_under(0, 4, "lost")]);
    is_behind(coordinator.bind_now(bind(5..6, "anew")).await, "worker w");
    is_behind(coordinator.open_branch(rewind(5)).await, "worker w");
    // For as long as this process lives, also where the worker's next row agrees.
    coordinator.tell("w", vec![coordinator.mark_under(0, 5, "anew")]);
    coordinator.check_watermarks().await;
    is_behind(coordinator.bind_now(bind(5..6, "anew")).await, "worker w");
    assert_eq!(coordinator.cluster().contradicted_jobs(), 1);
    // Until the job is destroyed.
    coordinator.destroy_job(job()).await.unwrap();
    assert_eq!(coordinator.cluster().contradicted_jobs(), 0);
}

/// Nothing has to be bound for it: the alarm is raised by what the worker says.
#[tokio::test(start_paused = true)]
async fn a_contradiction_stops_the_job_before_anything_is_bound() {
    let folder = TempDir::new().unwrap();
    let coordinator = std::sync::Arc::new(restarted(&folder).await);
    let shutdown = CancellationToken::new();
    let checking = tokio::spawn(coordinator.clone().keep_watermarks_checked(shutdown.clone()));
    register_with(&coordinator, "agrees", 1, vec![coordinator.mark(0, 2), coordinator.mark(0, 1)]);
    while !coordinator.cluster().watermarks_to_check(&job()).is_empty() {
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(coordinator.cluster().contradicted_jobs(), 0);
    coordinator.tell("w", vec![coordinator.mark_under(0, 2, "y")]);
    while coordinator.cluster().refusal(&job()).is_none() {
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(coordinator.cluster().contradicted_jobs(), 1);
    shutdown.cancel();
    checking.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_later_coordinator_that_a_worker_has_seen_stops_every_job() {
    let folder = TempDir::new().unwrap();
    let coordinator = restarted(&folder).await;
    let seen = |highest_epoch, ledger| WorkerRecord { highest_epoch, ledger: Some(ledger), marks: vec![] };
    let other = Nonce::from_bytes([9; 32]);
    let epoch = coordinator.epoch();
    for record in [seen(epoch, LEDGER), seen(epoch + 7, other)] {
        coordinator.register(Register { record, ..registration("w", 1) }).unwrap();
        coordinator.send_heartbeat("w", 1, &[], &[]);
        coordinator.accept_record(&worker("w"), &of_ledger(vec![]));
    }
    coordinator.bind_now(bind(2..3, "x")).await.expect("of this ledger it is the newest");
    coordinator.accept_record(&worker("w"), &seen(epoch + 1, LEDGER));
    let text = coordinator.bind_now(bind(3..4, "x")).await.unwrap_err().to_string();
    assert!(text.contains("worker w has seen coordinator epoch 3"), "{text}");
    is_behind(coordinator.open_branch(rewind(3)).await, "worker w");
    coordinator.check_watermarks().await;
    assert_eq!(coordinator.cluster().contradicted_jobs(), 1);
}

/// An old copy may be from before its first job.
#[tokio::test(start_paused = true)]
async fn a_ledger_without_jobs_waits_for_workers_too() {
    let folder = TempDir::new().unwrap();
    drop(open(&folder));
    let coordinator = open(&folder);
    coordinator.create_job(create(4096, 1)).await.unwrap();
    let late = async {
        sleep(TTL).await;
        let lost = JobMark { job: job(), ..elsewhere(0) };
        register_with(&coordinator, "b", 2, vec![lost]);
    };
    let (bound, ()) = tokio::join!(coordinator.bind_now(bind(0..1, "y")), late);
    is_behind(bound, "worker b");
}

/// A new cluster under an old name, whose hosts have the records of an earlier one.
#[tokio::test(start_paused = true)]
async fn what_a_worker_has_of_another_ledger_is_not_heard() {
    let folder = TempDir::new().unwrap();
    let coordinator = restarted(&folder).await;
    let other = Some(Nonce::from_bytes([9; 32]));
    let marks =
        vec![coordinator.mark(3, 7), JobMark { nonce: Nonce::from_bytes([6; 32]), ..coordinator.mark(0, 9) }];
    let record = WorkerRecord { ledger: other, highest_epoch: 50, marks };
    let answer = coordinator.register(Register { record, ..registration("w", 1) }).unwrap();
    assert_eq!(answer.ledger_id, LEDGER.as_bytes());
    // It is waited for until it has said what it has of this one.
    sleep(TTL * 2).await;
    register_with(&coordinator, "w", 1, vec![]);
    coordinator.bind_now(bind(2..3, "y")).await.unwrap();
    assert_eq!(coordinator.cluster().contradicted_jobs(), 0);
}

/// A worker's credential is enough to report marks that do not exist, message after message.
#[tokio::test(start_paused = true)]
async fn who_reports_without_end_does_not_hang_the_bindings_of_others() {
    let folder = TempDir::new().unwrap();
    let coordinator = restarted(&folder).await;
    register_with(&coordinator, "liar", 2, a_message_full());
    let telling = async {
        loop {
            sleep(TTL / 4).await;
            coordinator.send_heartbeat("liar", 2, &[], &[]);
            coordinator.tell("liar", a_message_full());
        }
    };
    let binding = async {
        let began = Instant::now();
        coordinator.bind_now(bind(2..3, "y")).await.unwrap();
        let first = began.elapsed();
        let again = Instant::now();
        coordinator.bind_now(bind(3..4, "y")).await.unwrap();
        (first, again.elapsed())
    };
    tokio::select! {
        () = telling => {}
        (first, again) = binding => {
            assert!(first < Duration::from_secs(11), "{first:?}");
            assert!(again < Duration::from_secs(1), "{again:?}");
        }
    }
}
