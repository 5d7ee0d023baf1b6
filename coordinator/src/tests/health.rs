//! Every problem is seen when it comes and gone when it is over.

use std::time::SystemTime;

use node::process::disk::DiskSpace;
use proto::model::JobMark;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::*;
use crate::health::{
    Conditions, HealthMonitor, Problem, Severity, is_healthy, obstacle, problems_of_machine,
    status_standing_by,
};
use crate::known_leader::LeaderView;

const DAY: Duration = Duration::from_secs(86_400);

/// Returns the mark of a worker that released rows of the job up to `next_row`.
fn mark_of(coordinator: &Coordinator, branch: u64, next_row: u64) -> JobMark {
    let nonce = coordinator.cluster().job(&job()).unwrap().record.nonce;
    JobMark { job: job(), nonce, branch, next_row, commitment: Some(Commitment::of_text("x")) }
}

/// Returns the problems' names with their severities, in order.
fn kinds(coordinator: &Coordinator) -> Vec<(&'static str, Severity)> {
    coordinator.problems().iter().map(|problem| (problem.kind, problem.severity)).collect()
}

fn what(coordinator: &Coordinator, kind: &str) -> String {
    let problems = coordinator.problems();
    let found = problems.iter().find(|problem| problem.kind == kind);
    found.unwrap_or_else(|| panic!("no {kind} in {problems:?}")).what.clone()
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_is_told_from_one_that_leaves() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    assert_eq!(kinds(&coordinator), [("no_worker", Severity::Warning)], "there is nothing to serve yet");
    coordinator.create_job(create(4096, 2)).await.unwrap();
    let unserved = [("no_worker", Severity::Critical), ("shards_not_served", Severity::Critical)];
    assert_eq!(kinds(&coordinator), unserved);
    assert!(!is_healthy(&coordinator.problems()));

    coordinator.register(registration("a", 1)).unwrap();
    coordinator.reconcile().await.unwrap();
    assert!(
        what(&coordinator, "shards_not_served")
            .contains("2 of 2 shards are not served: a has not reported it yet")
    );
    coordinator.make_ready("a", 1);
    assert_eq!(kinds(&coordinator), []);

    let last_heard = Instant::now();
    advance(TTL * 2).await;
    coordinator.reconcile().await.unwrap();
    let problems = coordinator.problems();
    assert_eq!(kinds(&coordinator), [&unserved[..], &[("worker_gone", Severity::Warning)]].concat());
    assert!(
        problems.iter().all(|problem| problem.since == Some(last_heard) && !problem.next_step.is_empty())
    );
    assert!(what(&coordinator, "shards_not_served").contains("a is gone: it sent no heartbeat"));
    assert_eq!(what(&coordinator, "worker_gone"), "a is gone: it sent no heartbeat for the time of a lease");

    // Another process of the name ends its absence, and leaves in order.
    coordinator.register(registration("a", 2)).unwrap();
    coordinator.reconcile().await.unwrap();
    coordinator.make_ready("a", 2);
    assert_eq!(kinds(&coordinator), []);
    coordinator.deregister(&WorkerId::new("a").unwrap(), Incarnation([2; 16]));
    assert_eq!(kinds(&coordinator), unserved, "who leaves is no problem by itself");
    assert!(what(&coordinator, "shards_not_served").contains("a has left; no worker is registered"));
}

#[tokio::test(start_paused = true)]
async fn a_lost_worker_is_shown_for_a_day_while_others_serve() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    coordinator.register(registration("a", 1)).unwrap();
    advance(TTL).await;
    coordinator.register(registration("b", 2)).unwrap();
    coordinator.reconcile().await.unwrap();
    assert_eq!(kinds(&coordinator), [("worker_gone", Severity::Warning)]);
    assert!(is_healthy(&coordinator.problems()), "a warning alone is healthy");
    advance(DAY).await;
    coordinator.register(registration("c", 3)).unwrap();
    coordinator.reconcile().await.unwrap();
    assert!(
        !coordinator.problems().iter().any(|problem| problem.subject == "a"),
        "{:?}",
        coordinator.problems()
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_a_version_and_a_drain_are_named() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    let other_version = Register { protocol_version: 1, ..registration("old", 9) };
    coordinator.register(other_version).unwrap_err();
    coordinator.create_job(create(4096, 1)).await.unwrap();
    assert!(what(&coordinator, "worker_refused").contains("old was not let in: "));
    assert!(
        what(&coordinator, "shards_not_served").contains("no worker is registered; old was not let in: ")
    );

    coordinator.register(registration("a", 1)).unwrap();
    coordinator.reconcile().await.unwrap();
    let grants = coordinator.send_reports("a", 1, &[]);
    let report = LeaseReport { key_commitment: vec![9; 32], ..report(&grants[0], ReportedState::Ready) };
    coordinator.send_reports("a", 1, &[report]);
    coordinator.reconcile().await.unwrap();
    coordinator.register(registration("b", 2)).unwrap();
    coordinator.send_reports("b", 2, &[]);
    coordinator.drain_worker(&WorkerId::new("b").unwrap(), false).unwrap();
    coordinator.reconcile().await.unwrap();
    let what = what(&coordinator, "shards_not_served");
    assert!(
        what.contains("another key than the job's: 1; draining, leaving, or leases not reported yet: 1"),
        "{what}"
    );
}

#[tokio::test(start_paused = true)]
async fn an_older_ledger_stops_the_job_and_states_no_epsilon() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    coordinator.create_job(create(4096, 1)).await.unwrap();
    coordinator.bind_now(bind(0..2, "x")).await.unwrap();
    coordinator.meter_jobs().await;
    assert!(coordinator.status()["jobs"][0]["epsilon"].as_f64().unwrap() > 0.0);
    let lost = JobMark { job: JobId::new("lost").unwrap(), ..mark_of(&coordinator, 0, 3) };
    let marks = vec![mark_of(&coordinator, 0, 7), lost];
    let asked = registration("a", 1);
    let record = WorkerRecord { marks, ..asked.record.clone() };
    coordinator.register(Register { record, ..asked }).unwrap();
    assert!(
        what(&coordinator, "ledger_behind")
            .contains("a has released rows of it up to 7 on branch 0, and the ledger knows of 2")
    );
    let unknown = what(&coordinator, "job_unknown_to_ledger");
    assert!(unknown.contains("job lost is not in this ledger"), "{unknown}");
    assert!(unknown.ends_with("the ledger is an older copy"), "{unknown}");
    let status = coordinator.status();
    assert_eq!(status["healthy"], false);
    assert!(
        status["jobs"][0]["epsilon"].is_null() && status["jobs"][0]["privacy"]["unstated"].is_string(),
        "{status}"
    );
    let page = coordinator.page();
    assert!(page.contains("not healthy") && page.contains("this ledger is an older copy"), "{page}");
}

#[tokio::test(start_paused = true)]
async fn a_later_coordinator_is_a_problem_of_a_ledger_without_jobs_too() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    let first = registration("a", 1);
    let record = WorkerRecord { highest_epoch: coordinator.epoch() + 7, ..first.record.clone() };
    coordinator.register(Register { record, ..first }).unwrap();
    assert_eq!(kinds(&coordinator), [("ledger_behind", Severity::Critical)]);
    assert!(what(&coordinator, "ledger_behind").contains("a has seen a later coordinator on it"));
    // A job shows it from then on, and it is shown once.
    coordinator.create_job(create(4096, 1)).await.unwrap();
    let shown = kinds(&coordinator).into_iter().filter(|(kind, _)| *kind == "ledger_behind");
    assert_eq!(shown.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_epsilon_of_fewer_rows_is_not_shown() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    coordinator.create_job(create(4096, 1)).await.unwrap();
    coordinator.meter_jobs().await;
    assert_eq!(coordinator.status()["jobs"][0]["epsilon"], 0.0);
    coordinator.bind_now(bind(0..1, "x")).await.unwrap();
    let status = coordinator.status();
    assert!(
        status["jobs"][0]["epsilon"].is_null() && status["jobs"][0]["privacy"]["epsilon_spent"].is_null()
    );
    assert!(status["jobs"][0]["epsilon_planned"].as_f64().unwrap() > 0.0);
    coordinator.meter_jobs().await;
    assert!(coordinator.status()["jobs"][0]["epsilon"].as_f64().unwrap() > 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_caller_sees_its_own_jobs_and_problems() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    coordinator.create_job(create(4096, 1)).await.unwrap();
    let other = JobId::new("other").unwrap();
    coordinator.create_job(CreateJob { job: other, ..create(4096, 1) }).await.unwrap();
    let status = coordinator.status_for(|name| name == job().as_str());
    assert!(!status.to_string().contains("other"), "{status}");
    assert_eq!(
        (status["jobs"].as_array().unwrap().len(), status["jobs"][0]["shards"].as_u64()),
        (1, Some(1))
    );
    let of_job = |problem: &&Value| problem["job"] == job().as_str();
    assert_eq!(status["problems"].as_array().unwrap().iter().filter(of_job).count(), 1);
}

#[test]
fn a_certificate_and_a_disk_turn_amber_and_then_red() {
    let now = SystemTime::UNIX_EPOCH + DAY * 20_000;
    let severity = |conditions: Conditions| {
        problems_of_machine(&conditions, now).first().map(|problem| problem.severity)
    };
    let ends =
        |ends: SystemTime| severity(Conditions { certificate_ends: Some(ends), ..Conditions::default() });
    assert_eq!(severity(Conditions::default()), None);
    assert_eq!(ends(now + DAY * 14), None);
    assert_eq!(ends(now + DAY * 14 - Duration::from_secs(1)), Some(Severity::Warning));
    assert_eq!(ends(now + DAY * 2), Some(Severity::Warning));
    assert_eq!(ends(now + DAY * 2 - Duration::from_secs(1)), Some(Severity::Critical));
    assert_eq!(ends(now - DAY), Some(Severity::Critical));
    let disk = |free_bytes, total_bytes| {
        severity(Conditions { disk: Some(DiskSpace { free_bytes, total_bytes }), ..Conditions::default() })
    };
    const GIB: u64 = 1 << 30;
    assert_eq!(disk(10 * GIB, 100 * GIB), None);
    assert_eq!(disk(10 * GIB - 1, 100 * GIB), Some(Severity::Warning));
    assert_eq!(disk(GIB - 1, 2 * GIB), Some(Severity::Warning));
    assert_eq!(disk((100 << 20) - 1, 2 * GIB), Some(Severity::Critical));
}

#[tokio::test(start_paused = true)]
async fn a_problem_keeps_its_date_while_it_lasts() {
    let monitor = HealthMonitor::default();
    let problem = || Problem::new(Severity::Warning, "disk_fills", String::new(), "make room");
    let date = |mut problems: Vec<Problem>| {
        monitor.date(Instant::now(), &mut problems);
        problems.first().and_then(|problem| problem.since)
    };
    let began = Instant::now();
    assert_eq!(date(vec![problem()]), Some(began));
    advance(DAY).await;
    assert_eq!(date(vec![problem()]), Some(began));
    date(Vec::new());
    assert_eq!(date(vec![problem()]), Some(began + DAY));
}

#[test]
fn a_coordinator_that_stands_by_is_healthy_while_another_leads() {
    let known = |leader: &str| LeaderView::Known { leader: leader.to_owned(), trouble: None };
    assert_eq!(status_standing_by(&known("http://a:7300"))["healthy"], true);
    let status = status_standing_by(&known(""));
    assert_eq!((&status["healthy"], &status["problems"][0]["kind"]), (&json!(false), &json!("no_leader")));
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_does_not_know_who_leads_names_none_and_says_since_when() {
    let since = Instant::now();
    let last = "http://a:7300".to_owned();
    let view = LeaderView::Unknown { last, since, reason: "etcd://e:1/x can't be reached".to_owned() };
    let status = status_standing_by(&view);
    assert_eq!((&status["healthy"], &status["leader"]), (&json!(false), &json!("")));
    let problem = &status["problems"][0];
    assert_eq!((&problem["kind"], &problem["severity"]), (&json!("leader_unknown"), &json!("critical")));
    assert!(problem["since"].is_string() && problem["since"] == status["leader_unknown_since"], "{status}");
    let what = problem["what"].as_str().unwrap();
    assert!(
        what.contains("http://a:7300 led then") && what.ends_with("etcd://e:1/x can't be reached"),
        "{what}"
    );
    let text = obstacle(&view);
    assert!(text.contains("the leader is unknown since 20") && !text.contains("a:7300 leads"), "{text}");
}
