//! What a coordinator does on an older copy of its ledger, once a worker has proved that it is one.

use ledger::AnchorPlace;
use proto::model::JobMark;

use super::*;

fn record(highest_epoch: u64, marks: Vec<JobMark>) -> WorkerRecord {
    WorkerRecord { ledger: Some(LEDGER), highest_epoch, marks }
}

/// Returns the mark of a worker that has released row 1 of the job under the commitment `text`.
fn mark(coordinator: &Coordinator, text: &str) -> JobMark {
    let nonce = coordinator.cluster().job(&job()).unwrap().record.nonce;
    let commitment = Some(Commitment::of_text(text));
    JobMark { job: job(), nonce, branch: 0, next_row: 2, commitment }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_a_proof_has_stopped_states_no_cost() {
    for by_epoch in [false, true] {
        let folder = TempDir::new().unwrap();
        let coordinator = open(&folder);
        coordinator.create_job(create(4096, 1)).await.unwrap();
        coordinator.bind_now(bind(0..2, "x")).await.unwrap();
        coordinator.meter_jobs().await;
        let is_stated = || {
            let is_in_status = coordinator.status()["jobs"][0]["epsilon"].is_number();
            (is_in_status, coordinator.job_metrics().contains("rustle_job_privacy_spent_rho{"))
        };
        assert_eq!(is_stated(), (true, true));
        let proof = if by_epoch {
            record(coordinator.epoch() + 1, Vec::new())
        } else {
            record(0, vec![mark(&coordinator, "another")])
        };
        coordinator.accept_record(&worker("w"), &proof);
        coordinator.check_watermarks().await;
        assert_eq!(is_stated(), (false, false), "by epoch: {by_epoch}");
        assert!(coordinator.job_metrics().contains("rustle_job_rows_planned{"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_mark_that_there_is_no_room_for_stops_its_job_at_once() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    coordinator.create_job(create(4096, 1)).await.unwrap();
    let above = JobMark { branch: 3, ..mark(&coordinator, "x") };
    let made_up =
        |number: usize| JobMark { job: JobId::new(format!("job-{number}")).unwrap(), ..above.clone() };
    coordinator.accept_record(&worker("w"), &record(0, (0..65_536).map(made_up).collect()));
    assert!(coordinator.cluster().refusal(&job()).is_none());
    coordinator.accept_record(&worker("w"), &record(0, vec![above.clone()]));
    assert!(coordinator.cluster().watermarks_to_check(&job()).is_empty(), "it is not kept");
    let refused = coordinator.bind_now(bind(0..1, "x")).await.unwrap_err();
    assert!(refused.kind() == "ledger_behind" && refused.to_string().contains("branch 3"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_on_a_copied_ledger_takes_no_epoch_and_no_worker_and_has_no_checkpoints() {
    let [original, folder] = [(), ()].map(|()| TempDir::new().unwrap());
    let coordinator = open(&original);
    coordinator.create_job(create(4096, 1)).await.unwrap();
    coordinator.bind_now(bind(0..2, "x")).await.unwrap();
    let epoch = coordinator.epoch();
    drop(coordinator);
    let opened = |folder: &TempDir| {
        let ledger = ledger_in(folder);
        let place = AnchorPlace::of_ledger(&folder.path().join("ledger.redb"));
        ledger.take_up(&place, Nonce::from_bytes([9; 32])).unwrap();
        ledger
    };
    drop(opened(&original));
    std::fs::copy(original.path().join("ledger.redb"), folder.path().join("ledger.redb")).unwrap();

    let ledger = opened(&folder);
    let settings = Settings::in_folder(folder.path()).unwrap();
    assert!(settings.checkpoint_url.is_some());
    let stop = FatalStop::new(CancellationToken::new());
    let coordinator = Coordinator::open(ledger, settings, Connections::new(), stop).unwrap();
    assert!(coordinator.checkpoint_store().is_none());
    let registered = coordinator.register(registration("w", 1)).map(drop);
    let bound = coordinator.bind_now(bind(2..3, "y")).await.map(drop);
    for refused in [registered, bound] {
        assert_eq!(refused.unwrap_err().kind(), "ledger_copied");
    }
    assert_eq!(coordinator.reconcile().await.unwrap(), 0);
    coordinator.meter_jobs().await;
    let status = coordinator.status();
    assert!(status["jobs"][0]["epsilon"].is_null());
    // The worker that was not let in is no problem of its own, and no version is named.
    let problems = status["problems"].as_array().unwrap();
    assert!(problems.iter().any(|one| one["kind"] == "ledger_copied"), "{status}");
    assert!(problems.iter().all(|one| one["kind"] != "worker_refused"), "{status}");
    assert!(!coordinator.job_metrics().contains("rustle_job_privacy_spent_rho{"));
    let report = coordinator.report(job(), 1e-6, None).await.unwrap();
    assert!(report["epsilon"].is_number() && report["ledger_doubt"].is_string(), "{report}");
    assert_eq!((coordinator.epoch(), coordinator.ledger().coordinator_epoch().unwrap()), (epoch, epoch));
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_whose_anchor_is_replaced_says_so_at_once_and_admits_no_worker() {
    for by_change in [true, false] {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("ledger.redb");
        let ledger = ledger_in(&folder);
        ledger.take_up(&AnchorPlace::of_ledger(&path), Nonce::from_bytes([9; 32])).unwrap();
        let settings = Settings::in_folder(folder.path()).unwrap();
        let stop = FatalStop::new(CancellationToken::new());
        let coordinator = Coordinator::open(ledger, settings, Connections::new(), stop).unwrap();
        coordinator.create_job(create(4096, 1)).await.unwrap();
        let kinds = || coordinator.problems().iter().map(|problem| problem.kind).collect::<Vec<_>>();
        coordinator.look_at_anchor();
        assert!(!kinds().contains(&"ledger_copied"), "{:?}", kinds());
        let mut names = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let anchor = names.find(|path| path.to_string_lossy().contains(".anchor-")).unwrap();
        std::fs::remove_file(anchor).unwrap();
        if by_change {
            let refused = coordinator.bind_now(bind(0..1, "x")).await.map(drop).unwrap_err();
            assert_eq!(refused.kind(), "ledger_copied");
        } else {
            coordinator.look_at_anchor();
        }
        assert!(kinds().contains(&"ledger_copied"), "{:?}", kinds());
        let refused = coordinator.register(registration("w", 1)).map(drop).unwrap_err();
        assert_eq!(refused.kind(), "ledger_copied");
        assert!(coordinator.checkpoint_store().is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_touches_no_checkpoint_before_its_anchor_is_taken_up() {
    let folder = TempDir::new().unwrap();
    let ledger = ledger_in(&folder);
    let lease = ledger.require_lease("s3://bucket", std::time::Instant::now);
    let settings = Settings::in_folder(folder.path()).unwrap();
    let stop = FatalStop::new(CancellationToken::new());
    let coordinator = Coordinator::open(ledger, settings, Connections::new(), stop).unwrap();
    assert!(coordinator.checkpoint_store().is_none());
    lease.prolong(std::time::Instant::now());
    assert!(coordinator.checkpoint_store().is_some(), "later ones have its epoch");
}

#[tokio::test(start_paused = true)]
async fn an_adopted_job_says_so_beside_its_cost() {
    for is_adopted in [false, true] {
        let folder = TempDir::new().unwrap();
        let coordinator = open(&folder);
        coordinator.create_job(create(4096, 1)).await.unwrap();
        coordinator.bind_now(bind(0..2, "x")).await.unwrap();
        drop(coordinator);
        if is_adopted {
            let place = AnchorPlace::of_ledger(&folder.path().join("ledger.redb"));
            let ids = std::cell::Cell::new(10);
            let nonce = || {
                ids.set(ids.get() + 1);
                Ok::<_, ledger::LedgerError>(Nonce::from_bytes([ids.get(); 32]))
            };
            ::release::adoption::adopt(&ledger_in(&folder), &place, nonce).unwrap();
        }
        let coordinator = open(&folder);
        coordinator.meter_jobs().await;
        let said = coordinator.status()["jobs"][0]["adopted"].clone();
        assert_eq!(said.is_string(), is_adopted, "{said}");
        let metrics = coordinator.job_metrics();
        assert_eq!(metrics.contains("rustle_job_adopted{training_job=\"job\"} 1\n"), is_adopted, "{metrics}");
    }
}
