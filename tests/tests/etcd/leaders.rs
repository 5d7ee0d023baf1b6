//! Leaders and members of etcd are killed, stopped and cut off during training. No row is bound twice or lost, every
//! byte is the oracle's, and training continues.

use std::{sync::atomic::Ordering, thread, time::SystemTime};

use node::process::timestamp::rfc3339;
use proto::ServiceError;
use rustix::process::Signal;
use tests::{
    etcd::{Cable, Etcd},
    get, get_any, job, plans,
};

use crate::{LEASE, ROWS, cluster::Cluster, training::Training};

/// The row at which the fault occurs.
const FAULT_AT: u64 = 12;

#[test]
fn the_leader_is_killed_and_later_its_successor_too() {
    let etcd = Etcd::start(1);
    let store = etcd.url("killed");
    let mut cluster = Cluster::start(&[store.clone(), store.clone()]);
    let job = job("killed");
    let plan = &plans()[3];
    cluster.create(&job, plan);
    let training = Training::start(&cluster, &job);
    training.wait_for(FAULT_AT);
    let first = cluster.status(0)["coordinator_epoch"].as_u64().unwrap();
    cluster.coordinators[0].take().unwrap().kill().unwrap();
    cluster.wait_until("the other coordinator leads", |cluster| cluster.leads(1));
    assert!(
        cluster.status(1)["coordinator_epoch"].as_u64().unwrap() > first,
        "the epoch rises with each leader"
    );
    let address = cluster.urls[0].trim_start_matches("http://").to_owned();
    cluster.coordinators[0] = Some(cluster.start_coordinator(0, &address, &store));
    training.wait_for(2 * FAULT_AT);
    cluster.coordinators[1].take().unwrap().kill().unwrap();
    training.finish(&cluster, &job, plan, "leader killed, twice");
}

#[test]
fn a_leader_that_was_stopped_past_its_lease_releases_nothing() {
    let etcd = Etcd::start(1);
    let store = etcd.url("stopped");
    let cluster = Cluster::start(&[store.clone(), store]);
    let job = job("stopped");
    let plan = &plans()[4];
    cluster.create(&job, plan);
    let training = Training::start(&cluster, &job);
    training.wait_for(FAULT_AT);
    cluster.signal(0, Signal::STOP);
    thread::scope(|scope| {
        // The call waits in the stopped process's socket and is answered once that process continues.
        let thief = scope.spawn(|| cluster.bind_at(0, &job, ROWS - 1, "thief"));
        cluster.wait_until("the other coordinator leads", |cluster| cluster.leads(1));
        training.wait_for(FAULT_AT + 4);
        cluster.signal(0, Signal::CONT);
        thief.join().unwrap().expect_err("a former leader has bound a row");
    });
    // It releases nothing, not even before it learns that it has lost the lease.
    cluster.wait_until("the stopped coordinator stands by", |cluster| {
        // Nor a row that is bound already.
        let again = cluster.bind_at(0, &job, 0, "step 0").expect_err("a former leader has released a row");
        matches!(again, ServiceError::NotLeader { leader } if leader == cluster.urls[1])
    });
    training.finish(&cluster, &job, plan, "leader stopped, then continued");
    assert!(cluster.leads(1) && !cluster.leads(0));
}

#[test]
fn etcd_is_killed_for_longer_than_the_lease() {
    let mut etcd = Etcd::start(1);
    let store = etcd.url("outage");
    let cluster = Cluster::start(&[store.clone(), store]);
    let job = job("outage");
    let plan = &plans()[8];
    cluster.create(&job, plan);
    let training = Training::start(&cluster, &job);
    training.wait_for(FAULT_AT);
    etcd.kill(0);
    cluster.wait_until("no coordinator leads", |cluster| !cluster.leads(0) && !cluster.leads(1));
    let before = training.done.load(Ordering::SeqCst);
    thread::sleep(LEASE);
    assert!(training.done.load(Ordering::SeqCst) <= before + 1, "rows were released without etcd");
    cluster.wait_until("neither knows a leader", |cluster| {
        cluster.lists(0, "leader_unknown") && cluster.lists(1, "leader_unknown")
    });
    etcd.restart(0);
    training.finish(&cluster, &job, plan, "etcd killed, and started again after a lease");
}

#[test]
fn a_leader_that_is_cut_off_from_etcd_is_replaced() {
    let etcd = Etcd::start(1);
    let cable = Cable::to(etcd.address(0));
    let cluster = Cluster::start(&[format!("etcd://{}/cut", cable.address()), etcd.url("cut")]);
    let job = job("cut");
    let plan = &plans()[9];
    cluster.create(&job, plan);
    let training = Training::start(&cluster, &job);
    training.wait_for(FAULT_AT);
    cable.cut();
    cluster.wait_until("the other coordinator leads", |cluster| {
        let old = cluster.leads(0);
        let new = cluster.leads(1);
        assert!(!(old && new), "two coordinators lead");
        new
    });
    cluster.bind_at(0, &job, ROWS - 1, "thief").expect_err("a row was bound without etcd");
    cable.mend();
    training.finish(&cluster, &job, plan, "leader cut off from etcd");
    cluster.wait_until("the coordinator that was cut off knows the new leader", |cluster| {
        cluster.status(0)["leader"] == cluster.urls[1].as_str()
    });
}

#[test]
fn a_standby_that_is_cut_off_from_etcd_says_within_a_lease_that_it_knows_no_leader() {
    let etcd = Etcd::start(1);
    let cable = Cable::to(etcd.address(0));
    let cluster = Cluster::start(&[etcd.url("silent"), format!("etcd://{}/silent", cable.address())]);
    let job = job("silent");
    cluster.create(&job, &plans()[3]);
    let leader = cluster.urls[0].clone();
    let follows = |cluster: &Cluster| {
        let status = cluster.status(1);
        status["leader"] == leader.as_str()
            && status["healthy"] == true
            && status["leader_unknown_since"].is_null()
    };
    let endpoint = || cluster.coordinators[1].as_ref().unwrap().metrics();
    let critical = |count: u8| {
        let line = format!("rustle_coordinator_problems{{severity=\"critical\"}} {count}\n");
        get(endpoint(), "/metrics").contains(&line)
    };
    cluster.wait_until("the second stands by", follows);
    cluster.wait_until("without a problem in its metrics", |_| critical(0));

    cable.cut();
    // However late a busy machine is: what is shown after a lease without an answer names no leader.
    let mut followed_at = SystemTime::now();
    cluster.wait_until("its status says so", |cluster| {
        let at = SystemTime::now();
        let is_unknown = cluster.lists(1, "leader_unknown");
        if !is_unknown {
            followed_at = at;
        }
        is_unknown
    });
    let since = cluster.status(1)["leader_unknown_since"].as_str().unwrap().to_owned();
    let earliest = rfc3339(followed_at - LEASE);
    assert!(
        earliest <= since,
        "followed a leader at {followed_at:?}, a lease after {earliest}, by an answer of {since}"
    );
    cluster.wait_until("its metrics say so", |_| critical(1));
    let (code, body) = get_any(endpoint(), "/readyz");
    assert!(code == 503 && body.contains("the leader is unknown since 20"), "{code} {body}");
    let status = cluster.status(1);
    assert_eq!((&status["healthy"], &status["leader"]), (&false.into(), &"".into()), "{status}");
    let what = status["problems"][0]["what"].as_str().unwrap();
    assert!(what.contains(&format!("{leader} led then")) && what.contains("can't be reached"), "{what}");
    assert!(status["problems"][0]["since"].is_string(), "{status}");
    let refused = cluster.bind_at(1, &job, 0, "step 0").unwrap_err();
    assert!(matches!(&refused, ServiceError::NotLeader { leader } if leader.is_empty()), "{refused}");
    assert!(cluster.leads(0), "the leader has not lost etcd");

    cable.mend();
    cluster.wait_until("it knows the leader again", follows);
    cluster.wait_until("and its metrics have no problem", |_| critical(0));
}

#[test]
fn one_member_of_three_may_be_lost() {
    let mut etcd = Etcd::start(3);
    let store = etcd.url("members");
    let cluster = Cluster::start(&[store.clone(), store]);
    let job = job("members");
    let plan = &plans()[3];
    cluster.create(&job, plan);
    let training = Training::start(&cluster, &job);
    // All in turn, so that both etcd's own leader and the member that the coordinator talks to are among them.
    for member in 0..3 {
        training.wait_for(FAULT_AT * member as u64 / 2 + 6);
        etcd.kill(member);
        training.wait_for(FAULT_AT * member as u64 / 2 + 10);
        etcd.restart(member);
    }
    training.finish(&cluster, &job, plan, "each member of three killed in turn");
}
