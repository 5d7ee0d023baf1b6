//! Creating, finishing, destroying, resharding.

use proto::model::OpenBranch;

use super::*;

#[tokio::test]
async fn a_job_is_checked_wholly_before_it_exists() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    let with_plan = |plan_toml: String| CreateJob { plan_toml, ..create(4096, 2) };
    let layout = |dimension: u64| with_plan(format!("{PLAN}\n[layout]\ndimension = {dimension}\n"));
    let cases = [
        ("noise_multiplier", with_plan(PLAN.replace("noise_multiplier = 1.0", "noise_multiplier = -1.0"))),
        ("plan_toml", with_plan("not a plan".into())),
        ("dimension", create(0, 1)),
        ("dimension", create(u64::MAX, 1)),
        ("dimension", layout(4095)),
        ("shards", create(4096, 9)),
    ];
    for (field, request) in cases {
        match coordinator.create_job(request).await.unwrap_err() {
            ServiceError::InvalidArgument { field: named, .. } => assert_eq!(named, field),
            other => panic!("{field}: {other}"),
        }
    }
    let other_digest = CreateJob { plan_digest: Some([0; 32]), ..create(4096, 2) };
    let error = coordinator.create_job(other_digest).await.unwrap_err();
    assert!(matches!(error, ServiceError::PlanDigestMismatch { .. }));
    assert!(coordinator.list_jobs().is_empty());
    let created = coordinator.create_job(layout(4096)).await.unwrap();
    assert_eq!((created.dimension, created.shards, created.iterations), (4096, 2, 8));
}

#[tokio::test]
async fn the_same_job_again_is_the_same_job_and_another_is_refused() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    let first = coordinator.create_job(create(4096, 0)).await.unwrap();
    assert_eq!(first.shards, 1);
    // Workers that came since don't make it another job.
    coordinator.register(registration("a", 1)).unwrap();
    coordinator.register(registration("b", 1)).unwrap();
    assert_eq!(coordinator.create_job(create(4096, 0)).await.unwrap(), first);
    let error = coordinator.create_job(create(8192, 0)).await.unwrap_err();
    assert!(matches!(error, ServiceError::AlreadyExists { .. }), "{error}");
    let other_key = CreateJob { key_commitment: [8; 32], ..create(4096, 0) };
    assert!(coordinator.create_job(other_key).await.is_err());
}

#[tokio::test]
async fn finished_jobs_keep_bound_rows_and_destroyed_ones_keep_nothing() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    coordinator.create_job(create(4096, 1)).await.unwrap();
    coordinator.bind_now(bind(0..3, "x")).await.unwrap();
    let finished = coordinator.finish_job(job()).await.unwrap();
    assert_eq!((finished.state(), finished.rows_bound), (proto::pb::JobState::Finished, 3));
    coordinator.bind_now(bind(0..3, "x")).await.unwrap();
    assert!(matches!(coordinator.bind_now(bind(3..4, "x")).await, Err(ServiceError::JobState { .. })));
    assert!(coordinator.routing(&job()).is_ok());

    let destroyed = coordinator.destroy_job(job()).await.unwrap();
    assert_eq!(destroyed.rows_released, 3);
    assert!(destroyed.message.contains("3 released rows"), "{}", destroyed.message);
    assert!(matches!(coordinator.bind_now(bind(0..3, "x")).await, Err(ServiceError::JobState { .. })));
    assert!(matches!(coordinator.routing(&job()), Err(ServiceError::JobState { .. })));
    // Its name stays taken: the same rows under the same key must not come out again.
    assert!(coordinator.create_job(create(4096, 1)).await.is_err());
    assert_eq!(coordinator.destroy_job(job()).await.unwrap().rows_released, 3);
}

#[tokio::test]
async fn resharding_replaces_every_lease() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    coordinator.register(registration("a", 1)).unwrap();
    coordinator.create_job(create(4096, 1)).await.unwrap();
    coordinator.reconcile().await.unwrap();
    let before = coordinator.make_ready("a", 1);
    let reshard = coordinator.reshard_job(job(), 4);
    let switch = async {
        tokio::task::yield_now().await;
        coordinator.reconcile().await.unwrap();
        let prepared = coordinator.send_heartbeat("a", 1, &[], &[]).standbys;
        let ready = |grant: &LeaseGrant| LeaseReport { next_row: 8, ..report(grant, ReportedState::Ready) };
        let serving = before.iter().map(ready).collect::<Vec<_>>();
        coordinator.send_heartbeat("a", 1, &serving, &prepared.iter().map(ready).collect::<Vec<_>>());
        coordinator.reconcile().await.unwrap();
    };
    let (resharded, ()) = tokio::join!(reshard, switch);
    assert_eq!(resharded.unwrap().shards, 4);
    let after: Vec<_> =
        coordinator.make_ready("a", 1).into_iter().filter(|grant| grant.epoch > before[0].epoch).collect();
    assert_eq!(after.len(), 4);
    assert!(after.iter().all(|grant| grant.epoch > before[0].epoch));
    assert_eq!(after[1].range, CoordinateRange { start: 1024, end: 2048 });
    assert!(coordinator.endpoints().iter().all(Option::is_some));
    assert!(coordinator.reshard_job(job(), 9).await.is_err());
}

#[tokio::test]
async fn a_report_states_what_was_bound_and_what_it_costs() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    coordinator.create_job(create(4096, 1)).await.unwrap();
    coordinator.bind_now(bind(0..3, "x")).await.unwrap();
    let report = coordinator.report(job(), 1e-6, None).await.unwrap();
    assert_eq!((report["rows_bound"].as_u64(), report["iterations"].as_u64()), (Some(3), Some(8)));
    // Two participations of independent noise: sensitivity √2, rho = 1.
    assert!((report["sensitivity"].as_f64().unwrap() - 2f64.sqrt()).abs() < 1e-12);
    assert!((report["rho"].as_f64().unwrap() - 1.0).abs() < 1e-12);
    assert!(report["epsilon"].as_f64().unwrap() > 1.0);
    assert!(coordinator.report(job(), 0.0, None).await.is_err());
    assert!(coordinator.report(JobId::new("other").unwrap(), 1e-6, None).await.is_err());
}

/// Every rewind adds the rows that it abandons, in the report as in the privacy meter.
#[tokio::test]
async fn a_report_charges_rewinds() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    coordinator.create_job(create(4096, 1)).await.unwrap();
    for branch in 0..3 {
        coordinator.bind_now(Bind { branch, ..bind(0..8, &format!("branch {branch}")) }).await.unwrap();
        let rewind = OpenBranch { job: job(), from_row: 0, expected_branch: branch, parent: None };
        coordinator.open_branch(rewind).await.unwrap();
        let report = coordinator.report(job(), 1e-6, None).await.unwrap();
        // Each run of independent noise costs rho = 1: those abandoned, and the one that may follow.
        let runs = branch as f64 + 2.0;
        assert!((report["rho"].as_f64().unwrap() - runs).abs() < 1e-9, "{report}");
        assert!((report["sensitivity"].as_f64().unwrap() - (2.0 * runs).sqrt()).abs() < 1e-9);
        assert!((report["sensitivity_planned"].as_f64().unwrap() - 2f64.sqrt()).abs() < 1e-9);
        assert_eq!(report["abandoned"].as_array().unwrap().len() as u64, branch + 1);
        coordinator.meter_jobs().await;
        let (_, planned) = coordinator.privacy_meter().histories()[&job()].spent_and_planned().unwrap();
        assert!((planned.rho - report["rho"].as_f64().unwrap()).abs() < 1e-9);
    }
}

#[tokio::test]
async fn a_checkpoint_without_a_store_or_without_workers_is_a_clear_error() {
    let folder = TempDir::new().unwrap();
    let mut coordinator = open(&folder);
    coordinator.create_job(create(4096, 2)).await.unwrap();
    let error = coordinator.checkpoint(&job()).await.unwrap_err();
    assert!(error.to_string().contains("--checkpoint-url"), "{error}");
    let url = format!("file://{}", folder.path().join("c").display());
    coordinator.set_checkpoint_store(checkpoint_store::CheckpointStore::open(&url).unwrap());
    let error = coordinator.checkpoint(&job()).await.unwrap_err();
    assert!(
        matches!(error, ServiceError::RangeUnavailable { ref missing, .. } if *missing == [(0..4096).into()]),
        "{error}"
    );
}

#[tokio::test]
async fn the_status_shows_jobs_and_workers() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    coordinator.register(registration("a", 1)).unwrap();
    coordinator.create_job(create(4096, 1)).await.unwrap();
    coordinator.reconcile().await.unwrap();
    let status = coordinator.status();
    assert_eq!(status["workers"][0]["shards"], 1);
    assert_eq!(status["jobs"][0]["shard_list"][0]["owner"], "a");
}
