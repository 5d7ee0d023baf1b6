//! Shards that change hands while they are served. The tests control time.

use super::processes::{A, B, C, Grants, ready_from, report_all_ready};
use super::*;

/// Returns a coordinator whose one job is served by worker `a`, and the last reply to it.
async fn served_by_a(folder: &TempDir, shards: u32) -> (Coordinator, HeartbeatReply) {
    let coordinator = open(folder);
    coordinator.join(A);
    coordinator.create_job(create(4096, shards)).await.unwrap();
    coordinator.reconcile().await.unwrap();
    let reply = coordinator.beat(A);
    let reply = report_all_ready(&coordinator, A, &reply);
    (coordinator, reply)
}

fn epochs(coordinator: &Coordinator) -> Vec<u64> {
    coordinator.shard_records().into_iter().map(|record| record.epoch).collect()
}

#[tokio::test(start_paused = true)]
async fn a_drained_worker_serves_until_its_successor_does() {
    let folder = TempDir::new().unwrap();
    let (coordinator, before) = served_by_a(&folder, 2).await;
    coordinator.join(B);
    assert_eq!(coordinator.drain_worker(&worker(A.name), false).unwrap(), 2);

    assert_eq!(coordinator.reconcile().await.unwrap(), 0, "nothing changes hands before it is ready");
    let to_b = coordinator.beat(B);
    assert_eq!(Grants::of(&to_b), Grants { leases: 0, standbys: 2 });

    // Ready, but behind the job: not yet.
    coordinator.bind_now(bind(0..5, "x")).await.unwrap();
    let behind: Vec<_> = to_b.standbys.iter().map(|it| ready_from(it, 4)).collect();
    coordinator.send_heartbeat(B.name, B.number, &[], &behind);
    assert_eq!(coordinator.reconcile().await.unwrap(), 0);
    report_all_ready(&coordinator, B, &to_b);
    assert_eq!(coordinator.reconcile().await.unwrap(), 2);

    // The ledger names b, and a serves until b reports that it does.
    assert!(coordinator.shard_records().iter().all(|record| record.owner == Some(worker(B.name))));
    assert_eq!(coordinator.endpoints(), vec![Some("http://a:1".to_owned()); 2]);
    assert_eq!(coordinator.job_message(&job()).unwrap().shards_ready, 2);
    let granted = report_all_ready(&coordinator, A, &before).leases;
    assert!(granted.iter().map(|it| it.epoch).eq(before.leases.iter().map(|it| it.epoch)));
    assert!(!coordinator.beat(A).may_leave);
    let to_b = coordinator.beat(B);
    assert!(to_b.leases.iter().zip(&before.leases).all(|(new, old)| new.epoch > old.epoch));
    assert_eq!(Grants::of(&to_b), Grants { leases: 2, standbys: 0 });

    // Now b serves, and a holds nothing.
    report_all_ready(&coordinator, B, &to_b);
    assert_eq!(coordinator.endpoints(), vec![Some("http://b:1".to_owned()); 2]);
    let to_a = coordinator.beat(A);
    assert!(to_a.leases.is_empty() && to_a.may_leave && to_a.is_draining);
    assert_eq!(coordinator.drain_worker(&worker(A.name), false).unwrap(), 0);
    assert_eq!(coordinator.reconcile().await.unwrap(), 0, "it gets nothing back while it drains");

    // After the drain is undone it gets its part again.
    coordinator.drain_worker(&worker(A.name), true).unwrap();
    assert_eq!(coordinator.reconcile().await.unwrap(), 0);
    assert_eq!(Grants::of(&coordinator.beat(A)), Grants { leases: 0, standbys: 1 });

    assert!(coordinator.drain_worker(&worker("unknown"), false).is_err());
}

#[tokio::test(start_paused = true)]
async fn the_last_worker_may_leave_and_a_new_one_is_prepared_first() {
    let folder = TempDir::new().unwrap();
    let (coordinator, reply) = served_by_a(&folder, 2).await;
    let leases: Vec<_> = reply.leases.iter().map(|it| ready_from(it, 8)).collect();
    let leaving = Heartbeat { leases: leases.clone(), is_leaving: true, ..Heartbeat::default() };
    let leave = |coordinator: &Coordinator| {
        coordinator.heartbeat(&worker(A.name), A.incarnation(), &leaving).unwrap()
    };
    assert!(leave(&coordinator).may_leave, "no other worker could take over");

    coordinator.join(B);
    assert!(!leave(&coordinator).may_leave);
    coordinator.reconcile().await.unwrap();
    let to_b = coordinator.beat(B);
    assert_eq!(Grants::of(&to_b), Grants { leases: 0, standbys: 2 });

    report_all_ready(&coordinator, B, &to_b);
    coordinator.reconcile().await.unwrap();
    let to_b = coordinator.beat(B);
    report_all_ready(&coordinator, B, &to_b);
    assert!(leave(&coordinator).may_leave);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_dies_meanwhile_is_followed_by_the_worker_that_prepared() {
    let folder = TempDir::new().unwrap();
    let (coordinator, reply) = served_by_a(&folder, 1).await;
    coordinator.join(B);
    coordinator.join(C);
    coordinator.drain_worker(&worker(A.name), false).unwrap();
    coordinator.reconcile().await.unwrap();
    assert_eq!(Grants::of(&coordinator.beat(B)), Grants { leases: 0, standbys: 1 });
    assert_eq!(Grants::of(&coordinator.beat(C)), Grants { leases: 0, standbys: 0 });

    // Something larger on b would send a new shard to c.
    advance(TTL / 2).await;
    coordinator.beat(B);
    coordinator.beat(C);
    advance(TTL / 2).await;
    assert_eq!(coordinator.reconcile().await.unwrap(), 1);
    assert_eq!(coordinator.shard_records()[0].owner, Some(worker(B.name)));
    assert!(epochs(&coordinator)[0] > reply.leases[0].epoch);
    assert_eq!(coordinator.endpoints(), [None]);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_cannot_prepare_is_passed_over_and_what_is_served_stays() {
    let folder = TempDir::new().unwrap();
    let (coordinator, _) = served_by_a(&folder, 1).await;
    coordinator.join(B);
    coordinator.join(C);
    coordinator.drain_worker(&worker(A.name), false).unwrap();
    coordinator.reconcile().await.unwrap();
    let to_b = coordinator.beat(B).standbys;
    let failed = report(&to_b[0], ReportedState::Failed);
    let other_key = LeaseReport { key_commitment: vec![9; 32], ..ready_from(&to_b[0], 8) };
    coordinator.send_heartbeat(B.name, B.number, &[], &[other_key]);
    coordinator.reconcile().await.unwrap();

    let to_b = coordinator.send_heartbeat(B.name, B.number, &[], &[failed]);
    assert_eq!(Grants::of(&to_b), Grants { leases: 0, standbys: 0 });
    assert_eq!(Grants::of(&coordinator.beat(C)), Grants { leases: 0, standbys: 1 });
    assert_eq!(coordinator.endpoints(), [Some("http://a:1".to_owned())]);
}

#[tokio::test(start_paused = true)]
async fn splitting_and_merging_switch_in_one_step() {
    let folder = TempDir::new().unwrap();
    let (coordinator, before) = served_by_a(&folder, 2).await;
    coordinator.join(B);
    let mut known = [(A, before.clone()), (B, coordinator.beat(B))];
    for shards in [5, 1] {
        coordinator.begin_reshard(&job(), shards).unwrap();
        assert_eq!(coordinator.reconcile().await.unwrap(), 0);
        let old = epochs(&coordinator);
        let [to_a, to_b] = known.map(|(process, reply)| report_all_ready(&coordinator, process, &reply));
        let prepared = to_a.standbys.len() + to_b.standbys.len();
        assert_eq!(prepared, shards as usize);
        let to_a = report_all_ready(&coordinator, A, &to_a);
        if !to_b.standbys.is_empty() {
            assert_eq!(coordinator.reconcile().await.unwrap(), 0, "half of the new ones are not ready");
        }
        let to_b = report_all_ready(&coordinator, B, &to_b);
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
        let now_a = report_all_ready(&coordinator, A, &to_a);
        let now_b = report_all_ready(&coordinator, B, &to_b);
        assert!(
            to_a.leases.iter().all(|lease| now_a.leases.contains(lease)),
            "the old leases are still granted"
        );
        assert!(to_b.leases.iter().all(|lease| now_b.leases.contains(lease)));
        let now_a = report_all_ready(&coordinator, A, &now_a);
        assert!(whole(&coordinator));
        let now_b = report_all_ready(&coordinator, B, &now_b);
        assert!(whole(&coordinator));
        let now_a = report_all_ready(&coordinator, A, &now_a);
        assert_eq!(now_a.leases.len() + now_b.leases.len(), shards as usize, "and end with the new ones");
        known = [(A, now_a), (B, now_b)];
    }
    assert!(epochs(&coordinator)[0] > before.leases[0].epoch);
}

#[tokio::test(start_paused = true)]
async fn a_branch_opened_meanwhile_begins_all_preparations_anew() {
    let folder = TempDir::new().unwrap();
    let (coordinator, _) = served_by_a(&folder, 1).await;
    coordinator.bind_now(bind(0..3, "x")).await.unwrap();
    coordinator.begin_reshard(&job(), 2).unwrap();
    coordinator.reconcile().await.unwrap();
    let before = coordinator.beat(A);
    report_all_ready(&coordinator, A, &before);
    let open = proto::model::OpenBranch { job: job(), from_row: 1, expected_branch: 0, parent: None };
    coordinator.open_branch(open).await.unwrap();

    // Reports on standbys of the branch before have no effect.
    let ready = |grants: &[LeaseGrant]| grants.iter().map(|it| ready_from(it, 8)).collect::<Vec<_>>();
    let leases = coordinator.beat(A).leases;
    coordinator.send_heartbeat(A.name, A.number, &ready(&leases), &ready(&before.standbys));
    coordinator.reconcile().await.unwrap();
    coordinator.send_heartbeat(A.name, A.number, &ready(&leases), &ready(&before.standbys));
    assert_eq!(coordinator.reconcile().await.unwrap(), 0);
    assert_eq!(coordinator.job_message(&job()).unwrap().shards, 1);

    // The standbys of the new branch are prepared from the beginning.
    let after = coordinator.send_heartbeat(A.name, A.number, &ready(&leases), &[]);
    assert!(after.standbys.iter().all(|it| it.branch() == 1 && it.epoch > before.standbys[1].epoch));
    report_all_ready(&coordinator, A, &after);
    coordinator.reconcile().await.unwrap();
    assert_eq!(coordinator.job_message(&job()).unwrap().shards, 2);
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_starts_anew_in_mid_handover_knows_the_owner() {
    let folder = TempDir::new().unwrap();
    let (coordinator, before) = served_by_a(&folder, 1).await;
    coordinator.join(B);
    coordinator.drain_worker(&worker(A.name), false).unwrap();
    coordinator.reconcile().await.unwrap();
    let to_b = coordinator.beat(B);
    report_all_ready(&coordinator, B, &to_b);
    coordinator.reconcile().await.unwrap();
    drop(coordinator);

    let coordinator = open(&folder);
    coordinator.register(Register { draining: true, ..registration(A.name, A.number) }).unwrap();
    coordinator.join(B);
    // The leases of a have ended; b gets the shard under a new epoch.
    assert!(report_all_ready(&coordinator, A, &before).leases.is_empty());
    coordinator.beat(B);
    coordinator.reconcile().await.unwrap();
    let to_b = coordinator.beat(B);
    assert_eq!(Grants::of(&to_b), Grants { leases: 1, standbys: 0 });
    report_all_ready(&coordinator, B, &to_b);
    assert_eq!(coordinator.endpoints(), [Some("http://b:1".to_owned())]);
    assert!(coordinator.beat(A).is_draining, "the earlier coordinator drained it");
}

/// Half of a checkpoint is written: the shard that is done may move, and the other only if its owner is about to end.
#[tokio::test(start_paused = true)]
async fn a_shard_waits_for_its_own_piece_of_a_checkpoint_alone() {
    let folder = TempDir::new().unwrap();
    let (coordinator, before) = served_by_a(&folder, 2).await;
    coordinator.join(B);
    coordinator.drain_worker(&worker(A.name), false).unwrap();
    coordinator.cluster().job_mut(&job()).unwrap().unwritten_pieces = [0, 1].into();
    coordinator.reconcile().await.unwrap();
    let to_b = coordinator.beat(B);
    report_all_ready(&coordinator, B, &to_b);
    assert_eq!(coordinator.reconcile().await.unwrap(), 0);

    coordinator.cluster().piece_written(&job(), Some(1));
    assert_eq!(coordinator.reconcile().await.unwrap(), 1);
    let owners: Vec<_> = coordinator.shard_records().into_iter().map(|it| it.owner.unwrap()).collect();
    assert_eq!(owners, [worker(A.name), worker(B.name)]);

    let leases = before.leases.iter().map(|it| ready_from(it, 8)).collect();
    let heartbeat = Heartbeat { leases, is_leaving: true, ..Heartbeat::default() };
    coordinator.heartbeat(&worker(A.name), A.incarnation(), &heartbeat).unwrap();
    let to_b = coordinator.beat(B);
    report_all_ready(&coordinator, B, &to_b);
    assert_eq!(coordinator.reconcile().await.unwrap(), 1, "a checkpoint that fails costs less");
}
