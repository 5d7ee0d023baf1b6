//! `rustle ledger compact --store`: destroyed jobs leave etcd, and what is bound of the others stays bound.

use std::process::{Command, Output};

use rustix::process::Signal;
use tests::{etcd::Etcd, job, plans, program};

use crate::cluster::Cluster;

const ROWS: u64 = 30;

fn compact(store: &str) -> Output {
    Command::new(program())
        .args(["ledger", "compact", "--format", "json", "--store", store])
        .env_remove("RUSTLE_STORE")
        .output()
        .unwrap()
}

fn refusal(store: &str) -> String {
    let output = compact(store);
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn destroyed_jobs_are_archived_while_no_coordinator_leads() {
    let etcd = Etcd::start(1);
    let store = etcd.url("compact");
    let mut cluster = Cluster::start(std::slice::from_ref(&store));
    let [old, running] = ["old", "running"].map(job);
    for job in [&old, &running] {
        cluster.create(job, &plans()[3]);
    }
    cluster.bind_at(0, &running, 7, "first").unwrap();
    for row in 0..ROWS {
        cluster.bind_at(0, &old, row, "first").unwrap();
    }
    cluster.runtime.block_on(cluster.client().jobs().destroy(&old)).unwrap();
    let said = refusal(&store);
    assert!(said.contains(&format!("{} leads the ledger", cluster.urls[0])), "{said}");

    let bytes = || etcd.control(&["get", "--prefix", "compact/"]).len();
    let before = bytes();
    cluster.signal(0, Signal::TERM);
    let stopped = cluster.coordinators[0].take().unwrap();
    let answered = loop {
        // SIGTERM gives up the lead before the process ends.
        let output = compact(&store);
        if output.status.success() {
            break serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap();
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains("leads the ledger"), "{said}");
    };
    drop(stopped);
    assert_eq!(answered["archived"], serde_json::json!(["old"]), "{answered}");
    assert_eq!(answered["bindings_removed"], ROWS, "{answered}");
    assert!(bytes() < before, "{} bytes of {before}", bytes());

    let address = cluster.urls[0].trim_start_matches("http://").to_owned();
    cluster.coordinators[0] = Some(cluster.start_coordinator(0, &address, &store));
    cluster.wait_until("the coordinator leads", |cluster| cluster.leads(0));
    cluster.bind_at(0, &running, 7, "first").expect("the same row to the same commitment");
    let refused = cluster.bind_at(0, &running, 7, "second").unwrap_err();
    assert_eq!(refused.kind(), "already_bound", "{refused}");
    let refused = cluster.bind_at(0, &old, 7, "first").unwrap_err();
    assert_eq!(refused.kind(), "job_state", "{refused}");

    let said = refusal(&etcd.url("compakt"));
    assert!(said.contains("no ledger named etcd://"), "{said}");
    assert!(etcd.control(&["get", "--prefix", "compakt/"]).is_empty(), "a wrong prefix begins no ledger");
}
