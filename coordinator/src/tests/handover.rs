//! Shards that change hands while they are served. The tests control time.

use super::*;

fn ready_from(grant: &LeaseGrant, next_row: u64) -> LeaseReport {
    LeaseReport { next_row, ..report(grant, ReportedState::Ready) }
}

/// Reports all leases as served and all standbys as ready up to the job's end, and returns the reply.
fn report_all_ready(
    coordinator: &Coordinator,
    name: &str,
    process: u8,
    reply: &HeartbeatReply,
) -> HeartbeatReply {
    let ready = |grants: &[LeaseGrant]| grants.iter().map(|it| ready_from(it, 8)).collect::<Vec<_>>();
    coordinator.send_heartbeat(name, process, &ready(&reply.leases), &ready(&reply.standbys))
}

async fn served_by_a(folder: &TempDir, shards: u32) -> (Coordinator, HeartbeatReply) {
    let coordinator = open(folder);
    coordinator.register(registration("a", 1)).unwrap();
    coordinator.create_job(create(4096, shards)).await.unwrap();
    coordinator.reconcile().await.unwrap();
    let reply = coordinator.send_heartbeat("a", 1, &[], &[]);
    let reply = report_all_ready(&coordinator, "a", 1, &reply);
    (coordinator, reply)
}

fn epochs(coordinator: &Coordinator) -> Vec<u64> {
    coordinator.shard_records().into_iter().map(|record| record.epoch).collect()
}

#[tokio::test(start_paused = true)]
async fn a_drained_worker_serves_until_its_successor_does() {
    let folder = TempDir::new().unwrap();
    let (coordinator, before) = served_by_a(&folder, 2).await;
    coordinator.register(registration("b", 2)).unwrap();
    assert_eq!(coordinator.drain_worker(&worker("a"), false).unwrap(), 2);
    assert_eq!(coordinator.reconcile().await.unwrap(), 0, "nothing changes hands before it is ready");
    let to_b = coordinator.send_heartbeat("b", 2, &[], &[]);
    assert_eq!((to_b.leases.len(), to_b.standbys.len()), (0, 2));

    // Ready, but behind the job: not yet.
    coordinator.bind(bind(0..5, "x")).await.unwrap();
    let behind: Vec<_> = to_b.standbys.iter().map(|it| ready_from(it, 4)).collect();
    coordinator.send_heartbeat("b", 2, &[], &behind);
    assert_eq!(coordinator.reconcile().await.unwrap(), 0);
    report_all_ready(&coordinator, "b", 2, &to_b);
    assert_eq!(coordinator.reconcile().await.unwrap(), 2);

    // The ledger names b, and a serves until b reports that it does.
    assert!(coordinator.shard_records().iter().all(|record| record.owner == Some(worker("b"))));
    assert_eq!(coordinator.endpoints(), vec![Some("http://a:1".to_owned()); 2]);
    assert_eq!(coordinator.job_message(&job()).unwrap().shards_ready, 2);
    let same = |reply: HeartbeatReply| {
        reply.leases.iter().map(|it| it.epoch).eq(before.leases.iter().map(|it| it.epoch))
    };
    assert!(same(report_all_ready(&coordinator, "a", 1, &before)));
    assert!(!coordinator.send_heartbeat("a", 1, &[], &[]).may_leave);
    let to_b = coordinator.send_heartbeat("b", 2, &[], &[]);
    assert!(to_b.leases.iter().zip(&before.leases).all(|(new, old)| new.epoch > old.epoch));
    assert!(to_b.standbys.is_empty());
    report_all_ready(&coordinator, "b", 2, &to_b);
    assert_eq!(coordinator.endpoints(), vec![Some("http://b:1".to_owned()); 2]);
    let to_a = coordinator.send_heartbeat("a", 1, &[], &[]);
    assert!(to_a.leases.is_empty() && to_a.may_leave && to_a.is_draining);
    assert_eq!(coordinator.drain_worker(&worker("a"), false).unwrap(), 0);
    assert_eq!(coordinator.reconcile().await.unwrap(), 0, "it gets nothing back while it drains");
    coordinator.drain_worker(&worker("a"), true).unwrap();
    assert_eq!(coordinator.reconcile().await.unwrap(), 0);
    assert_eq!(coordinator.send_heartbeat("a", 1, &[], &[]).standbys.len(), 1, "and its part again after");
    assert!(coordinator.drain_worker(&worker("unknown"), false).is_err());
}

#[tokio::test(start_paused = true)]
async fn the_last_worker_may_leave_and_a_new_one_is_prepared_first() {
    let folder = TempDir::new().unwrap();
    let (coordinator, reply) = served_by_a(&folder, 2).await;
    let leases: Vec<_> = reply.leases.iter().map(|it| ready_from(it, 8)).collect();
    let leaving = Heartbeat { leases: leases.clone(), is_leaving: true, ..Heartbeat::default() };
    let leave = |coordinator: &Coordinator| {
        coordinator.heartbeat(&worker("a"), Incarnation([1; 16]), &leaving).unwrap()
    };
    assert!(leave(&coordinator).may_leave, "no other worker could take over");
    coordinator.register(registration("b", 2)).unwrap();
    assert!(!leave(&coordinator).may_leave);
    coordinator.reconcile().await.unwrap();
    let to_b = coordinator.send_heartbeat("b", 2, &[], &[]);
    assert_eq!(to_b.standbys.len(), 2);
    report_all_ready(&coordinator, "b", 2, &to_b);
    coordinator.reconcile().await.unwrap();
    let to_b = coordinator.send_heartbeat("b", 2, &[], &[]);
    report_all_ready(&coordinator, "b", 2, &to_b);
    assert!(leave(&coordinator).may_leave);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_dies_meanwhile_is_followed_by_the_worker_that_prepared() {
    let folder = TempDir::new().unwrap();
    let (coordinator, reply) = served_by_a(&folder, 1).await;
    for (name, process) in [("b", 2), ("c", 3)] {
        coordinator.register(registration(name, process)).unwrap();
    }
    coordinator.drain_worker(&worker("a"), false).unwrap();
    coordinator.reconcile().await.unwrap();
    let prepares = |name, process| !coordinator.send_heartbeat(name, process, &[], &[]).standbys.is_empty();
    assert!(prepares("b", 2) && !prepares("c", 3));
    // Something larger on b would send a new shard to c.
    advance(TTL / 2).await;
    for (name, process) in [("b", 2), ("c", 3)] {
        coordinator.send_reports(name, process, &[]);
    }
    advance(TTL / 2).await;
    assert_eq!(coordinator.reconcile().await.unwrap(), 1);
    assert_eq!(coordinator.shard_records()[0].owner, Some(worker("b")));
    assert!(epochs(&coordinator)[0] > reply.leases[0].epoch);
    assert_eq!(coordinator.endpoints(), [None]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_prepare_is_passed_over_and_what_is_served_stays() {
    let folder = TempDir::new().unwrap();
    let (coordinator, _) = served_by_a(&folder, 1).await;
    for (name, process) in [("b", 2), ("c", 3)] {
        coordinator.register(registration(name, process)).unwrap();
    }
    coordinator.drain_worker(&worker("a"), false).unwrap();
    coordinator.reconcile().await.unwrap();
    let to_b = coordinator.send_heartbeat("b", 2, &[], &[]).standbys;
    let failed = report(&to_b[0], ReportedState::Failed);
    let other_key = LeaseReport { key_commitment: vec![9; 32], ..ready_from(&to_b[0], 8) };
    coordinator.send_heartbeat("b", 2, &[], &[other_key]);
    coordinator.reconcile().await.unwrap();
    assert!(coordinator.send_heartbeat("b", 2, &[], &[failed]).standbys.is_empty());
    assert_eq!(coordinator.send_heartbeat("c", 3, &[], &[]).standbys.len(), 1);
    assert_eq!(coordinator.endpoints(), [Some("http://a:1".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn splitting_and_merging_switch_in_one_step() {
    let folder = TempDir::new().unwrap();
    let (coordinator, before) = served_by_a(&folder, 2).await;
    coordinator.register(registration("b", 2)).unwrap();
    let mut known = [("a", 1, before.clone()), ("b", 2, coordinator.send_heartbeat("b", 2, &[], &[]))];
    for shards in [5, 1] {
        coordinator.begin_reshard(&job(), shards).unwrap();
        assert_eq!(coordinator.reconcile().await.unwrap(), 0);
        let old = epochs(&coordinator);
        let [to_a, to_b] =
            known.map(|(name, process, reply)| report_all_ready(&coordinator, name, process, &reply));
        let prepared = to_a.standbys.len() + to_b.standbys.len();
        assert_eq!(prepared, shards as usize);
        let to_a = report_all_ready(&coordinator, "a", 1, &to_a);
        if !to_b.standbys.is_empty() {
            assert_eq!(coordinator.reconcile().await.unwrap(), 0, "half of the new ones are not ready");
        }
        let to_b = report_all_ready(&coordinator, "b", 2, &to_b);
        assert_eq!(coordinator.reconcile().await.unwrap(), shards as usize);
        assert!(epochs(&coordinator).iter().all(|epoch| old.iter().all(|old| epoch > old)));

        // Every coordinate is served at every moment, by the old lease or the new one.
        let whole = |coordinator: &Coordinator| {
            let routes = coordinator.routing(&job()).unwrap().routes;
            let ends = routes.iter().map(|route| route.range.end);
            assert!(ends.zip(routes.iter().skip(1)).all(|(end, next)| end == next.range.start));
            assert_eq!(routes.last().map(|route| route.range.end), Some(4096));
            routes.iter().all(|route| route.endpoint.is_some())
        };
        assert!(whole(&coordinator));
        let now_a = report_all_ready(&coordinator, "a", 1, &to_a);
        let now_b = report_all_ready(&coordinator, "b", 2, &to_b);
        assert!(
            to_a.leases.iter().all(|lease| now_a.leases.contains(lease)),
            "the old leases are still granted"
        );
        assert!(to_b.leases.iter().all(|lease| now_b.leases.contains(lease)));
        let now_a = report_all_ready(&coordinator, "a", 1, &now_a);
        assert!(whole(&coordinator));
        let now_b = report_all_ready(&coordinator, "b", 2, &now_b);
        assert!(whole(&coordinator));
        let now_a = report_all_ready(&coordinator, "a", 1, &now_a);
        assert_eq!(now_a.leases.len() + now_b.leases.len(), shards as usize, "and end with the new ones");
        known = [("a", 1, now_a), ("b", 2, now_b)];
    }
    assert!(epochs(&coordinator)[0] > before.leases[0].epoch);
}

#[tokio::test(start_paused = true)]
async fn a_branch_opened_meanwhile_begins_all_preparations_anew() {
    let folder = TempDir::new().unwrap();
    let (coordinator, _) = served_by_a(&folder, 1).await;
    coordinator.bind(bind(0..3, "x")).await.unwrap();
    coordinator.begin_reshard(&job(), 2).unwrap();
    coordinator.reconcile().await.unwrap();
    let before = coordinator.send_heartbeat("a", 1, &[], &[]);
    report_all_ready(&coordinator, "a", 1, &before);
    let open = proto::model::OpenBranch { job: job(), from_row: 1, expected_branch: 0, parent: None };
    coordinator.open_branch(open).await.unwrap();
    // Reports on standbys of the branch before have no effect.
    let ready = |grants: &[LeaseGrant]| grants.iter().map(|it| ready_from(it, 8)).collect::<Vec<_>>();
    let leases = coordinator.send_heartbeat("a", 1, &[], &[]).leases;
    coordinator.send_heartbeat("a", 1, &ready(&leases), &ready(&before.standbys));
    coordinator.reconcile().await.unwrap();
    coordinator.send_heartbeat("a", 1, &ready(&leases), &ready(&before.standbys));
    assert_eq!(coordinator.reconcile().await.unwrap(), 0);
    assert_eq!(coordinator.job_message(&job()).unwrap().shards, 1);
    let after = coordinator.send_heartbeat("a", 1, &ready(&leases), &[]);
    assert!(after.standbys.iter().all(|it| it.branch() == 1 && it.epoch > before.standbys[1].epoch));
    report_all_ready(&coordinator, "a", 1, &after);
    coordinator.reconcile().await.unwrap();
    assert_eq!(coordinator.job_message(&job()).unwrap().shards, 2);
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_starts_anew_in_mid_handover_knows_the_owner() {
    let folder = TempDir::new().unwrap();
    let (coordinator, before) = served_by_a(&folder, 1).await;
    coordinator.register(registration("b", 2)).unwrap();
    coordinator.drain_worker(&worker("a"), false).unwrap();
    coordinator.reconcile().await.unwrap();
    let to_b = coordinator.send_heartbeat("b", 2, &[], &[]);
    report_all_ready(&coordinator, "b", 2, &to_b);
    coordinator.reconcile().await.unwrap();
    drop(coordinator);

    let coordinator = open(&folder);
    coordinator.register(Register { draining: true, ..registration("a", 1) }).unwrap();
    coordinator.register(registration("b", 2)).unwrap();
    // The leases of a have ended; b gets the shard under a new epoch.
    assert!(report_all_ready(&coordinator, "a", 1, &before).leases.is_empty());
    coordinator.send_heartbeat("b", 2, &[], &[]);
    coordinator.reconcile().await.unwrap();
    let to_b = coordinator.send_heartbeat("b", 2, &[], &[]);
    assert_eq!(to_b.leases.len(), 1);
    report_all_ready(&coordinator, "b", 2, &to_b);
    assert_eq!(coordinator.endpoints(), [Some("http://b:1".to_owned())]);
    assert!(coordinator.send_heartbeat("a", 1, &[], &[]).is_draining, "the earlier coordinator drained it");
}

fn registration_at(name: &str, process: u8, label: &str, memory_bytes: Option<u64>) -> Register {
    let place = WorkerPlace { host: "h".into(), labels: vec![label.into()], memory_bytes };
    Register { place, ..registration(name, process) }
}

#[tokio::test(start_paused = true)]
async fn a_shard_without_room_is_not_placed_and_said_to_be_so() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    // Two shards of 2048 coordinates, of which a worker keeps four rows of 8 KiB.
    coordinator.register(registration_at("a", 1, "x=1", Some(33_000))).unwrap();
    coordinator.create_job(create(4096, 2)).await.unwrap();
    assert_eq!(coordinator.reconcile().await.unwrap(), 1);
    let reply = coordinator.send_heartbeat("a", 1, &[], &[]);
    assert_eq!(reply.leases.len(), 1);
    let unplaced = |coordinator: &Coordinator| -> Vec<bool> {
        let status = coordinator.status();
        let shards = status["jobs"][0]["shards"].as_array().unwrap().clone();
        shards.iter().map(|shard| shard["unplaced"].as_bool().unwrap()).collect()
    };
    assert_eq!(unplaced(&coordinator), [false, true]);
    // Another layout has no room beside the one that is served.
    coordinator.register(registration_at("b", 2, "x=2", Some(33_000))).unwrap();
    coordinator.reconcile().await.unwrap();
    assert_eq!(unplaced(&coordinator), [false, false]);
    report_all_ready(&coordinator, "a", 1, &reply);
    let reply = coordinator.send_heartbeat("b", 2, &[], &[]);
    report_all_ready(&coordinator, "b", 2, &reply);
    let beat = async {
        for _ in 0..60 {
            coordinator.reconcile().await.unwrap();
            for (name, process) in [("a", 1), ("b", 2)] {
                let reply = coordinator.send_heartbeat(name, process, &[], &[]);
                report_all_ready(&coordinator, name, process, &reply);
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
async fn shards_go_near_who_uses_them() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    coordinator.register(registration_at("a", 1, "rack=1", None)).unwrap();
    coordinator.register(registration_at("b", 2, "rack=2", None)).unwrap();
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
    let reply = [coordinator.send_heartbeat("a", 1, &[], &[]), coordinator.send_heartbeat("b", 2, &[], &[])];
    report_all_ready(&coordinator, "a", 1, &reply[0]);
    report_all_ready(&coordinator, "b", 2, &reply[1]);
    coordinator.set_placement_hints(&job(), vec![hint(0, 2048, "rack=1"), hint(2048, 4096, "b")]).unwrap();
    coordinator.reconcile().await.unwrap();
    assert_eq!(owners(&coordinator), ["b", "a"]);
    let reply = [coordinator.send_heartbeat("a", 1, &[], &[]), coordinator.send_heartbeat("b", 2, &[], &[])];
    assert!(reply.iter().all(|reply| reply.standbys.len() == 1));
    let beyond = coordinator.set_placement_hints(&job(), vec![hint(0, 4097, "b")]);
    assert!(matches!(beyond, Err(ServiceError::RangeBeyondDimension { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_slow_worker_and_one_that_stands_still_are_relieved() {
    let folder = TempDir::new().unwrap();
    let coordinator = open(&folder);
    for (name, process) in [("a", 1), ("b", 2)] {
        coordinator.register(registration(name, process)).unwrap();
    }
    coordinator.create_job(create(4096, 2)).await.unwrap();
    coordinator.reconcile().await.unwrap();
    let beat = async |rate: f64, stalled: Duration| {
        for (name, process, rate) in [("a", 1, 1e9), ("b", 2, rate)] {
            let reply = coordinator.send_heartbeat(name, process, &[], &[]);
            let stalled = if name == "b" { stalled } else { Duration::ZERO };
            let leases = reply.leases.iter().map(|it| LeaseReport { stalled, ..ready_from(it, 8) }).collect();
            let standbys = reply.standbys.iter().map(|it| ready_from(it, 8)).collect();
            let heartbeat = Heartbeat { leases, standbys, rate, ..Heartbeat::default() };
            coordinator.heartbeat(&worker(name), Incarnation([process; 16]), &heartbeat).unwrap();
        }
        coordinator.reconcile().await.unwrap();
        advance(TTL / 2).await;
    };
    let of_b = || coordinator.shard_records().iter().filter(|it| it.owner == Some(worker("b"))).count();
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

/// Half of a checkpoint is written: the shard that is done may move, and the other only if its owner is about to end.
#[tokio::test(start_paused = true)]
async fn a_shard_waits_for_its_own_piece_of_a_checkpoint_alone() {
    let folder = TempDir::new().unwrap();
    let (coordinator, before) = served_by_a(&folder, 2).await;
    coordinator.register(registration("b", 2)).unwrap();
    coordinator.drain_worker(&worker("a"), false).unwrap();
    coordinator.cluster().job_mut(&job()).unwrap().unwritten_pieces = [0, 1].into();
    coordinator.reconcile().await.unwrap();
    let to_b = coordinator.send_heartbeat("b", 2, &[], &[]);
    report_all_ready(&coordinator, "b", 2, &to_b);
    assert_eq!(coordinator.reconcile().await.unwrap(), 0);
    coordinator.cluster().piece_written(&job(), Some(1));
    assert_eq!(coordinator.reconcile().await.unwrap(), 1);
    let owners: Vec<_> = coordinator.shard_records().into_iter().map(|it| it.owner.unwrap()).collect();
    assert_eq!(owners, [worker("a"), worker("b")]);

    let leases = before.leases.iter().map(|it| ready_from(it, 8)).collect();
    let heartbeat = Heartbeat { leases, is_leaving: true, ..Heartbeat::default() };
    coordinator.heartbeat(&worker("a"), Incarnation([1; 16]), &heartbeat).unwrap();
    let to_b = coordinator.send_heartbeat("b", 2, &[], &[]);
    report_all_ready(&coordinator, "b", 2, &to_b);
    assert_eq!(coordinator.reconcile().await.unwrap(), 1, "a checkpoint that fails costs less");
}
