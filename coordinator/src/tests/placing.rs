//! Where shards go: room, nearness, and workers that are slow. The tests control time.

use super::processes::{A, B, C, Grants, Process, ready_from, report_all_ready};
use super::*;

fn registration_at(process: Process, label: &str, memory_bytes: Option<u64>) -> Register {
    let place = WorkerPlace { host: "h".into(), labels: vec![label.into()], memory_bytes };
    Register { place, ..registration(process.name, process.number) }
}

#[tokio::test(start_paused = true)]
async fn a_shard_without_room_is_not_placed_and_is_shown_as_unplaced() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    // Two shards of 2048 coordinates, of which a worker keeps four rows of 8 KiB.
    coordinator.register(registration_at(A, "x=1", Some(33_000))).unwrap();
    coordinator.create_job(create(4096, 2)).await.unwrap();
    assert_eq!(coordinator.reconcile().await.unwrap(), 1);
    let reply = coordinator.beat(A);
    assert_eq!(reply.leases.len(), 1);
    let unplaced = |coordinator: &Coordinator| -> Vec<bool> {
        let status = coordinator.status();
        let shards = status["jobs"][0]["shard_list"].as_array().unwrap().clone();
        shards.iter().map(|shard| shard["unplaced"].as_bool().unwrap()).collect()
    };
    assert_eq!(unplaced(&coordinator), [false, true]);

    // Another layout has no room beside the one that is served.
    coordinator.register(registration_at(B, "x=2", Some(33_000))).unwrap();
    coordinator.reconcile().await.unwrap();
    assert_eq!(unplaced(&coordinator), [false, false]);
    report_all_ready(&coordinator, A, &reply);
    let reply = coordinator.beat(B);
    report_all_ready(&coordinator, B, &reply);
    let beat = async {
        for _ in 0..60 {
            coordinator.reconcile().await.unwrap();
            for process in [A, B] {
                let reply = coordinator.beat(process);
                report_all_ready(&coordinator, process, &reply);
            }
            tokio::time::sleep(TTL / 8).await;
        }
    };
    let (refused, ()) = tokio::join!(coordinator.reshard_job(job(), 1), beat);
    let error = refused.unwrap_err().to_string();
    assert!(error.contains("65536 bytes"), "{error}");
    assert_eq!(coordinator.job_message(&job()).unwrap().shards_ready, 2, "what is served stays");
}

#[tokio::test(start_paused = true)]
async fn shards_go_near_their_users() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    coordinator.register(registration_at(A, "rack=1", None)).unwrap();
    coordinator.register(registration_at(B, "rack=2", None)).unwrap();
    coordinator.create_job(create(4096, 2)).await.unwrap();
    let hint = |start, end, near: &str| proto::model::PlacementHint {
        range: CoordinateRange { start, end },
        near: near.to_owned(),
    };
    let owners = |coordinator: &Coordinator| -> Vec<String> {
        let owner = |record: &ShardRecord| record.owner.as_ref().unwrap().to_string();
        coordinator.shard_records().iter().map(owner).collect()
    };
    let hints = vec![hint(0, 2048, "rack=2"), hint(2048, 4096, "a")];
    coordinator.set_placement_hints(&job(), hints).unwrap();
    coordinator.reconcile().await.unwrap();
    assert_eq!(owners(&coordinator), ["b", "a"]);

    // With other hints during the run they are exchanged, each once it is ready.
    let reply = [coordinator.beat(A), coordinator.beat(B)];
    report_all_ready(&coordinator, A, &reply[0]);
    report_all_ready(&coordinator, B, &reply[1]);
    coordinator.set_placement_hints(&job(), vec![hint(0, 2048, "rack=1"), hint(2048, 4096, "b")]).unwrap();
    coordinator.reconcile().await.unwrap();
    assert_eq!(owners(&coordinator), ["b", "a"]);
    let reply = [coordinator.beat(A), coordinator.beat(B)];
    assert!(reply.iter().all(|reply| reply.standbys.len() == 1));

    let beyond = coordinator.set_placement_hints(&job(), vec![hint(0, 4097, "b")]);
    assert!(matches!(beyond, Err(ServiceError::RangeBeyondDimension { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_slow_worker_and_one_that_stands_still_are_relieved() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    coordinator.join(A);
    coordinator.join(B);
    coordinator.create_job(create(4096, 2)).await.unwrap();
    coordinator.reconcile().await.unwrap();
    let beat = async |rate: f64, stalled: Duration| {
        for (process, rate, stalled) in [(A, 1e9, Duration::ZERO), (B, rate, stalled)] {
            let reply = coordinator.beat(process);
            let leases = reply.leases.iter().map(|it| LeaseReport { stalled, ..ready_from(it, 8) }).collect();
            let standbys = reply.standbys.iter().map(|it| ready_from(it, 8)).collect();
            let heartbeat = Heartbeat { leases, standbys, rate, ..Heartbeat::default() };
            coordinator.heartbeat(&worker(process.name), process.incarnation(), &heartbeat).unwrap();
        }
        coordinator.reconcile().await.unwrap();
        advance(TTL / 2).await;
    };
    let of_b = || coordinator.shard_records().iter().filter(|it| it.owner == Some(worker(B.name))).count();
    for _ in 0..9 {
        beat(0.9e9, Duration::ZERO).await;
        assert_eq!(of_b(), 1);
    }

    for _ in 0..9 {
        beat(0.2e9, Duration::ZERO).await;
        assert_eq!(of_b(), 1, "not yet");
    }
    for _ in 0..6 {
        beat(0.2e9, Duration::ZERO).await;
    }
    assert_eq!(of_b(), 0, "slow for ten seconds");

    for _ in 0..15 {
        beat(1e9, Duration::ZERO).await;
    }
    assert_eq!(of_b(), 1, "as fast as the others for ten seconds");

    beat(1e9, Duration::from_secs(9)).await;
    assert_eq!(of_b(), 1);
    for _ in 0..4 {
        beat(1e9, Duration::from_secs(11)).await;
    }
    assert_eq!(of_b(), 0, "it makes no rows that are requested");
}

#[tokio::test(start_paused = true)]
async fn a_fenced_coordinator_gives_no_epochs_and_prepares_successors_all_the_same() {
    fn now() -> std::time::Instant {
        tokio::time::Instant::now().into_std()
    }
    let folder = TempDir::new().unwrap();
    let ledger = ledger_in(&folder);
    let lease = ledger.require_lease("s3://bucket", now);
    let settings = Settings { checkpoint_url: None, ..Settings::in_folder(folder.path()).unwrap() };
    let stop = FatalStop::new(CancellationToken::new());
    lease.prolong(now() + TTL);
    let coordinator = Coordinator::open(ledger, settings, Connections::new(), stop).unwrap();
    coordinator.create_job(create(4096, 2)).await.unwrap();
    lease.end();
    coordinator.join(A);
    let unplaced = coordinator.shard_records();
    assert_eq!(coordinator.reconcile().await.unwrap(), 0);
    assert_eq!(coordinator.shard_records(), unplaced);
    lease.prolong(now() + TTL * 100);
    assert_eq!(coordinator.reconcile().await.unwrap(), 2);
    let to_a = coordinator.beat(A);
    let to_a = report_all_ready(&coordinator, A, &to_a);

    lease.end();
    lease.note("silent".to_owned());
    let problems = coordinator.problems();
    assert_eq!((problems[0].kind, problems.len()), ("anchor_not_renewed", 1));
    assert!(problems[0].what.contains("no shard goes to another worker"), "{problems:?}");
    let placed = coordinator.shard_records();
    coordinator.join(B);
    coordinator.drain_worker(&worker(A.name), false).unwrap();
    let mut to_b = coordinator.beat(B);
    for _ in 0..3 {
        assert_eq!(coordinator.reconcile().await.unwrap(), 0);
        assert_eq!(Grants::of(&report_all_ready(&coordinator, A, &to_a)), Grants { leases: 2, standbys: 0 });
        to_b = report_all_ready(&coordinator, B, &to_b);
    }
    assert_eq!(Grants::of(&to_b), Grants { leases: 0, standbys: 2 });
    assert_eq!(coordinator.endpoints(), [(); 2].map(|()| Some("http://a:1".to_owned())), "it serves on");
    // Nor a new layout, or the shards of a worker that is gone.
    coordinator.begin_reshard(&job(), 1).unwrap();
    coordinator.join(C);
    let mut to_c = coordinator.beat(C);
    for _ in 0..3 {
        assert_eq!(coordinator.reconcile().await.unwrap(), 0);
        to_c = report_all_ready(&coordinator, C, &to_c);
        advance(TTL / 2).await;
    }
    assert_eq!(coordinator.shard_records(), placed);
    assert_eq!(coordinator.endpoints(), [None, None], "both workers are gone");

    lease.prolong(now() + TTL);
    while coordinator.reconcile().await.unwrap() > 0 {
        to_c = report_all_ready(&coordinator, C, &to_c);
    }
    let owners = coordinator.shard_records();
    assert!(owners.iter().all(|shard| shard.owner == Some(worker(C.name))), "{owners:?}");
    assert!(owners.iter().all(|shard| placed.iter().all(|before| before.epoch < shard.epoch)), "{owners:?}");
}
